"""Settles ``capacity = "from-log"``: what the engines themselves printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.units import FROM_LOG
from prefixledger.errors import UsageError
from prefixledger.replay.engine_facts import logged_replicas, speaker
from prefixledger.replay.pools import assign_pools, pool_block_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.config.scenario import Pool, Scenario
    from prefixledger.replay.engine_facts import EngineFact, LoggedReplica
    from prefixledger.replay.lookups import Log

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class _Size:
    """Usable blocks of the pool's size, and where that was printed."""

    blocks: int
    fact: EngineFact


def settle_capacity(
    scenario: Scenario, log: Log, facts: Sequence[EngineFact]
) -> tuple[Scenario, tuple[str, ...]]:
    """Put the printed capacity in the place of every ``from-log``.

    One pool has one capacity: of several that its replicas printed, or that one replica printed after restarts, the
    smallest holds for all, which is said.

    Args:
        scenario: As asked.
        log: Its rows say which replicas and what block size a pool has.
        facts: What engines said.

    Returns:
        The scenario with capacities in blocks, and a note for each.

    Raises:
        UsageError: No log prints a capacity of a pool, or it is not known which pool a log speaks of.
    """
    asked = [number for number, pool in enumerate(scenario.pool) if pool.cache.capacity == FROM_LOG]
    if not asked:
        return scenario, ()
    assigned = assign_pools(log.rows, scenario)[log.lookups.request_row]
    replicas = logged_replicas(log, scenario)
    pools, notes = list(scenario.pool), []
    for number in asked:
        mine = np.flatnonzero(assigned == number)
        if mine.size == 0:
            continue  # nobody asks it, so it is never replayed
        pool = scenario.pool[number]
        block_size = pool_block_size(pool, log.rows, log.lookups, mine)
        told = _told(facts, number, replicas, alone=len(asked) == 1)
        sizes = sorted(_sizes(told, facts, block_size), key=lambda size: (size.blocks, size.fact.place))
        if not sizes:
            raise _nothing_printed(pool)
        least = sizes[0].blocks
        cache = pool.cache.model_copy(update={"capacity": f"{least} blocks"})
        pools[number] = pool.model_copy(update={"cache": cache})
        notes.append(_note(pool, sizes, block_size))
    return scenario.model_copy(update={"pool": tuple(pools)}), tuple(notes)


def _told(
    facts: Sequence[EngineFact], pool: int, replicas: Sequence[LoggedReplica], *, alone: bool
) -> list[EngineFact]:
    """Return the capacities that were printed for a pool; those of nobody known are for the only pool that asks."""
    found = []
    for fact in facts:
        if fact.kind != "capacity":
            continue
        who = speaker(fact, replicas)
        if who is None and not alone:
            raise UsageError(
                f"{fact.place} prints a capacity, and it is not known which pool's",
                hint="name the file after its replica, or give the capacities of the pools in numbers",
            )
        if who is None or who.pool == pool:
            found.append(fact)
    return found


def _sizes(told: Sequence[EngineFact], facts: Sequence[EngineFact], block_size: int) -> Iterator[_Size]:
    """Turn what was printed into usable blocks; vLLM keeps one block for itself."""
    for fact in told:
        said = fact.said
        own = said.get("block_size") or _engine_block(fact, facts) or block_size
        if "slots" in said:
            usable_tokens = int(said["slots"])
        else:
            blocks = int(said["blocks"]) if "blocks" in said else int(said["tokens"]) // own
            usable_tokens = (blocks - 1) * own
        yield _Size(usable_tokens // block_size, fact)


def _engine_block(fact: EngineFact, facts: Sequence[EngineFact]) -> int | None:
    """Return the tokens of a block as the same log says last before a line."""
    found = None
    for other in facts:
        if other.source == fact.source and other.line <= fact.line and other.kind == "block_size":
            found = int(other.said["tokens"])
    return found


def _nothing_printed(pool: Pool) -> UsageError:
    return UsageError(
        f'pool {pool.name!r}: capacity = "from-log", and no log that was read prints one',
        hint="give the engine's own log or metrics with --engine-log FILE: lines such as 'GPU KV cache size: 433,248 "
        "tokens', '# GPU blocks: 27078', 'max_total_num_tokens=477168', or vllm:cache_config_info",
    )


def _note(pool: Pool, sizes: Sequence[_Size], block_size: int) -> str:
    least = sizes[0]
    text = (
        f"pool {pool.name!r}: capacity is {least.blocks} blocks of {block_size} tokens, from {least.fact.place} "
        f"({_words(least.fact)})"
    )
    others = {size.blocks: size for size in reversed(sizes) if size.blocks != least.blocks}
    if not others:
        return text
    shown = [others[blocks] for blocks in sorted(others)][:_SHOWN]
    listed = ", ".join(f"{size.blocks} ({size.fact.place})" for size in shown)
    more = " …" if len(others) > _SHOWN else ""
    return f"{text}, the smallest that was printed; others are {listed}{more}"


def _words(fact: EngineFact) -> str:
    said = fact.said
    if "slots" in said:
        return f"{said['slots']} tokens"
    what = f"{said['blocks']} blocks" if "blocks" in said else f"{said['tokens']} tokens"
    return f"{what}, of which the engine keeps one block for itself"
