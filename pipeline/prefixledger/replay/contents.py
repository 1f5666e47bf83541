"""Loads what prompts are made of, over all sources: one forest of pieces, equal content under one number."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.replay.block_contents import block_contents, nodes_of, telling_namespaces
from prefixledger.replay.tool_lists import number_tools
from prefixledger.schema_contents import CONTENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Lookups, Rows
    from prefixledger.workspace import Workspace

COLUMNS = ("content_node", "source_node", "tenant", "session_id", "namespace", "model")
"""Columns of requests that are needed where the contents of prompts are known."""
KINDS = ("tools", "system", "message")
_NAMESPACE_FIELDS = ("model", "adapter", "cache_salt", "namespace")


@dataclass(frozen=True, slots=True)
class Contents:
    """The pieces of all prompts; lookups in order of arrival.

    Attributes:
        parent: int64[n], piece before each, negative for the first of a prompt.
        end: int64[n], tokens from the start of the prompt to its end.
        blocks_from: First piece that is a block known by its id; of all before it the content was logged.
        piece: int64[n], number of its content; equal content has one number, whatever stands before it.
        mask: int64[n], number of its content without what may change from call to call.
        n_pieces: Distinct contents.
        kind: int8[n], index into ``KINDS``, -1 where that is not known.
        length: int64[n], tokens of a piece of token ids or of a part, bytes of one of text.
        marks: What may change from call to call, by number of content.
        node: int64[m], last piece of each lookup, -1 where its content is not known.
        session: int64[m], -1 for none; ids of two tenants are two sessions.
        tenant: int64[m], -1 for none.
        namespace: int64[m].
        differs: For two numbers of namespaces the first field in which they differ.
        tools: int64[m], number of the tools of each prompt as sent, -1 where they are not known.
        same_tools: int64[m], the same where order counts for nothing.
    """

    parent: NDArray[np.int64]
    end: NDArray[np.int64]
    blocks_from: int
    piece: NDArray[np.int64]
    mask: NDArray[np.int64]
    n_pieces: int
    kind: NDArray[np.int8]
    length: NDArray[np.int64]
    marks: dict[int, str]
    node: NDArray[np.int64]
    session: NDArray[np.int64]
    tenant: NDArray[np.int64]
    namespace: NDArray[np.int64]
    namespaces: tuple[str, ...]
    tools: NDArray[np.int64]
    same_tools: NDArray[np.int64]

    def model_codes(self) -> NDArray[np.int64]:
        """Return int64[namespaces], equal for namespaces of one model."""
        models = [json.loads(name)["model"] for name in self.namespaces]
        return np.array([models.index(model) for model in models], np.int64)

    def differs(self, one: int, other: int) -> str | None:
        """Return in what two namespaces differ first: model, adapter, cache_salt, namespace or template; None if equal."""
        if one == other:
            return None
        here, there = (json.loads(self.namespaces[number]) for number in (one, other))
        return next((name for name in _NAMESPACE_FIELDS if here[name] != there[name]), "template")


def read_contents(workspace: Workspace, rows: Rows, lookups: Lookups) -> Contents | None:
    """Load the pieces of all lookups; None where no log of the workspace says what its prompts are made of.

    Args:
        workspace: Where they are.
        rows: Every row, with ``COLUMNS``.
        lookups: Those that ask a cache.
    """
    telling = telling_namespaces(workspace)
    whole, base, base_of_ids = _stacked(workspace, telling)
    if not base and not base_of_ids:
        return None
    label = _labels(whole, "label_hi", "label_lo")
    names, piece = np.unique(label, return_inverse=True)
    marks, mask = _marks(workspace, names)
    low = whole["label_lo"].to_numpy()
    chosen = rows.table.take(pa.array(lookups.request_row))
    node = _nodes(chosen, base)
    if telling:
        node = np.where(node >= 0, node, nodes_of(chosen, telling, base_of_ids))
    tools, same_tools = number_tools(workspace, chosen)
    namespace = chosen["namespace"].combine_chunks().dictionary_encode()
    session, tenant = _numbered(chosen["session_id"]), _numbered(chosen["tenant"])
    return Contents(
        parent=whole["parent"].to_numpy(),
        end=whole["end_token"].to_numpy(),
        blocks_from=min(base_of_ids.values(), default=len(whole)),
        piece=piece.astype(np.int64),
        mask=mask[piece],
        n_pieces=names.size,
        kind=_codes(whole["kind"], KINDS).astype(np.int8),
        length=(low & np.uint64((1 << 24) - 1)).astype(np.int64),
        marks=marks,
        node=node,
        session=_sessions(session, tenant),
        tenant=tenant,
        namespace=namespace.indices.to_numpy().astype(np.int64),
        namespaces=tuple(namespace.dictionary.to_pylist()),
        tools=tools,
        same_tools=same_tools,
    )


def _stacked(
    workspace: Workspace, telling: dict[str, dict[str, int]]
) -> tuple[pa.Table, dict[str, int], dict[str, int]]:
    """Return the pieces of all sources in one table, and the first of each: of what was logged, and of block ids."""
    stored = {path.stem: pq.ParquetFile(path).read() for path in sorted(workspace.contents.glob("*.parquet"))}
    by_ids = {source: block_contents(workspace, source) for source in sorted(telling)}
    tables, begins, first = [CONTENTS.arrow().empty_table()], [], 0
    for table in (*stored.values(), *by_ids.values()):
        own = table["parent"].to_numpy()
        tables.append(table.set_column(0, "parent", pa.array(np.where(own >= 0, own + first, -1))))
        begins.append(first)
        first += len(table)
    names = zip((*stored, *by_ids), begins, strict=True)
    base = dict(itertools.islice(names, len(stored)))
    return pa.concat_tables([table.cast(CONTENTS.arrow()) for table in tables]), base, dict(names)


def _labels(table: pa.Table, high: str, low: str) -> NDArray[np.void]:
    out = np.empty(len(table), np.dtype([("hi", "<u8"), ("lo", "<u8")]))
    out["hi"], out["lo"] = table[high].to_numpy(), table[low].to_numpy()
    return out


def _marks(workspace: Workspace, names: NDArray[np.void]) -> tuple[dict[int, str], NDArray[np.int64]]:
    """Return the marks of pieces by number, and int64[pieces], number of the mask of each: its own where it has none."""
    mask = np.arange(names.size, dtype=np.int64)
    files = sorted(workspace.pieces.glob("*.parquet"))
    if not files:
        return {}, mask
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
    label, masks = _labels(table, "label_hi", "label_lo"), _labels(table, "mask_hi", "mask_lo")
    at = np.minimum(np.searchsorted(names, label), names.size - 1)
    known = names[at] == label
    _, number = np.unique(masks, return_inverse=True)
    mask[at[known]] = names.size + number[known]
    texts = table["marks"].to_pylist()
    return {int(at[row]): texts[row] for row in np.flatnonzero(known).tolist()}, mask


def _nodes(chosen: pa.Table, base: dict[str, int]) -> NDArray[np.int64]:
    own = pc.fill_null(chosen["content_node"], -1).to_numpy()
    source = chosen["source"].combine_chunks().dictionary_encode()
    shift = np.array([base.get(name, 0) for name in source.dictionary.to_pylist()], np.int64)
    return np.where(own >= 0, own + shift[source.indices.to_numpy()], -1)


def _numbered(column: pa.ChunkedArray) -> NDArray[np.int64]:
    codes = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False), np.int64)


def _sessions(session: NDArray[np.int64], tenant: NDArray[np.int64]) -> NDArray[np.int64]:
    pair = np.where(session >= 0, session * (tenant.max(initial=-1) + 2) + tenant + 1, -1)
    _, number = np.unique(np.append(pair, -1), return_inverse=True)
    return number[:-1].astype(np.int64) - 1


def _codes(column: pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.int64]:
    codes = pc.index_in(column.combine_chunks(), value_set=pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False), np.int64)


def needed(columns: Iterable[str], workspace: Workspace) -> list[str]:
    """Return columns of requests that a replay reads: the given ones, and ``COLUMNS`` where contents are known."""
    more = COLUMNS if any(workspace.contents.glob("*.parquet")) or telling_namespaces(workspace) else ()
    return list(dict.fromkeys([*columns, *more]))
