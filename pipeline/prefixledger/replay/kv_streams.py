"""KV events of a workspace, as one stream for each engine, and the blocks of the log that they speak of."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.index.key_map import KeyMap
from prefixledger.kernels.blake2b_kernel import chain_keys, root_keys
from prefixledger.kernels.dynamo_keys import sequence_hash
from prefixledger.schema_engines import KV_EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.index import Forest
    from prefixledger.workspace import Workspace

DEVICE = "GPU"
_BESIDE = ("adapter", "cache_salt", "block_size")
_TOKENS, _LOGGED = "tokens", "ids:global"
"""Scopes of keys made of tokens here, and of ids that mean the same in every file: Dynamo's sequence hashes."""
_UNKNOWN = -2
"""Parent of a block whose parent nobody stored before it."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events about blocks in the memory of the device, by time; equal times as in the input.

    Attributes:
        at_us: int64[n].
        kind: Of each: ``stored``, ``removed`` or ``cleared``.
        stream: int64[n], number of the engine that published each.
        block_hash: Of each, the engine's own; None for ``cleared``.
        table: All their columns.
        streams: Source, replica as said and rank of each engine.
        left_out: Events about other memory, or other groups of layers than the first.
    """

    at_us: NDArray[np.int64]
    kind: list[str]
    stream: NDArray[np.int64]
    block_hash: list[int | None]
    table: pa.Table
    streams: tuple[tuple[str, str | None, int | None], ...]
    left_out: int


def read_events(workspace: Workspace) -> Events | None:
    """Return the KV events of a workspace; None where it has none."""
    files = sorted(workspace.kv_events.glob("*.parquet"))
    if not files:
        return None
    table = pa.concat_tables([KV_EVENTS.arrow().empty_table(), *(pq.read_table(file) for file in files)])
    ours = pc.and_(
        pc.equal(pc.fill_null(table["medium"], DEVICE), DEVICE), pc.equal(pc.fill_null(table["group"], 0), 0)
    )
    kept = table.filter(ours)
    order = np.argsort(kept["at"].cast(pa.int64()).to_numpy(), kind="stable")
    kept = kept.take(pa.array(order))
    names = list(zip(*(kept[name].to_pylist() for name in ("source", "replica", "rank")), strict=True))
    numbers: dict[tuple[str, str | None, int | None], int] = {}
    stream = np.asarray([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    return Events(
        at_us=np.array(kept["at"].cast(pa.int64()).to_numpy(), np.int64),
        kind=kept["kind"].to_pylist(),
        stream=stream,
        block_hash=kept["block_hash"].to_pylist(),
        table=kept,
        streams=tuple(numbers),
        left_out=len(table) - len(kept),
    )


def of_engines(events: Events, engine: Sequence[int]) -> Events:
    """Return the events numbered by engine, where several files tell of one.

    Args:
        events: Events by stream.
        engine: Number of the engine of each stream.
    """
    first = {number: events.streams[at] for at, number in reversed(list(enumerate(engine)))}
    streams = tuple(first[number] for number in range(len(first)))
    return replace(events, stream=np.asarray(engine, np.int64)[events.stream], streams=streams)


def scopes(events: Events) -> list[Any]:
    """Return for each stream over what its hashes mean the same.

    Where vLLM's rule gives every first block its hash, hashes are the same in all processes under that rule; else
    (random seeds up to 0.28, other engines) they mean something in their own stream only.
    """
    parent, label = (events.table[name].to_pylist() for name in ("parent_hash", "label"))
    plain = events.table.select(["adapter", "cache_salt", "hash_rule"]).to_pylist()
    rules: dict[int, set[str | None]] = {}
    for row, kind in enumerate(events.kind):
        beside = plain[row]
        first = kind == "stored" and parent[row] is None and label[row] is not None
        if first and beside["adapter"] is None and beside["cache_salt"] is None:
            rules.setdefault(int(events.stream[row]), set()).add(beside["hash_rule"])
    found: list[Any] = []
    for stream in range(len(events.streams)):
        rule = rules.get(stream, {None})
        (only,) = rule if len(rule) == 1 else (None,)
        found.append(stream if only is None else only)
    return found


def find_blocks(events: Events, forest: Forest) -> tuple[list[tuple[int, ...]], int]:
    """Return the block numbers that each event speaks of, by content, and how many stored blocks could be told.

    A stored block is found by its tokens and those of all blocks before it, in every namespace of token ids with the same
    adapter, salt and block size; a removed one by the hash under which it was stored.

    Args:
        events: All events.
        forest: The blocks of the log.

    Returns:
        For each event its block numbers, none where the log has no such block; and the number of stored blocks whose
        whole beginning is known, whether the log has them or not.
    """
    chains = _chains(events, scopes(events))
    found: list[tuple[int, ...]] = [() for _ in events.kind]
    told = np.flatnonzero(chains.parent > _UNKNOWN)
    numbered = KeyMap()
    numbered.number(forest.key, np.ones(len(forest.key), np.bool_))
    spaces = [(name, json.loads(name)) for name in forest.namespaces if name.startswith("{")]
    for number, beside in enumerate(chains.kinds):
        mine = told[chains.root[told] == number]
        own = np.full(len(events.kind), -1, np.int64)
        own[mine] = np.arange(mine.size)
        above = np.where(chains.parent[mine] < 0, -1, own[np.maximum(chains.parent[mine], 0)])
        words = np.frombuffer(b"".join(chains.label[row] or b"" for row in mine.tolist()), "<u8").reshape(
            -1, 2
        )
        high, low = (np.ascontiguousarray(words[:, half], np.uint64) for half in (0, 1))
        for name in (name for name, space in spaces if _fits(space, beside)):
            keys = chain_keys(above, high, low, root_keys([name]))
            blocks = numbered.number(keys, np.ones(mine.size, np.bool_))
            for row, block in zip(mine.tolist(), blocks.tolist(), strict=True):
                if block < len(forest.key):
                    found[row] += (block,)
    for row, stored in chains.stored_by.items():
        found[row] = found[stored]
    return found, int(told.size)


@dataclass(frozen=True, slots=True)
class _Chains:
    """How the blocks of events hang together.

    Attributes:
        parent: int64[n], the event that stored the block before each stored one, -1 for the first of a prompt, ``_UNKNOWN``
            where that is not known, or the tokens of one of them are not.
        root: int64[n], kind of the first block of its prompt, -1 where that is not known.
        kinds: Scope, adapter, salt and block size of each kind; of Dynamo's hashes the scope alone is known.
        label: Of each event the label of its block in ``paths``, None where that is not known.
        stored_by: For each removal the event that stored the block.
    """

    parent: NDArray[np.int64]
    root: NDArray[np.int64]
    kinds: tuple[tuple[Any, ...], ...]
    label: list[bytes | None]
    stored_by: dict[int, int]


def _chains(events: Events, scope: list[Any]) -> _Chains:
    """Follow the hashes of parents and of removed blocks back to the events that stored them."""
    n = len(events.kind)
    parent, root = np.full(n, _UNKNOWN, np.int64), np.full(n, -1, np.int64)
    parent_hash, label, tokens_hash = (
        events.table[name].to_pylist() for name in ("parent_hash", "label", "tokens_hash")
    )
    sequence: dict[int, int] = {}
    beside = list(zip(*(events.table[name].to_pylist() for name in _BESIDE), strict=True))
    kinds: dict[tuple[Any, ...], int] = {}
    last: dict[tuple[Any, int], int] = {}
    stored_by: dict[int, int] = {}
    # A hash that equals one made by a rule is of the same content, whoever says it: its last 64 bits are of a SHA-256.
    rules = sorted({where for where in scope if isinstance(where, str)})
    for row, (kind, key) in enumerate(zip(events.kind, events.block_hash, strict=True)):
        if key is None:
            continue
        where = scope[int(events.stream[row])]
        places = (where, *(rule for rule in rules if rule != where))
        if kind == "removed":
            if (stored := _first(last, places, key)) is not None:
                stored_by[row] = stored
            continue
        above: int | None = -1
        if parent_hash[row] is not None:
            above = _first(last, places, parent_hash[row])
        above = _UNKNOWN if above is None else above
        if tokens_hash[row] is not None and (above == -1 or above in sequence):
            own = tokens_hash[row]
            sequence[row] = own if above == -1 else sequence_hash(sequence[above], own)
            label[row] = bytes(8) + sequence[row].to_bytes(8, "little")
        if label[row] is None or (above >= 0 and parent[above] == _UNKNOWN):
            above = _UNKNOWN
        parent[row] = above
        if above == -1:
            kind_of = (_LOGGED,) if row in sequence else (_TOKENS, *beside[row])
            root[row] = kinds.setdefault(kind_of, len(kinds))
        elif above >= 0:
            root[row] = root[above]
        last[where, key] = row
    return _Chains(parent, root, tuple(kinds), label, stored_by)


def _fits(space: Mapping[str, Any], kind: tuple[Any, ...]) -> bool:
    """Tell whether blocks of a namespace of the log may be those of a kind of first block."""
    told = (space.get("scope"), *(space.get(part) for part in _BESIDE))
    return told[: len(kind)] == kind


def _first(last: dict[tuple[Any, int], int], places: tuple[Any, ...], key: int) -> int | None:
    """Return the event that stored a hash last, in the first place that knows it."""
    return next((last[place, key] for place in places if (place, key) in last), None)
