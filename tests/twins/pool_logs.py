"""Random pools with several replicas, deaths, resets, ties in time and many aligned prompts, and how to replay them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np

from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.evidence import FOR_EVER_US, Lifetimes, RemovalLog
from prefixledger.replay.extents import Replayed, Resets, Traffic, replay_extents
from prefixledger.replay.profile_runs import keys_of_extents
from prefixledger.replay.touches import PoolLog, ResetLog, vllm_cap_blocks


@dataclass(frozen=True, slots=True)
class Ask:
    """One lookup: ``path`` holds its full blocks, of which the first ``keyed`` have a known key."""

    at: int
    replica: int
    tokens: int
    path: list[int]
    keyed: int
    hold: int = 0


@dataclass(frozen=True, slots=True)
class PoolCase:
    """A log, and the fleet and the cache that it is replayed on.

    Attributes:
        parent: Parent of each block, -1 at the root.
        asks: In order of arrival.
        block: Tokens per block.
        replicas: Number of replicas.
        capacity: Blocks per replica.
        ttl: None for none.
        resets: (at, replica) in order of time, the ends of replicas included.
        live: (from, to) of each replica; to is None where it lives to the end.
        in_line: Whether a freed partial tail waits behind all other free slots.
    """

    parent: list[int]
    asks: list[Ask]
    block: int
    replicas: int
    capacity: int
    ttl: int | None
    resets: list[tuple[int, int]]
    live: list[tuple[int, int | None]]
    in_line: bool = False

    @property
    def largest(self) -> int:
        """Slots of the largest prompt."""
        return max(-(-ask.tokens // self.block) for ask in self.asks)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return arrival, replica, tokens and keyed blocks."""
        return (
            np.array([ask.at for ask in self.asks], np.int64),
            np.array([ask.replica for ask in self.asks], np.int32),
            np.array([ask.tokens for ask in self.asks], np.int64),
            np.array([ask.keyed for ask in self.asks], np.int64),
        )

    def reset_log(self) -> ResetLog:
        """Return the resets, numbered 100, 101 … so that no number is a position by chance."""
        at, replica = [at for at, _ in self.resets], [replica for _, replica in self.resets]
        return ResetLog(np.array(at, np.int64), np.array(replica, np.int32), np.arange(100, 100 + len(at)))

    def lifetimes(self) -> Lifetimes:
        """Return who lives when; the names run against the indices."""
        return Lifetimes(
            np.array([start for start, _ in self.live], np.int64),
            np.array([FOR_EVER_US if end is None else end for _, end in self.live], np.int64),
            np.arange(self.replicas, dtype=np.int32)[::-1].copy(),
        )

    def replay(
        self, *, capacity: int | None, ttl: int | None, resets: bool = True, pooled: bool = False
    ) -> Replayed:
        """Replay the case, or a relaxation of it, with the kernel."""
        at, replica, tokens, keyed = self.arrays()
        chains = build_chains(np.array(self.parent, np.int64))
        paths = build_paths(chains, self.last_blocks())
        log = self.reset_log()
        return replay_extents(
            Traffic(
                arrival_us=at,
                replica=np.zeros_like(replica) if pooled else replica,
                prompt_tokens=tokens,
                keyed_blocks=keyed,
                path_offset=paths.offset,
                path_chain=paths.chain,
                hold_us=np.array([ask.hold for ask in self.asks], np.int64),
            ),
            chains.chain_length,
            block_size=self.block,
            replicas=1 if pooled else self.replicas,
            capacity_blocks=capacity,
            ttl_us=ttl,
            resets=Resets(log.at_us, log.replica, np.ones(log.at_us.size, np.bool_)) if resets else None,
            unhashed_in_line=self.in_line,
            log_removals=True,
        )

    def last_blocks(self) -> np.ndarray:
        """Return int64[n], the last keyed block of each lookup, -1 for none."""
        return np.array([ask.path[ask.keyed - 1] if ask.keyed else -1 for ask in self.asks], np.int64)

    def pool_log(self, replayed: Replayed | None = None) -> tuple[PoolLog, np.ndarray]:
        """Return the lookups in order of admission, and which of ``asks`` each of them is."""
        at, replica, tokens, keyed = self.arrays()
        admitted = at if replayed is None else replayed.admitted_us
        refused = np.zeros(len(at), np.bool_) if replayed is None else replayed.refused
        order = np.argsort(admitted, kind="stable")
        chains = build_chains(np.array(self.parent, np.int64))
        log = PoolLog(
            chains=chains,
            paths=build_paths(chains, self.last_blocks()[order]),
            block_size=self.block,
            replicas=self.replicas,
            admitted_us=admitted[order],
            replica=replica[order],
            prompt_tokens=tokens[order],
            keyed_blocks=keyed[order],
            cap_blocks=vllm_cap_blocks(tokens, keyed, self.block)[order],
            refused=refused[order],
            unhashed_in_line=self.in_line,
        )
        return log, order

    def without(self, dropped: np.ndarray) -> PoolCase:
        """Leave some of the lookups out."""
        return replace(self, asks=[ask for ask, gone in zip(self.asks, dropped, strict=True) if not gone])


def removal_log(replayed: Replayed, order: np.ndarray) -> RemovalLog:
    """Return the keys that left with their last copy, renumbered by admission; a younger copy keeps its key."""
    gone = keys_of_extents(replayed.removals)
    number = np.empty(order.size + 1, np.int64)
    number[order] = np.arange(order.size)
    number[-1] = -1
    return RemovalLog(
        lookup=number[gone.lookup],
        at_us=gone.at_us,
        replica=gone.replica.astype(np.int32),
        chain=gone.chain.astype(np.int32),
        resident=gone.first.astype(np.int32),
        expired=gone.expired,
    )


@dataclass(slots=True)
class _Forest:
    parent: list[int] = field(default_factory=list)
    child: dict[tuple[int, int], int] = field(default_factory=dict)

    def extend(self, path: list[int], labels: list[int]) -> list[int]:
        path = list(path)
        for label in labels:
            above = path[-1] if path else -1
            if (above, label) not in self.child:
                self.child[above, label] = len(self.parent)
                self.parent.append(above)
            path.append(self.child[above, label])
        return path


def random_pool(seed: int, *, concurrent: bool = False, longest: int = 40) -> PoolCase:
    """Draw one case: a forest that grows, forks and repeats, over replicas that come, are reset and go."""
    rng = random.Random(seed)
    forest, known = _Forest(), [[]]
    block, replicas = rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 3, 4])
    labels, deepest, pace = rng.choice([1, 2, 3]), rng.choice([2, 4, 8]), rng.choice([0, 1, 3, 8])
    aligned, again = rng.choice([0.0, 0.3, 0.6, 0.9]), rng.random()
    count = rng.randint(2, longest)
    dead = {r: rng.randint(1, count) for r in range(1, replicas) if rng.random() < 0.3}
    now, asks = 0, []
    for number in range(count):
        now += rng.randint(0, pace)
        stem = rng.choice(known[-6:])
        keep = rng.randint(0, len(stem)) if rng.random() < 0.4 else len(stem)
        fresh = 0 if rng.random() < again else rng.randint(0, 3)
        path = forest.extend(stem[:keep], [rng.randrange(labels) for _ in range(fresh)])[:deepest]
        known.append(path)
        tail = 0 if block == 1 or (path and rng.random() < aligned) else rng.randint(1, block - 1)
        tokens = max(len(path) * block + tail, 1)
        keyed = rng.randint(0, len(path)) if rng.random() < 0.05 else len(path)
        alive = [r for r in range(replicas) if number < dead.get(r, count)]
        hold = rng.choice([0, rng.randint(0, 30)]) if concurrent else 0
        asks.append(Ask(now, rng.choice(alive), tokens, path, keyed, hold))
    live = [
        (min([a.at for a in asks if a.replica == r], default=0), _end(asks, r, rng) if r in dead else None)
        for r in range(replicas)
    ]
    resets = [(end, r) for r, (_, end) in enumerate(live) if end is not None]
    resets += [(rng.randint(0, now), rng.randrange(replicas)) for _ in range(rng.choice([0, 0, 1, 4]))]
    resets = sorted((at, r) for at, r in resets if live[r][1] is None or at <= (live[r][1] or 0))
    case = PoolCase(forest.parent, asks, block, replicas, 1, None, resets, live)
    capacity = rng.choice([case.largest + rng.randint(0, 3), 2 * case.largest, max(1, case.largest - 1)])
    ttl = rng.choice([None, None, 0, rng.randint(1, 10), rng.randint(5, 60)])
    return replace(case, capacity=capacity, ttl=ttl)


def repeating_pool(seed: int, *, longest: int = 60) -> PoolCase:
    """Draw a log of few prefixes that are asked for again and again, mostly whole blocks: duplicate copies everywhere."""
    rng = random.Random(seed)
    forest, block, replicas = _Forest(), rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    stems = [
        forest.extend([], [number if rng.random() < 0.7 else 0, *([0] * rng.randint(0, 4))])
        for number in range(rng.randint(2, max(7, longest // 4)))
    ]
    now, asks = 0, []
    for _ in range(rng.randint(4, longest)):
        now += rng.randint(0, 3)
        stem = rng.choice(stems)
        path = stem[: rng.randint(1, len(stem))]
        tokens = len(path) * block + (0 if rng.random() < 0.8 else rng.randint(0, block - 1))
        asks.append(Ask(now, rng.randrange(replicas), tokens, path, len(path)))
    resets = [(rng.randint(0, now), 0)] if rng.random() < 0.5 else []
    case = PoolCase(forest.parent, asks, block, replicas, 1, None, resets, [(0, None)] * replicas)
    ttl = rng.choice([None, rng.randint(2, 12), rng.randint(8, 40)])
    return replace(case, capacity=case.largest + rng.randint(0, 6), ttl=ttl)


def _end(asks: list[Ask], replica: int, rng: random.Random) -> int:
    longest_hold = max(ask.hold for ask in asks) * len(asks)
    return max([a.at for a in asks if a.replica == replica], default=0) + rng.randint(1, 6) + longest_hold
