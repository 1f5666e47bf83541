"""Reads and writes the Parquet files of the index as plain arrays."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.schema import BLOCKS, LAST_BLOCKS
from prefixledger.workspace import replacing, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_ROW_GROUP = 1 << 20
_KEYS_AT_ONCE = 1 << 18
"""4 MiB: a part of the index keeps few of them, and reads all."""
_DELTA = {
    "block": "DELTA_BINARY_PACKED",
    "parent": "DELTA_BINARY_PACKED",
    "first_seen": "DELTA_BINARY_PACKED",
}
# A digest does not compress, and names go through the dictionary: 3.45 million blocks are written in 0.3 s instead
# of 1.9 s and read in 0.03 s instead of 0.3 s.
_COMPRESSION = {"key": "none", "namespace": "zstd", "block": "zstd", "parent": "zstd", "first_seen": "zstd"}


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks in order of their number.

    Attributes:
        parent: int64[n], block number of the parent, -1 for the first block of a prompt.
        key: uint64[n, 2], little-endian words of the key.
        namespace: int32[n], index into ``namespaces``.
        first_seen_us: int64[n], earliest request that has the block.
        namespaces: Their names.
    """

    parent: NDArray[np.int64]
    key: NDArray[np.uint64]
    namespace: NDArray[np.int32]
    first_seen_us: NDArray[np.int64]
    namespaces: tuple[str, ...]


def write_blocks(path: Path, first_block: int, blocks: Blocks) -> None:
    """Write the blocks that one source brought."""
    count = blocks.parent.shape[0]
    names = _named(blocks)
    key = pa.py_buffer(np.ascontiguousarray(blocks.key, dtype="<u8"))
    contract = BLOCKS.arrow()
    # The Arrow schema in the file says string, the array at hand is a dictionary of strings: a column of 3.45 million
    # names of 150 characters is never spelt out.
    written = pa.schema(
        [f.with_type(names.type) if f.name == "namespace" else f for f in contract],
        metadata={b"ARROW:schema": base64.b64encode(contract.serialize().to_pybytes())},
    )
    columns = [
        pa.array(np.arange(first_block, first_block + count)),
        pa.array(blocks.parent, mask=blocks.parent < 0),
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, key]),
        names,
        pa.array(blocks.first_seen_us).cast(contract.field("first_seen").type),
    ]
    with replacing(path) as temporary:
        pq.write_table(
            pa.table(columns, schema=written),
            temporary,
            row_group_size=_ROW_GROUP,
            use_dictionary=["namespace"],
            column_encoding=_DELTA,
            compression=_COMPRESSION,
            write_statistics=["block", "parent", "first_seen"],
        )


def _named(blocks: Blocks) -> pa.DictionaryArray:
    """Return the namespaces by name; a dictionary with a name twice would leave stray memory in the file."""
    used = np.flatnonzero(np.bincount(blocks.namespace, minlength=len(blocks.namespaces)))
    distinct: dict[str, int] = {}
    code = np.zeros(len(blocks.namespaces), np.int32)
    code[used] = [distinct.setdefault(blocks.namespaces[index], len(distinct)) for index in used]
    return pa.DictionaryArray.from_arrays(
        pa.array(code[blocks.namespace]), pa.array(list(distinct), pa.string())
    )


def read_blocks(paths: Sequence[Path], *, keys: bool = True) -> Blocks:
    """Read files of blocks, given in order of their numbers.

    Args:
        paths: The files.
        keys: Whether the keys are wanted; else ``key`` is empty.
    """
    columns = ["parent", "namespace", "first_seen", *(["key"] if keys else [])]
    tables = [pq.ParquetFile(path, read_dictionary=["namespace"]).read(columns) for path in paths]
    if not tables:
        return empty_blocks()
    table = pa.concat_tables(tables)
    names = table["namespace"].unify_dictionaries().combine_chunks()
    if isinstance(names, pa.ChunkedArray):  # of a table without rows
        names = pa.array([], pa.string()).dictionary_encode()
    return Blocks(
        parent=integers(table["parent"]),
        key=_key_words(table["key"]) if keys else np.empty((0, 2), np.uint64),
        namespace=np.array(names.indices.to_numpy()),
        first_seen_us=integers(table["first_seen"]),
        namespaces=tuple(names.dictionary.to_pylist()),
    )


def read_keys(path: Path) -> Iterator[NDArray[np.uint64]]:
    """Yield uint64[k, 2], the keys of one file of blocks, some at a time."""
    for batch in pq.ParquetFile(path).iter_batches(_KEYS_AT_ONCE, columns=["key"], use_threads=False):
        yield _key_words(pa.chunked_array([batch["key"]]))


def read_first_seen(paths: Sequence[Path]) -> NDArray[np.int64]:
    """Return int64[n], the first uses of the blocks in some files, given in order of their numbers."""
    found = [integers(pq.ParquetFile(path).read(["first_seen"])["first_seen"]) for path in paths]
    return np.concatenate([np.empty(0, np.int64), *found])


def empty_blocks() -> Blocks:
    """Return no blocks."""
    none = np.empty(0, np.int64)
    return Blocks(none, np.empty((0, 2), np.uint64), np.empty(0, np.int32), none, ())


def integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a column of numbers or times as a writable int64 array, null as -1."""
    return np.array(column.cast(pa.int64()).fill_null(-1).to_numpy())


def _key_words(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    words = np.empty((len(column), 2), np.uint64)
    begin = 0
    for chunk in column.chunks:
        bytes_ = chunk.buffers()[1]
        if len(chunk):
            found = np.frombuffer(bytes_, dtype="<u8")[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
            words[begin : begin + len(chunk)] = found.reshape(-1, 2)
        begin += len(chunk)
    return words


@dataclass(frozen=True, slots=True)
class SourceForest:
    """The forest of one source, see ``schema.PATHS``; int64[k], uint64[k], uint64[k]."""

    parent: NDArray[np.int64]
    label_hi: NDArray[np.uint64]
    label_lo: NDArray[np.uint64]


def count_paths(path: Path) -> int:
    """Return the blocks of the forest of one source."""
    return int(pq.ParquetFile(path).metadata.num_rows) if path.exists() else 0


def read_paths(path: Path) -> SourceForest:
    """Read the forest of one source; a source without keyed rows may have no file."""
    if not path.exists():
        return SourceForest(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64))
    table = pq.ParquetFile(path).read(["parent", "label_hi", "label_lo"])
    return SourceForest(integers(table["parent"]), table["label_hi"].to_numpy(), table["label_lo"].to_numpy())


@dataclass(frozen=True, slots=True)
class Uses:
    """The rows of one source, in order of date and place in the file.

    Attributes:
        last_node: int64[m], last full block in the forest of the source, -1 where there is none.
        started_us: int64[m].
        source_line: int64[m].
    """

    last_node: NDArray[np.int64]
    started_us: NDArray[np.int64]
    source_line: NDArray[np.int64]


def read_uses(paths: Sequence[Path]) -> Uses:
    """Read which blocks the rows of one source use, and when."""
    columns = ["source_node", "started_at", "source_line"]
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    if not tables:
        none = np.empty(0, np.int64)
        return Uses(none, none, none)
    table = pa.concat_tables(tables)
    return Uses(
        last_node=integers(table["source_node"]),
        started_us=integers(table["started_at"]),
        source_line=integers(table["source_line"]),
    )


def write_last_blocks(
    path: Path, source: str, source_line: NDArray[np.int64], last_block: NDArray[np.int64]
) -> None:
    """Write the last block of each row of one source, -1 where it has none, in the order of ``read_uses``."""
    names = pa.array([source] * source_line.shape[0], pa.string())
    columns = [names, pa.array(source_line), pa.array(last_block, mask=last_block < 0)]
    write_table(path, pa.table(columns, schema=LAST_BLOCKS.arrow()))
