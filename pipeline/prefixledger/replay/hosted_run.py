"""Replays one pool of a hosted prompt cache, and turns what it finds into hits, rungs, evidence and curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.replay import hosted_kernel as kernel
from prefixledger.replay.evidence import FOR_EVER_US, RULES, Evidence, Lifetimes
from prefixledger.replay.hosted import Answers, HostedTraffic, hosted_pool
from prefixledger.replay.hosted_marks import find_marks
from prefixledger.replay.hosted_observed import first_ends, read_and_wanted, readable_us, told
from prefixledger.replay.hosted_rules import (
    BLOCKS,
    CREATED,
    FIRST_TOKEN,
    RESPONSE_END,
    SECONDS_LATER,
    UNITS,
    lookup_rules,
)
from prefixledger.replay.lookups import NO_TIME
from prefixledger.replay.outputs import find_outputs
from prefixledger.replay.survival import fit_survival

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extents import Resets
    from prefixledger.replay.hosted import HostedPool
    from prefixledger.replay.hosted_marks import FoundMarks
    from prefixledger.replay.hosted_observed import Told
    from prefixledger.replay.hosted_rules import LookupRules
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.survival import Survival

MS_PER_TOKEN = 0.05
"""Time to the first token for each token that is not read, where nobody says: 1.5 s for 32,000 tokens."""
CURVE_POINTS = 24
_SECONDS_LATER_US = 5_000_000
"""When an entry can be read that takes seconds to be made: the time between two turns of a fast loop."""
_HOUR_US = 3_600_000_000

_RULE_OF = np.full(kernel.COLD + 1, -1, np.int8)
"""Classes whose cause follows from the rules of the cache and not from the last use."""
for _kind, _name in (
    (kernel.IN_FLIGHT, "in_flight"),
    (kernel.OUT_OF_REACH, "out_of_reach"),
    (kernel.BELOW_MINIMUM, "below_minimum"),
    (kernel.NO_BREAKPOINT, "no_breakpoint"),
):
    _RULE_OF[_kind] = RULES.index(_name)


@dataclass(frozen=True, slots=True)
class HostedRun:
    """One pool after its replay, lookups in order of arrival.

    Attributes:
        pool: The lookups and their marks.
        hit_blocks: int64[m].
        segments: int32[s, 11], see ``hosted_kernel``.
        rules: What was followed.
        found: The marks, and where they are from.
        resets: What took effect.
        lives: When each replica can be asked.
        replicas: Number of replicas.
        ttl_us: Lifetime.
        as_sent: Whether each mark lives as long as it asks for.
        estimated: Lookups whose first token is not logged.
        ms_per_token: What was taken for these.
        survival: How long a cache that promises nothing keeps what it stored; None where one promises, or usage is missing.
        said: What the log says of it.
    """

    pool: HostedPool
    hit_blocks: NDArray[np.int64]
    segments: NDArray[np.int32]
    rules: LookupRules
    found: FoundMarks
    resets: Resets
    lives: Lifetimes
    replicas: int
    ttl_us: int | None
    as_sent: bool
    estimated: int
    ms_per_token: float
    survival: Survival | None = None
    said: Told | None = None

    @property
    def tail_rule(self) -> NDArray[np.int8]:
        """int8[m]: the rule by which nothing behind the deepest stored mark can hit; -1 where it is the end of the last full block."""
        behind = self.pool.stored_blocks < self.pool.traffic.keyed_blocks
        kind = np.where((self.pool.reasons < 0) & behind, kernel.NO_BREAKPOINT, self.pool.reasons)
        rule = self._rule(kind.astype(np.int64), np.arange(kind.size))
        return np.where(kind < 0, -1, rule).astype(np.int8)

    def _rule(self, kind: NDArray[np.int64], lookup: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the rule of each class; what no mark stores is the rest of an interval where nobody sets marks."""
        unmarked = (kind == kernel.NO_BREAKPOINT) & (self.rules.entries[lookup] == BLOCKS)
        return np.where(unmarked, RULES.index("partial_block"), _RULE_OF[kind]).astype(np.int8)

    @property
    def long_blocks(self) -> NDArray[np.int64]:
        """int64[m]: blocks down to the deepest stored mark that lives longer than what no mark gives a lifetime.

        Up to the hit a lookup reads; from there to this mark it writes for the longer time, and for the shorter one from
        there to its last mark.
        """
        long = np.zeros(self.hit_blocks.size, np.int64)
        if self.ttl_us is not None:
            chosen = self.found.ttl_us > self.ttl_us
            np.maximum.at(long, self.owner[chosen], self.found.depth[chosen])
        return np.minimum(long, self.pool.stored_blocks)

    @property
    def storage_token_s(self) -> NDArray[np.int64]:
        """int64[m]: tokens times seconds that each lookup pays rent for: what it creates is kept to its end, read or not."""
        paid = np.zeros(self.hit_blocks.size, np.int64)
        owner, depth = self.owner, self.found.depth
        made = (self.rules.entries[owner] == CREATED) & (self.found.ttl_us >= 0)
        made &= (depth > self.hit_blocks[owner]) & (depth <= self.pool.stored_blocks[owner])
        made &= depth * self.pool.block_size >= self.rules.minimum_tokens[owner]
        tokens = depth[made] * self.pool.block_size
        np.add.at(paid, owner[made], tokens * (self.found.ttl_us[made] // 1_000_000))
        return paid

    @property
    def owner(self) -> NDArray[np.int64]:
        """int64[k]: lookup of each mark."""
        return np.repeat(np.arange(self.hit_blocks.size), np.diff(self.pool.traffic.marks.offset))

    @property
    def stored_block(self) -> NDArray[np.int64]:
        """int64[m]: last block that each lookup stores, that of its answer included, -1 for none."""
        marks, answers = self.pool.traffic.marks, self.pool.traffic.answers
        last = np.append(marks.block, -1)[marks.offset[1:] - 1]
        last = np.where(self.pool.stored_blocks > 0, last, -1)
        return last if answers is None else np.where(self._answered, answers.block, last)

    @property
    def kept_blocks(self) -> NDArray[np.int64]:
        """int64[m]: blocks down to ``stored_block``."""
        answers = self.pool.traffic.answers
        if answers is None:
            return self.pool.stored_blocks
        return np.where(self._answered, answers.depth, self.pool.stored_blocks)

    @property
    def _answered(self) -> NDArray[np.bool_]:
        answers = self.pool.traffic.answers
        assert answers is not None
        marked = np.diff(self.pool.traffic.marks.offset) > 0
        long_enough = answers.depth * self.pool.block_size >= self.pool.traffic.minimum_tokens
        return (answers.block >= 0) & marked & long_enough

    def rungs(self) -> dict[str, NDArray[np.int64]]:
        """Return the hit blocks of each lookup on each rung of the ladder; nobody waits for a first token there."""

        def hits(
            *, pooled: bool = False, resets: Resets | None = None, ttl_us: NDArray[np.int64] | None = None
        ) -> NDArray[np.int64]:
            replayed = self.pool.replay(
                replicas=self.replicas, pooled=pooled, resets=resets, ttl_us=ttl_us, waits=False
            )
            return replayed.hit_blocks

        with_ttl = hits(resets=self.resets, ttl_us=self.found.ttl_us)
        return {
            "pooled": hits(pooled=True),
            "per_replica": hits(),
            "resets": hits(resets=self.resets),
            "ttl": with_ttl,
            "capacity": with_ttl,
        }

    def evidence(self, event: NDArray[np.int64]) -> Evidence:
        """Return the segments as rows of facts.

        Args:
            event: int64[r], number of the event of each reset.
        """
        column = self.segments.astype(np.int64).T
        kind, own = column[kernel.CLASS], column[kernel.OWN]
        event = np.append(event, -1)
        expired = kind == kernel.EXPIRED
        kept = np.append(self.found.ttl_us, -1)[column[kernel.KEPT]]
        removed = np.full(own.size, NO_TIME)
        removed[expired] = self.pool.traffic.at_us[own[expired]] + kept[expired]
        nothing = np.full(own.size, -1)
        return Evidence(
            lookup=column[kernel.LOOKUP],
            first_block=column[kernel.FIRST],
            n_blocks=column[kernel.END] - column[kernel.FIRST],
            last_block=column[kernel.END_BLOCK],
            hit=kind == kernel.HIT,
            own_previous=own,
            own_reset=event[column[kernel.OWN_RESET]],
            own_distance_blocks=nothing,
            resident_replica=column[kernel.RESIDENT],
            else_previous=column[kernel.ELSE],
            else_reset=event[column[kernel.ELSE_RESET]],
            else_distance_blocks=nothing,
            removed_at_us=removed,
            removed_by=nothing,
            rule=self._rule(kind, column[kernel.LOOKUP]),
            ttl_us=kept,
        )

    def ttl_curve(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the hits at lifetimes from the shortest to the longest gap between two lookups; each is a replay.

        Returns:
            int64[k] lifetimes, ascending, those that the provider sells among them; int64[k] hit blocks.
        """
        at_us = self.pool.traffic.at_us
        if at_us.size < 2:  # noqa: PLR2004
            return np.empty(0, np.int64), np.empty(0, np.int64)
        longest = max(int(at_us[-1] - at_us[0]), 1)
        spread = np.geomspace(min(1_000_000, longest), longest, CURVE_POINTS).round().astype(np.int64)
        chosen = np.unique(spread if self.ttl_us is None else np.append(spread, self.ttl_us))
        hits = [
            self.pool.replay(
                replicas=self.replicas, resets=self.resets, lives=self.lives, ttl_us=ttl_us
            ).hit_blocks.sum()
            for ttl_us in chosen.tolist()
        ]
        return chosen, np.asarray(hits, np.int64)


def run_hosted(plan: PoolPlan, log: Log, chains: Chains, resets: Resets) -> HostedRun:
    """Replay one pool under a hosted profile.

    Args:
        plan: The pool.
        log: All lookups.
        chains: The forest, cut into chains.
        resets: The resets of its fleet; all take effect.

    Raises:
        UsageError: The rules of a model are not known, or not those of the profile.
    """
    cache = plan.pool.cache
    rules = lookup_rules(plan.pool, log, plan.mine)
    if cache.as_sent:
        rules = replace(rules, ttl_us=_as_written(log, plan.mine, rules.ttl_us))
    said = told(log, plan.mine)
    rules = replace(rules, first_tokens=first_ends(said, rules.interval_tokens))
    found = find_marks(
        log,
        chains,
        plan.mine,
        plan.block_size,
        rules,
        as_sent=cache.as_sent,
        given_tokens=cache.marks or (),
        head_ttl_us=cache.head_ttl_us,
        off=cache.mark_ttls == "off",
    )
    given_ms = plan.pool.in_flight.prefill_ms_per_token
    ms_per_token = MS_PER_TOKEN if given_ms is None else given_ms
    pool = hosted_pool(
        _traffic(plan, log, rules, found, ms_per_token, _answers(plan, log, chains, rules), said),
        log.forest.parent,
        found.depth,
        block_size=plan.block_size,
        us_per_token=1000 * ms_per_token,
    )
    fleet = plan.fleet.replicas
    lives = Lifetimes(
        live_from_us=np.asarray([replica.live_from_us for replica in fleet], np.int64),
        live_to_us=np.asarray(
            [FOR_EVER_US if replica.live_to_us is None else replica.live_to_us for replica in fleet], np.int64
        ),
        rank=np.arange(len(fleet), dtype=np.int32),  # fleets are in order of name
    )
    replayed = pool.replay(replicas=len(fleet), ttl_us=found.ttl_us, resets=resets, lives=lives, explain=True)
    assert replayed.segments is not None
    survival = _survival(log, plan, pool, replayed.segments) if rules.best_effort else None
    return HostedRun(
        pool=pool,
        hit_blocks=replayed.hit_blocks,
        segments=replayed.segments,
        rules=rules,
        found=found,
        resets=resets,
        lives=lives,
        replicas=len(fleet),
        ttl_us=plan.ttl_us,
        as_sent=cache.as_sent,
        estimated=int((log.lookups.first_token_us[plan.mine] == NO_TIME).sum()),
        ms_per_token=ms_per_token,
        survival=survival,
        said=said,
    )


def _survival(log: Log, plan: PoolPlan, pool: HostedPool, segments: NDArray[np.int32]) -> Survival | None:
    """Fit how long the cache keeps what each lookup could hit of it."""
    hit = segments[segments[:, kernel.CLASS] == kernel.HIT].astype(np.int64)
    lookup, own = hit[:, kernel.LOOKUP], hit[:, kernel.OWN]
    table = log.rows.table.select(["cached_tokens_observed", "session_id"])
    asked = table.take(pa.array(log.lookups.request_row[plan.mine[lookup]]))
    sessions = asked["session_id"].combine_chunks().dictionary_encode()
    numbers = pc.fill_null(sessions.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return fit_survival(
        pool.traffic.at_us[lookup] - pool.traffic.at_us[own],
        (hit[:, kernel.END] - hit[:, kernel.FIRST]) * pool.block_size,
        np.asarray(pc.fill_null(asked["cached_tokens_observed"], -1).to_numpy(), np.int64),
        # Whoever names no conversation is one of his own.
        np.where(numbers < 0, len(sessions.dictionary) + np.arange(numbers.size), numbers),
    )


def _answers(plan: PoolPlan, log: Log, chains: Chains, rules: LookupRules) -> Answers | None:
    """Return where answers end that are stored; the next turn of a session shows what they were."""
    stored = rules.entries == UNITS
    if not stored.any() or plan.pool.in_flight.output == "ignore":
        return None
    found = find_outputs(log, plan.mine, chains, plan.block_size)
    stored &= found.keyed_blocks > log.lookups.n_blocks[plan.mine]
    end = log.lookups.finished_us[plan.mine]
    ready = np.where(end == NO_TIME, NO_TIME, end + _SECONDS_LATER_US * (rules.visible == SECONDS_LATER))
    return Answers(np.where(stored, found.last_block, -1), np.where(stored, found.keyed_blocks, 0), ready)


def _traffic(
    plan: PoolPlan,
    log: Log,
    rules: LookupRules,
    found: FoundMarks,
    ms_per_token: float,
    answers: Answers | None,
    said: Told,
) -> HostedTraffic:
    known, mine = log.lookups, plan.mine
    first_token = known.first_token_us[mine]
    readable = readable_us(
        known.started_us[mine], known.finished_us[mine], ms_per_token * known.prompt_tokens[mine]
    )
    readable = np.where((first_token == NO_TIME) & (rules.visible == FIRST_TOKEN), readable, NO_TIME)
    read, wanted = read_and_wanted(said, plan.block_size)
    if not plan.pool.in_flight.hits_shorten_prefill:
        end = known.finished_us[mine]
        whole = known.started_us[mine] + np.rint(1000 * ms_per_token * known.prompt_tokens[mine]).astype(
            np.int64
        )
        estimate = np.where(end == NO_TIME, whole, np.minimum(whole, end))
        first_token = np.where(first_token == NO_TIME, estimate, first_token)
    end = known.finished_us[mine]
    first_token = np.where((rules.visible == RESPONSE_END) & (end != NO_TIME), end, first_token)
    later = np.where(first_token == NO_TIME, known.started_us[mine], first_token) + _SECONDS_LATER_US
    first_token = np.where(rules.visible == SECONDS_LATER, later, first_token)
    return HostedTraffic(
        at_us=known.started_us[mine],
        replica=plan.replica.astype(np.int32),
        prompt_tokens=known.prompt_tokens[mine],
        last_block=known.last_block[mine],
        keyed_blocks=known.n_blocks[mine],
        first_token_us=first_token,
        finished_us=known.finished_us[mine],
        readable_us=readable,
        read_blocks=read,
        wanted_blocks=wanted,
        minimum_tokens=rules.minimum_tokens,
        look_back=rules.look_back,
        refresh=rules.refresh,
        marks=found.marks,
        takes_ttl=rules.takes_ttl,
        answers=answers,
    )


def _as_written(log: Log, mine: NDArray[np.int64], ttl_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return lifetimes, an hour where the service says that whatever was written was written for one."""
    table = log.rows.table.select(["cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed"])
    short, long = (
        pc.fill_null(column, 0).to_numpy() for column in table.take(pa.array(log.lookups.request_row[mine]))
    )
    return np.where((long > 0) & (short == 0), _HOUR_US, ttl_us)
