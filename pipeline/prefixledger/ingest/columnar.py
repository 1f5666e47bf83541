"""Reads Parquet and Arrow files a few thousand rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.errors import InputError, UsageError
from prefixledger.ingest.labels import with_labels
from prefixledger.ingest.parse import parse_values
from prefixledger.ingest.ranges import PARSE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.engine import Engine
    from prefixledger.errors import Place
    from prefixledger.ingest.batch import Batch
    from prefixledger.ingest.plan import MapPlan
    from prefixledger.ingest.reader import Context

_BATCH_ROWS: Final = 8_192


def columnar_batches(
    path: Path, kind: str, context: Context, place: Place, engine: Engine
) -> Iterator[Batch]:
    """Parse a columnar file.

    Args:
        path: The file, unpacked.
        kind: ``parquet`` or ``arrow``.
        context: The input; its plan names the columns.
        place: Where messages point.
        engine: What parses.

    Raises:
        InputError: It cannot be read as what it says it is.
        UsageError: It lacks a column that the map names.
    """
    try:
        schema, batches = _open(path, kind)
        if context.plan is not None:
            _check_columns(schema, context.plan, place)
        yield from engine.map(PARSE, _parse_rows, _numbered(batches), context)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"it cannot be read as {kind}: {error}", place=place) from error


def first_rows(path: Path, kind: str, n_rows: int) -> tuple[tuple[str, ...], tuple[dict[str, Any], ...]]:
    """Return the column names and the first rows of a columnar file; none where it cannot be read as one."""
    try:
        schema, batches = _open(path, kind)
        for batch in batches:
            return tuple(schema.names), tuple(_rows(batch.slice(0, n_rows)))
    except (pa.ArrowException, OSError):
        return (), ()  # reading it will say why
    return tuple(schema.names), ()


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each with the 1-based number of its first row."""
    row = 1
    for batch in batches:
        # A slice takes the whole of what it was cut from along to another process.
        cut = batch.get_total_buffer_size() > 2 * batch.nbytes
        yield row, batch.take(pa.array(range(batch.num_rows))) if cut else batch
        row += batch.num_rows


def _parse_rows(context: Context, item: tuple[int, pa.RecordBatch]) -> Batch:
    row, batch = item
    return with_labels(parse_values(enumerate(_rows(batch), start=row), context))


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = {name: _python(batch.column(at)) for at, name in enumerate(batch.schema.names)}
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def _open(path: Path, kind: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if kind == "parquet":
        file = pq.ParquetFile(path)
        return file.schema_arrow, file.iter_batches(batch_size=_BATCH_ROWS)
    reader = pa.ipc.open_file(
        pa.OSFile(str(path))
    )  # a mapped file that is shortened meanwhile ends the process
    whole = (reader.get_batch(number) for number in range(reader.num_record_batches))
    return reader.schema, (
        batch.slice(start, _BATCH_ROWS) for batch in whole for start in range(0, batch.num_rows, _BATCH_ROWS)
    )


def _check_columns(schema: pa.Schema, plan: MapPlan, place: Place) -> None:
    needed = {plan.times[0][1].source, *((plan.path.source,) if plan.path else ())}
    needed |= {field.source for _, field in (*plan.times, *plan.texts, *plan.counts) if field.source}
    lacking = sorted(
        name for name in needed if name.partition(".")[0] not in schema.names and name not in schema.names
    )
    if lacking:
        hint = f"columns: {', '.join(schema.names)}"
        raise UsageError(f"the file has no column {lacking[0]!r}", place=place, hint=hint)


def _python(column: pa.Array) -> list[Any]:
    """Return a column as Python values; lists of numbers by way of one flat list, which is ten times as fast."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # nanoseconds have no Python type
        column = pc.cast(column, pa.timestamp("us", tz=kind.tz), safe=False)
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_integer(kind.value_type) or column.values.null_count:
        return list(column.to_pylist())
    flat = column.values.to_numpy(zero_copy_only=False).tolist()
    ends = column.offsets.to_numpy().tolist()
    null = column.is_null().to_numpy(zero_copy_only=False).tolist()
    spans = zip(ends[:-1], ends[1:], null, strict=True)
    return [None if absent else flat[start:end] for start, end, absent in spans]
