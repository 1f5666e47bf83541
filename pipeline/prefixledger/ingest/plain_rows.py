"""Rows as columns: a start, a prompt length, ids, and little else, taken into an input without a look at each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from prefixledger.ingest.records import Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_ABSENT: Final = Row(started_us=0, prompt_tokens=None)


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows that have nothing but what is here; all else is as ``Row`` has it by default.

    Attributes:
        block_size: Tokens a block.
        counts: int64[n], full blocks of each row.
        ids: uint64[m], their ids, row after row.
        columns: Fields of ``Row`` and their values: int64[n] with -1 for None, or names.
    """

    block_size: int
    counts: NDArray[np.int64]
    ids: NDArray[np.uint64]
    columns: Mapping[str, NDArray[np.int64] | list[str | None]]

    def numbers(self, field: str) -> NDArray[np.int64]:
        """Return int64[n], a field of numbers, -1 where absent."""
        found = self.columns[field]
        assert not isinstance(found, list)
        return found

    def spilled(self, schema: pa.Schema, namespace: int) -> pa.RecordBatch:
        """Return the rows as they are put aside.

        Args:
            schema: ``collect.ROW_SCHEMA``.
            namespace: Number of their namespace.
        """
        n_rows = self.counts.size
        known: dict[str, Any] = {
            name: column if isinstance(column, list) else pa.array(column, mask=column < 0)
            for name, column in self.columns.items()
        }
        known["extras"] = pa.MapArray.from_arrays(
            np.zeros(n_rows + 1, np.int32), pa.array([], pa.string()), pa.array([], pa.string())
        )
        known["n_blocks"] = pa.array(self.counts.astype(np.int32))
        same = {"namespace_number": namespace, "block_size": self.block_size, "keyed": True}
        return pa.record_batch([_column(f, known, same, n_rows) for f in schema], schema=schema)


def _column(field: pa.Field, known: Mapping[str, Any], same: Mapping[str, Any], n_rows: int) -> pa.Array:
    if field.name in known:
        column = known[field.name]
        return pa.array(column, field.type) if isinstance(column, list) else column
    value = same[field.name] if field.name in same else getattr(_ABSENT, field.name)
    return pa.nulls(n_rows, field.type) if value is None else pa.repeat(pa.scalar(value, field.type), n_rows)
