"""Tells what block ids prove of the content of prompts: equal ids that are no more than names of content, whoever asks."""

from __future__ import annotations

import json
from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.ingest.forest_kernel import roots_of, sums_down
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.content_kernel import LENGTH_MASK, name_pieces
from prefixledger.schema_contents import CONTENTS
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

_GLOBAL = "ids:global"


def telling_namespaces(workspace: Workspace) -> dict[str, dict[str, int]]:
    """Return, by source, the namespaces whose block ids can be met again under another key, with their block sizes.

    Ids are compared where they mean the same in every namespace (global scope) and more than one has them, or where they
    name content and not prefixes. Ids that are chained and local prove nothing that their keys do not.

    Args:
        workspace: Where the logs are.
    """
    sources = _sources(workspace)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    shared: dict[int, set[str]] = defaultdict(set)
    listed = [(entry, *each) for entry in sources for each in _namespaces(entry)]
    for _, name, scope, size in listed:
        if scope == _GLOBAL:
            shared[size].add(name)
    for entry, name, scope, size in listed:
        content = scope.startswith("ids:") and entry.get("ids") == "content"
        if not (workspace.paths / f"{entry['source']}.parquet").exists():
            continue
        if size and (content or (scope == _GLOBAL and len(shared[size]) > 1)):
            found[entry["source"]][name] = size
    return dict(found)


def block_contents(workspace: Workspace, source: str) -> pa.Table:
    """Return the forest of the blocks of a source as one of pieces, see ``schema_contents.CONTENTS``; row by row.

    Args:
        workspace: Where it is.
        source: Name of the source.
    """
    paths = pq.ParquetFile(workspace.paths / f"{source}.parquet").read()
    parent = read_only(paths["parent"].to_numpy(), np.int64)
    (entry,) = (entry for entry in _sources(workspace) if entry["source"] == source)
    told = _namespaces(entry)
    sizes = np.array([size for _, _, size in told], np.int64)
    scopes = np.array([_hashed(scope) for _, scope, _ in told], np.uint64)
    root = np.asarray(roots_of(parent))
    size = sizes[root]
    words = np.stack([scopes[root], paths["label_hi"].to_numpy(), paths["label_lo"].to_numpy()], axis=1)
    begins = 3 * np.arange(parent.size + 1)
    high, low = name_pieces(
        read_only(words.reshape(-1), np.uint64),
        read_only(begins[:-1], np.int64),
        read_only(begins[1:], np.int64),
    )
    low = (low & ~np.uint64(LENGTH_MASK)) | size.astype(np.uint64)
    end = np.asarray(sums_down(parent, size))
    columns: list[Any] = [parent, high, low, end, pa.nulls(parent.size, pa.string())]
    return pa.table(columns, schema=CONTENTS.arrow())


def _sources(workspace: Workspace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_manifest(workspace)["sources"]
    return found


def _namespaces(entry: dict[str, Any]) -> list[tuple[str, str, int]]:
    # One that is no object does not say what its ids mean, so they prove nothing.
    names = [each["name"] for each in entry["namespaces"] if each["name"].startswith("{")]
    return [(name, told["scope"], told["block_size"]) for name in names for told in (json.loads(name),)]


def _hashed(scope: str) -> int:
    return int.from_bytes(blake2b(scope.encode(), digest_size=8).digest(), "little")


def nodes_of(chosen: pa.Table, telling: dict[str, dict[str, int]], base: dict[str, int]) -> NDArray[np.int64]:
    """Return int64[m], last block of each lookup among the pieces, -1 where its ids tell nothing.

    Args:
        chosen: Source, namespace and ``source_node`` of every lookup.
        telling: See ``telling_namespaces``.
        base: First piece of each source.
    """
    pairs = pa.table([chosen["source"], chosen["namespace"]], names=["source", "namespace"])
    columns = [pairs[name].combine_chunks().dictionary_encode() for name in pairs.column_names]
    source, namespace = (column.indices.to_numpy(zero_copy_only=False) for column in columns)
    shift = np.full((len(columns[0].dictionary), len(columns[1].dictionary)), -1, np.int64)
    for row, name in enumerate(columns[0].dictionary.to_pylist()):
        for column, other in enumerate(columns[1].dictionary.to_pylist()):
            if other in telling.get(name, ()):
                shift[row, column] = base[name]
    own = chosen["source_node"].fill_null(-1).to_numpy()
    first = shift[source, namespace]
    return np.where((own >= 0) & (first >= 0), own + first, -1)
