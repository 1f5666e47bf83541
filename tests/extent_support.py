"""Logs for the kernel of extents, and what it and its twin make of them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from prefixledger.replay.chains import Chains, build_chains, build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Output, Resets, Traffic, replay_extents
from twins.forests import Log
from twins.vllm_blocks import Row, Twin

A, B, C, D, E = 0, 1, 2, 3, 4


def laid_out(log: Log) -> tuple[Traffic, Chains, Resets, Output | None]:
    """Lay a log out for kernels: its lookups, their chains, resets, and what becomes of output."""
    chains = build_chains(np.array(log.parent, np.int64))
    paths = build_paths(chains, log.last_blocks())

    def column(field: str) -> np.ndarray:
        return np.array([getattr(row, field) for row in log.rows], np.int64)

    traffic = Traffic(
        arrival_us=column("arrival"),
        replica=column("replica").astype(np.int32),
        prompt_tokens=column("tokens"),
        keyed_blocks=column("prompt_keys"),
        path_offset=paths.offset,
        path_chain=paths.chain,
        hold_us=column("hold"),
        prefill_us=column("prefill"),
        reach_blocks=np.where(column("bypassed"), 0, UNLIMITED_BLOCKS),
    )
    at, replica, force = zip(*log.resets, strict=True) if log.resets else ((), (), ())
    resets = Resets(np.array(at, np.int64), np.array(replica, np.int32), np.array(force, np.bool_))
    keyed = np.array([len(row.keys) for row in log.rows], np.int64)
    output = None if log.output == "ignore" else Output(log.output, column("output"), keyed)
    return traffic, chains, resets, output


def run_kernel(
    log: Log, *, capacity: int | None = None, log_removals: bool = False, unhashed_in_line: bool = False
):
    """Replay a log with the kernel; return what it found, and the chains."""
    traffic, chains, resets, output = laid_out(log)
    found = replay_extents(
        traffic,
        chains.chain_length,
        block_size=log.block,
        replicas=log.replicas,
        capacity_blocks=capacity or log.capacity,
        ttl_us=None if log.ttl < 0 else log.ttl,
        output=output,
        resets=resets,
        hit_saves_us=log.hit_saves_us,
        unhashed_in_line=unhashed_in_line,
        log_removals=log_removals,
        most_running=log.most_running,
    )
    return found, chains


def run_twin(log: Log, *, in_line: bool = False):
    """Replay a log block by block."""
    return Twin(
        log.rows,
        log.block,
        log.capacity,
        log.replicas,
        log.ttl,
        log.output,
        log.hit_saves_us,
        log.resets,
        in_line,
        most_running=log.most_running,
    ).run()


def assert_equal(log: Log, *, in_line: bool = False) -> None:
    """See that kernel and twin do the same with a log."""
    expected = run_twin(log, in_line=in_line)

    found, chains = run_kernel(log, log_removals=True, unhashed_in_line=in_line)

    assert found.hit_blocks.tolist() == expected.hit
    assert found.admitted_us.tolist() == expected.admitted
    assert found.finished_us.tolist() == expected.finished
    for name, column in (("preempted", found.preempted), ("recompute", found.recompute_tokens)):
        some = getattr(expected, name)
        assert column.tolist() == [some.get(row, 0) for row in range(len(log.rows))]
    assert found.refused.tolist() == expected.refused
    assert found.reset_ignored.tolist() == expected.ignored
    assert found.first_eviction_us.tolist() == expected.first_eviction
    assert removed_blocks(found.removals, chains) == Counter(r for r in expected.removed if r[4] is not None)


def removed_blocks(removals, chains) -> Counter:
    """Spell out removals as (cause, row, at, replica, block, whether the key is gone with it)."""
    block = {
        place: b for b, place in enumerate(zip(chains.chain.tolist(), chains.position.tolist(), strict=True))
    }
    columns = (removals.lookup, removals.at_us, removals.replica, removals.chain, removals.lo, removals.hi)
    columns += (removals.resident, removals.expired)
    return Counter(
        ("expired" if expired else "evicted", row, at, replica, block[chain, position], position >= resident)
        for row, at, replica, chain, lo, hi, resident, expired in zip(
            *(c.tolist() for c in columns), strict=True
        )
        for position in range(lo, hi)
    )


def log_of(parent: list[int], rows: list[Row], block: int, capacity: int, **rest) -> Log:
    """Return a log of one replica."""
    return Log(
        parent=parent,
        rows=rows,
        block=block,
        capacity=capacity,
        replicas=rest.get("replicas", 1),
        ttl=rest.get("ttl", -1),
        output=rest.get("output", "ignore"),
        resets=rest.get("resets", []),
        hit_saves_us=rest.get("hit_saves_us", 0.0),
    )


def prompts_of(*prompts: tuple[int, list[int]]) -> list[Row]:
    """Return requests one after the other, each with its tokens and its keys."""
    return [Row(at, 0, tokens, keys, len(keys)) for at, (tokens, keys) in enumerate(prompts)]
