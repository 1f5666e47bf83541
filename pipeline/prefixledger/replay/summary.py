"""What a replay found, in numbers small enough to print."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefixledger.replay.notes import count_others

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Log
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.seeds import Draw


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder of bounds.

    Attributes:
        rung: pooled, per_replica, resets, ttl or capacity.
        hit_blocks: Blocks that hit on it.
        hit_tokens: The same in tokens.
    """

    rung: str
    hit_blocks: int
    hit_tokens: int


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """How one pool was replayed, and what came out.

    Attributes:
        pool: Index of the pool in the scenario.
        name: Its name.
        profile: Whose rules were replayed.
        block_size: Tokens per block.
        capacity_blocks: Usable blocks per replica; None is unlimited.
        ttl_us: Time to live, microseconds; None is for ever.
        routing: How lookups found their replica.
        replicas: Names, in order.
        residence: logged, estimated or none, as it came out.
        output: as_decoded, at_release or ignore, as it came out.
        lookups: Lookups in the pool.
        refused: Those larger than the whole cache.
        prompt_tokens: Tokens of all lookups.
        hit_tokens: Tokens that hit.
        hit_host_tokens: Of these, tokens from a lower tier.
        ladder: The rungs, from pooled to capacity.
        drawn_hit_tokens: Tokens that hit under each seed, that of the replay first; empty where no router draws.
    """

    pool: int
    name: str
    profile: str
    block_size: int
    capacity_blocks: int | None
    ttl_us: int | None
    routing: str
    replicas: tuple[str, ...]
    residence: str
    output: str
    lookups: int
    refused: int
    prompt_tokens: int
    hit_tokens: int
    hit_host_tokens: int
    ladder: tuple[Rung, ...]
    drawn_hit_tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """A replay of one scenario.

    Attributes:
        name: Name of the scenario.
        folder: Where its files are.
        digest: What it was made from.
        reused: True where nothing had changed and nothing was done.
        lookups: Lookups in all pools.
        failed: Rows of calls that failed, which are no lookups.
        unkeyed: Rows without keys, which are no lookups.
        prompt_tokens: Tokens of all lookups.
        hit_tokens: Tokens that hit.
        ideal_hit_tokens: Tokens that an unlimited cache for everybody would have hit, asked in order of arrival.
        pools: Those that have lookups.
        notes: What the reader must know, one sentence each.
    """

    name: str
    folder: Path
    digest: str
    reused: bool
    lookups: int
    failed: int
    unkeyed: int
    prompt_tokens: int
    hit_tokens: int
    ideal_hit_tokens: int
    pools: tuple[PoolSummary, ...]
    notes: tuple[str, ...]

    @property
    def token_hit_rate(self) -> float:
        """Hit tokens over prompt tokens, 0 for no token."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def ideal_hit_rate(self) -> float:
        """Ideal hit tokens over prompt tokens, 0 for no token."""
        return self.ideal_hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def drawn_hit_rates(self) -> tuple[float, ...]:
        """Token hit rate under each seed, that of the replay first; empty where no router draws."""
        drawn = [pool.drawn_hit_tokens for pool in self.pools if pool.drawn_hit_tokens]
        fixed = self.hit_tokens - sum(tokens[0] for tokens in drawn)
        asked = self.prompt_tokens or 1
        return tuple((fixed + sum(tokens)) / asked for tokens in zip(*drawn, strict=True))

    def stored(self, folder: Path, digest: str) -> ReplaySummary:
        """Return it with the place it is kept at and what it was made from."""
        return replace(self, folder=folder, digest=digest)

    def with_notes(self, notes: Sequence[str]) -> ReplaySummary:
        """Return it with more to know, before everything else."""
        return replace(self, notes=(*notes, *self.notes))


def summarize(
    name: str,
    log: Log,
    runs: Sequence[PoolRun],
    rungs: Sequence[Mapping[str, NDArray[np.int64]]],
    ideal_blocks: NDArray[np.int64],
    notes: Sequence[str],
    drawn: Sequence[Sequence[Draw]] = (),
) -> ReplaySummary:
    """Add up a replay.

    Args:
        name: Name of the scenario.
        log: All lookups.
        runs: Their pools.
        rungs: For each pool the hit blocks of its lookups on each rung.
        ideal_blocks: int64[m], ideal hits, in order of arrival.
        notes: What the reader must know.
        drawn: For each pool its hits under each seed; empty: none draws.
    """
    failed, unkeyed = count_others(log)
    pools = tuple(
        _pool_summary(run, rung, again)
        for run, rung, again in zip(runs, rungs, drawn or [()] * len(runs), strict=True)
    )
    return ReplaySummary(
        name=name,
        folder=Path(),
        digest="",
        reused=False,
        lookups=len(log.lookups),
        failed=failed,
        unkeyed=unkeyed,
        prompt_tokens=sum(pool.prompt_tokens for pool in pools),
        hit_tokens=sum(pool.hit_tokens for pool in pools),
        ideal_hit_tokens=int((ideal_blocks * log.lookups.block_size).sum()),
        pools=pools,
        notes=tuple(notes),
    )


def _pool_summary(run: PoolRun, rungs: Mapping[str, NDArray[np.int64]], drawn: Sequence[Draw]) -> PoolSummary:
    plan, size = run.plan, run.plan.block_size
    blocks = {rung: int(hits.sum()) for rung, hits in rungs.items()}
    return PoolSummary(
        pool=plan.index,
        name=str(plan.pool.name),
        profile=plan.pool.cache.profile,
        block_size=size,
        capacity_blocks=plan.capacity_blocks,
        ttl_us=plan.ttl_us,
        routing=plan.pool.fleet.routing,
        replicas=tuple(replica.name for replica in plan.fleet.replicas),
        residence=plan.residence.mode,
        output=plan.residence.output,
        lookups=len(run.log),
        refused=int(run.log.refused.sum()),
        prompt_tokens=int(run.log.prompt_tokens.sum()),
        hit_tokens=int(run.hit_blocks.sum()) * size,
        hit_host_tokens=int(run.host_blocks.sum()) * size,
        ladder=tuple(Rung(rung, hits, hits * size) for rung, hits in blocks.items()),
        drawn_hit_tokens=tuple(int(one.hit_tokens.sum()) for one in drawn),
    )


def to_json(summary: ReplaySummary) -> dict[str, Any]:
    """Return plain values; where it lies and whether it was reused are no part of a replay."""
    value = asdict(summary)
    del value["folder"], value["reused"]
    return value


def from_json(value: dict[str, Any], folder: Path) -> ReplaySummary:
    """Read back what ``to_json`` gave, as a replay that was reused."""
    pools = tuple(_pool(pool) for pool in value["pools"])
    return ReplaySummary(
        **{**value, "folder": folder, "reused": True, "pools": pools, "notes": tuple(value["notes"])}
    )


def _pool(value: dict[str, Any]) -> PoolSummary:
    pool = PoolSummary(**value)
    rungs = tuple(Rung(**rung) for rung in value["ladder"])
    return replace(
        pool,
        replicas=tuple(value["replicas"]),
        ladder=rungs,
        drawn_hit_tokens=tuple(value["drawn_hit_tokens"]),
    )
