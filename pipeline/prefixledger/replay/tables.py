"""Turns what was replayed into the tables that the next stage reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger import schema, schema_curves
from prefixledger.replay.block_numbers import number_blocks
from prefixledger.replay.evidence import RULES, evidence_table
from prefixledger.replay.last_use import last_used_us
from prefixledger.replay.lookups import NO_TIME
from prefixledger.replay.routers.base import BRANCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.evidence import Evidence
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.numbering import Numbering
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.seeds import Draw
    from prefixledger.replay.shared_nodes import SharedNodes
    from prefixledger.replay.touches import Touches
    from prefixledger.replay.warmup import WarmUp

_CAUSES = pa.array(["evicted", "expired"])
_BRANCHES = pa.array(BRANCHES)
_RULES = pa.array(RULES)
_TIME = pa.timestamp("us", tz="UTC")


def lookup_facts(runs: Sequence[PoolRun], numbering: Numbering, log: Log) -> pa.Table:
    """Return LOOKUP_FACTS, by lookup."""

    def column(of: Callable[[PoolRun], Any]) -> NDArray[Any]:
        return _all(runs, of)[numbering.order]

    arrival = column(lambda run: run.lookup)
    last_block = column(lambda run: run.last_block)
    return typed_table(
        schema.LOOKUP_FACTS,
        {
            "lookup": np.arange(arrival.size),
            "request_row": log.lookups.request_row[arrival],
            "admitted_at": _times(column(lambda run: run.log.admitted_us)),
            "pool": column(lambda run: run.plan.index),
            "replica": column(lambda run: run.log.replica + run.plan.first_replica),
            "block_size": column(lambda run: run.plan.block_size),
            "prompt_tokens": column(lambda run: run.log.prompt_tokens),
            "full_blocks": column(lambda run: run.log.prompt_tokens // run.plan.block_size),
            "cap_blocks": column(lambda run: run.log.cap_blocks),
            "hit_blocks": column(lambda run: run.hit_blocks),
            "hit_host_blocks": column(lambda run: run.host_blocks),
            "recompute_tokens": column(
                lambda run: 0 if run.recompute_tokens is None else run.recompute_tokens
            ),
            "refused": column(lambda run: run.log.refused),
            "last_block": _known(last_block),
            "stored_blocks": _known(column(lambda run: -1 if run.hosted is None else run.log.cap_blocks)),
            "long_blocks": column(lambda run: 0 if run.hosted is None else run.hosted.long_blocks),
            "sold_ttl_us": _known(column(lambda run: -1 if run.hosted is None else run.hosted.rules.sold_us)),
            "storage_token_s": column(lambda run: 0 if run.hosted is None else run.hosted.storage_token_s),
            "tail_rule": _rules(column(_tail_rule)),
            "queued_at": _times(column(lambda run: run.queued_us)),
            "finished_at": _maybe_times(column(_finished_us)),
            "route_branch": _branches(column(lambda run: -1 if run.branch is None else run.branch)),
        },
    )


def _tail_rule(run: PoolRun) -> Any:
    if run.hosted is not None:
        return run.hosted.tail_rule
    return -1 if run.log.bypassed is None else np.where(run.log.bypassed, RULES.index("bypassed"), -1)


def ladder(
    runs: Sequence[PoolRun],
    rungs: Sequence[Mapping[str, NDArray[np.int64]]],
    ideal: NDArray[np.int64],
    numbering: Numbering,
) -> pa.Table:
    """Return LADDER, by lookup; ``ideal`` is in order of arrival."""
    arrival = _all(runs, lambda run: run.lookup)[numbering.order]
    columns = {name: np.concatenate([rung[name] for rung in rungs])[numbering.order] for name in rungs[0]}
    return typed_table(
        schema_curves.LADDER, {"lookup": np.arange(arrival.size), **columns, "ideal_blocks": ideal[arrival]}
    )


def events(runs: Sequence[PoolRun], numbering: Numbering) -> pa.Table:
    """Return EVENTS: every reset that took effect."""
    found = [(runs[place].plan, reset) for place, reset in numbering.events]
    return typed_table(
        schema.EVENTS,
        {
            "event": range(len(found)),
            "event_id": [reset.event_id for _, reset in found],
            "at": _times([reset.at_us for _, reset in found]),
            "kind": [reset.kind for _, reset in found],
            "pool": [plan.index for plan, _ in found],
            "replica": [plan.first_replica + reset.replica for plan, reset in found],
            "note": [reset.note for _, reset in found],
        },
    )


def replicas(runs: Sequence[PoolRun]) -> pa.Table:
    """Return REPLICAS."""
    found = [(run.plan.index, replica) for run in runs for replica in run.plan.fleet.replicas]
    return typed_table(
        schema.REPLICAS,
        {
            "replica": range(len(found)),
            "name": [replica.name for _, replica in found],
            "pool": [pool for pool, _ in found],
            "live_from": _times([replica.live_from_us for _, replica in found]),
            "live_to": _times([replica.live_to_us for _, replica in found]),
        },
    )


def facts(runs: Sequence[PoolRun], found: Sequence[Evidence], numbering: Numbering) -> pa.Table:
    """Return SEGMENT_FACTS, by lookup and position."""
    parts = [
        evidence_table(evidence, lookup=lookups, first_replica=run.plan.first_replica)
        for run, evidence, lookups in zip(runs, found, numbering.lookups, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts).sort_by([("lookup", "ascending"), ("first_block", "ascending")])


def removals(
    runs: Sequence[PoolRun], numbering: Numbering, chains: Chains, touches: Sequence[Touches]
) -> pa.Table:
    """Return REMOVALS, by time, replica, lookup and block."""
    gone = [run.gone for run in runs]
    lookup = np.concatenate(
        [np.append(number, -1)[part.lookup] for part, number in zip(gone, numbering.lookups, strict=True)]
    )
    first_replica = [np.full(run.gone.replica.size, run.plan.first_replica) for run in runs]
    replica = np.concatenate([part.replica for part in gone]) + np.concatenate(first_replica)
    at_us, chain, first, end = (
        np.concatenate([getattr(part, name) for part in gone]) for name in ("at_us", "chain", "first", "end")
    )
    last_block = number_blocks(chains).at(chain, end - 1)
    order = np.lexsort((last_block, lookup, replica, at_us))
    expired = np.concatenate([part.expired for part in gone])[order]
    used_us = np.concatenate([last_used_us(part, each) for part, each in zip(gone, touches, strict=True)])[
        order
    ]
    tokens = np.concatenate([(run.gone.end - run.gone.first) * run.plan.block_size for run in runs])[order]
    return typed_table(
        schema.REMOVALS,
        {
            "lookup": _known(lookup[order]),
            "removed_at": _times(at_us[order]),
            "replica": replica[order],
            "last_block": last_block[order],
            "n_blocks": (end - first)[order],
            "cause": _CAUSES.take(pa.array(expired.astype(np.int8))),
            "tokens": tokens,
            "last_used_at": _maybe_times(used_us),
        },
    )


def warmups(found: Iterable[WarmUp]) -> pa.Table:
    """Return WARMUPS, by replica and time."""
    rows = list(found)
    return typed_table(
        schema.WARMUPS,
        {
            "replica": [row.replica for row in rows],
            "from_at": _times([row.from_us for row in rows]),
            "to_at": _times([row.to_us for row in rows]),
            "cause": [row.cause for row in rows],
        },
    )


def shared(found: SharedNodes, log: Log) -> pa.Table:
    """Return SHARED, by block number."""
    names = pa.DictionaryArray.from_arrays(
        pa.array(log.forest.namespace[found.node]), list(log.forest.namespaces)
    )
    keys = np.ascontiguousarray(log.forest.key[found.node], "<u8")
    return typed_table(
        schema.SHARED,
        {
            "node": found.node,
            "parent_node": _known(found.parent_node),
            "depth_blocks": found.depth_blocks,
            "key": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), found.node.size, [None, pa.py_buffer(keys)]
            ),
            "namespace": names.cast(pa.string()),
        },
    )


def lookup_shared(found: SharedNodes) -> pa.Table:
    """Return LOOKUP_SHARED; the lookups were given in order of their numbers."""
    return typed_table(
        schema.LOOKUP_SHARED,
        {
            "lookup": found.piece_lookup,
            "node": _known(found.piece_node),
            "first_block": found.piece_first_block,
            "n_blocks": found.piece_n_blocks,
        },
    )


def draws(found: Sequence[Sequence[Draw]], runs: Sequence[PoolRun], numbering: Numbering) -> pa.Table:
    """Return DRAWS, by draw and lookup."""
    number = np.empty(numbering.order.size, np.int64)
    arrival = _all(runs, lambda run: run.lookup)[numbering.order]
    number[arrival] = np.arange(arrival.size)
    parts = [
        typed_table(
            schema_curves.DRAWS,
            {
                "draw": np.full(one.lookup.size, one.draw),
                "lookup": number[one.lookup],
                "pool": np.full(one.lookup.size, one.pool),
                "replica": one.replica,
                "hit_tokens": one.hit_tokens,
            },
        )
        for of_pool in found
        for one in of_pool
    ]
    whole = pa.concat_tables([schema_curves.DRAWS.arrow().empty_table(), *parts])
    return whole.sort_by([("draw", "ascending"), ("lookup", "ascending")]).combine_chunks()


def survival(runs: Sequence[PoolRun]) -> pa.Table | None:
    """Return SURVIVAL; None where no cache is one that promises nothing and says what it read."""
    found = [
        (run.plan.index, run.hosted.survival)
        for run in runs
        if run.hosted is not None and run.hosted.survival is not None
    ]
    if not found:
        return None
    columns = {
        "pool": np.concatenate([np.full(each.from_us.size, pool) for pool, each in found]),
        **{
            name: np.concatenate([getattr(each, of) for _, each in found])
            for name, of in (
                ("from_us", "from_us"),
                ("upto_us", "upto_us"),
                ("lookups", "lookups"),
                ("observed_share", "observed"),
                ("kept_share", "kept"),
                ("low", "low"),
                ("high", "high"),
            )
        },
    }
    return typed_table(schema_curves.SURVIVAL, columns)


def _all(runs: Sequence[PoolRun], of: Callable[[PoolRun], Any]) -> NDArray[Any]:
    return np.concatenate([np.broadcast_to(of(run), len(run.log)) for run in runs])


def _known(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values, mask=values < 0)


def _times(values: Any) -> pa.Array:
    return pa.array(values, pa.int64()).cast(_TIME)


def _finished_us(run: PoolRun) -> NDArray[np.int64] | int:
    return NO_TIME if run.finished_us is None else run.finished_us


def _maybe_times(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == NO_TIME).cast(_TIME)


def _rules(values: NDArray[np.int8]) -> pa.Array:
    return _RULES.take(pa.array(values, mask=values < 0))


def _branches(values: NDArray[np.int64]) -> pa.Array:
    return _BRANCHES.take(pa.array(values, mask=values < 0))


def typed_table(table: schema.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of the contract's types from its columns by name."""
    contract = table.arrow()
    arrays = []
    for field in contract:
        values = columns[field.name]
        array = values if isinstance(values, pa.Array) else pa.array(values)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=contract)
