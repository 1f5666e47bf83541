"""What a reader of a replay must know about the log and the events, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from prefixledger.config.tiers import TIER_KINDS
from prefixledger.errors import UsageError
from prefixledger.ingest.silence import PAUSED, listed, pause, stops, stretch
from prefixledger.replay.fleet import ALL, UNKNOWN
from prefixledger.replay.hosted_notes import hosted_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.fleet import Fleet
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.named_events import NamedEvent
    from prefixledger.replay.plan import PoolPlan
    from prefixledger.replay.pool_run import PoolRun

SAMPLED: Final = "stand for a sample"
STOPPED: Final = "stop in the log while others go on"
PARTIAL: Final = (SAMPLED, STOPPED, PAUSED)
"""In notes that tell of traffic which the log does not hold; a report repeats them beside its verdict."""


def log_notes(log: Log) -> Iterator[str]:
    """Say what the log lacks: rows that ask no cache, sampled rows, prompts of which only the head is known."""
    failed, unkeyed = count_others(log)
    if failed:
        yield f"{failed} failed calls never reached a cache and are no lookups"
    if unkeyed:
        yield f"{unkeyed} rows carry no keys and cannot be looked up"
    yield from unreplayed_notes(log)
    yield from conversation_notes(log)
    chosen = log.rows.table.select(["weight", "prompt_complete"]).take(log.lookups.request_row)
    sampled = int((chosen["weight"].to_numpy() != 1.0).sum())
    if sampled:
        yield f"{sampled} lookups {SAMPLED}: reuse between requests that were not logged is missing, so hits are a lower bound"
    short = len(chosen) - int(chosen["prompt_complete"].to_numpy().sum())
    if short:
        yield f"of {short} lookups only the head of the prompt was logged; the rest has no keys and cannot hit"


def count_others(log: Log) -> tuple[int, int]:
    """Return how many rows failed with keys or without, and how many others carry no keys."""
    failed, keyed = _failed(log), log.rows.table["keyed"].to_numpy()
    return int(failed.sum()), int((~keyed & ~failed).sum())


def conversation_notes(log: Log) -> Iterator[str]:
    """Say where one session id stands for several conversations: sub-agents, or chats side by side."""
    if log.conversation is None or (log.conversation < 0).all():
        return
    known = np.flatnonzero(log.conversation >= 0)
    sessions = log.rows.table["session_id"].take(pa.array(known)).combine_chunks().dictionary_encode()
    pairs = np.unique(np.stack([sessions.indices.to_numpy(), log.conversation[known]]), axis=1)
    several = int((np.bincount(pairs[0]) > 1).sum())
    if several:
        yield (
            f"{several} of {len(sessions.dictionary)} sessions hold several conversations (sub-agents, or chats side by side), "
            f"{pairs.shape[1]} in all, told apart by their first prompts: column conversation of lookups, and explain"
        )


def unreplayed_notes(log: Log) -> Iterator[str]:
    """Say whose cache no profile follows, though the log carries keys."""
    chosen = log.rows.table["keyed"].to_numpy() & ~log.rows.is_lookup & ~_failed(log)
    if chosen.any():
        table = log.rows.table.filter(pa.array(chosen))
        whose = sorted({str(name) for name in table["provider"].unique().to_pylist()})
        usage = int((table["usage_state"].to_numpy(zero_copy_only=False) == "present").sum())
        yield (
            f"{len(table)} requests to {', '.join(whose)} are not replayed: no profile follows the rules of that cache; "
            f"{usage} of them report what they read from it, and what was not read has no proven cause"
        )


def _failed(log: Log) -> NDArray[np.bool_]:
    return np.asarray(log.rows.table["status"].to_numpy(zero_copy_only=False) == "failed")


def event_notes(fleets: Sequence[tuple[Pool, Fleet]], events: Sequence[NamedEvent]) -> Iterator[str]:
    """Tell of events that name nobody.

    A file beside the log may well name replicas that did not serve in it; a scenario that does is wrong.

    Raises:
        UsageError: An event of the scenario names no replica of any pool it concerns.
    """
    matched = {event_id for _, fleet in fleets for event_id in fleet.matched}
    for named in events:
        if named.event_id in matched:
            continue
        what = (
            f"event {named.event_id} ({named.event.kind}) names {named.event.replica or named.event.pool!r}"
        )
        if not named.from_file:
            names = [f"{pool.name}: {', '.join(r.name for r in fleet.replicas)}" for pool, fleet in fleets]
            raise UsageError(
                f"{what}, and there is no such replica", hint=f"replicas that exist: {'; '.join(names)}"
            )
        yield f"{what}, which is no replica of this log, and changes nothing"


def late_event_notes(events: Sequence[NamedEvent], first_us: int, last_us: int) -> Iterator[str]:
    """Tell of events that lie outside the log: most often a wrong year, zone or relative clock."""
    for named in events:
        if not first_us <= named.event.at_us <= last_us:
            where = "before" if named.event.at_us < first_us else "after"
            yield f"event {named.event_id} ({named.event.kind}) lies {where} the log and changes nothing in it"


def replica_notes(plans: Sequence[PoolPlan]) -> Iterator[str]:
    """Say which lookups name no replica, where the log is what places them."""
    for plan in plans:
        for number, replica in enumerate(plan.fleet.replicas):
            nameless = int((plan.replica == number).sum())
            if plan.pool.hosted:
                continue  # its notes speak of who shares a cache
            if plan.fleet.membership is None and replica.name in (ALL, UNKNOWN) and nameless:
                yield (
                    f"pool {plan.pool.name!r}: {nameless} lookups name no replica and are taken to ask one cache, "
                    f"{replica.name}"
                )


def silence_notes(plans: Sequence[PoolPlan], log: Log) -> Iterator[str]:
    """Say of which replicas the log stops to speak, at its end or for a while: whether they or only their logs went, it cannot tell.

    A quiet hour is no end: only a silence longer than any that a replica kept before, and than 15 minutes, is told.
    """
    end_us = int(log.rows.started_us[-1])
    for plan in plans:
        if plan.pool.hosted or plan.fleet.membership is not None:
            continue
        silent, paused = [], []
        all_us = log.lookups.started_us[plan.mine]
        for number, replica in enumerate(plan.fleet.replicas):
            at_us = log.lookups.started_us[plan.mine[plan.replica == number]]
            when = pause(at_us, all_us)
            if when is not None:
                paused.append(stretch(replica.name, when))
            if replica.live_to_us is None or at_us.size == 0:
                continue
            if stops(at_us, end_us):
                silent.append(replica.name)
        if silent:
            yield (
                f"pool {plan.pool.name!r}: {len(silent)} of {len(plan.fleet.replicas)} replicas {STOPPED} ({listed(silent)}) and are "
                "taken to be gone; if it is their logs that are missing, what was asked of them later is missing too"
            )
        if paused:
            yield (
                f"pool {plan.pool.name!r}: {len(paused)} of {len(plan.fleet.replicas)} replicas {PAUSED} ({listed(paused)}); if it is "
                "their logs that are missing, the replay lacks what they stored then, and misses after it are more than there were"
            )


def _running(run: PoolRun) -> str:
    """Say what running requests do to the tree."""
    residence = run.plan.residence
    if residence.mode == "none":
        one = ", one request at a time; running requests "
        return one + (
            "and output take no room" if residence.output == "ignore" else "take no room, their output does"
        )
    shown = (
        "; a request locks what it matched, and others can match what it computes from the end of its prefill on (prompt) "
        "or from its end on (output): "
    )
    missed = 0 if run.in_flight is None else int((run.in_flight.lookup >= 0).sum())
    return (
        f"{shown}{missed} lookups missed blocks that a running request was computing; {_chunks(run)}the "
        "queue is first come, first served, and a request that waits refreshes nothing; for "
        "output that finds no room the request with the least output goes back to the queue, and what it generated is lost"
    )


def _chunks(run: PoolRun) -> str:
    tokens = run.plan.pool.in_flight.chunk_tokens
    return "" if tokens is None else f"a prompt of more than {tokens} tokens is shown chunk by chunk, "


def _radix_notes(run: PoolRun) -> Iterator[str]:
    plan = run.plan
    yield (
        f"pool {plan.pool.name!r}: profile 'sglang' is the classic radix tree (RadixCache of SGLang 0.5.23, evicting by "
        f"last access), a page being one block of {plan.block_size} tokens{_running(run)}"
    )
    yield (
        f"pool {plan.pool.name!r}: the tree evicts whole leaves, so more capacity, or beside a capacity a longer TTL, can "
        "hit less; each point of its capacity curve is a replay of its own, and the capacity that a block would have needed "
        "is not known"
    )


def _tier_notes(run: PoolRun) -> Iterator[str]:
    pool, tier = run.plan.pool.name, run.plan.pool.tier
    assert tier is not None
    where = "a store that all replicas share" if tier.shared else "the host memory of each replica"
    size = tier.capacity if tier.times is None else f"{tier.times} times as large as the cache"
    chunks = f", in chunks of {tier.chunk_tokens} tokens" if tier.chunk_tokens > run.plan.block_size else ""
    yield (
        f"pool {pool!r}: the lower tier is {TIER_KINDS[tier.kind].meaning}, {where}, {size}, written "
        f"{tier.write.replace('-', ' ')}{chunks}; what it hits is counted in hit_host_tokens, an evicted block was in neither "
        "tier, and needed capacities are those of the cache above alone; there is no capacity curve"
    )
    if not tier.promote:
        yield (
            f"pool {pool!r}: what is read from the lower tier takes room while its request runs and is not cached above again; "
            "what is computed behind it is, out of reach until somebody computes what was read"
        )
    if run.plan.residence.hit_saves_us > 0:
        yield f"pool {pool!r}: hits in the lower tier do not shorten the estimated prefill"
    if tier.kind == "hicache":
        yield (
            f"pool {pool!r}: the lower tier evicts block by block, the least recently used first and deep before shallow, "
            "where HiCache evicts the leaves of its tree; what is loaded back takes the room that computing it would take"
        )
    if run.plan.ttl_us is not None:
        yield (
            f"pool {pool!r}: the TTL is that of the cache above; the lower tier keeps what expires there, and a miss is "
            "evicted where the tier had to give it up"
        )


def _bypass_notes(run: PoolRun) -> Iterator[str]:
    if run.log.bypassed is not None:
        yield (
            f"pool {run.plan.pool.name!r}: {int(run.log.bypassed.sum())} requests do not look their prompt up (prompt logprobs "
            "and the like): all of it is uncacheable, bypassed; what they compute is stored for others, as second copies of "
            "what is there already, which needed capacities leave out"
        )


def run_notes(runs: Sequence[PoolRun]) -> Iterator[str]:
    """Say what a replay left out: flushes that running requests stopped, prompts larger than the cache."""
    for run in runs:
        yield from _bypass_notes(run)
        pool, profile = run.plan.pool.name, run.plan.pool.cache.profile
        for reset in run.ignored:
            replica = run.plan.fleet.replicas[reset.replica].name
            yield f"event {reset.event_id} (flush) changed nothing on {replica}: a request was running there"
        refused = int(run.log.refused.sum())
        if refused:
            yield f"pool {pool!r}: {refused} prompts are larger than the whole cache and were refused"
        if profile == "textbook":
            yield (
                f"pool {pool!r}: profile 'textbook' leaves holes in prefixes, so it has no capacity curve, and needed "
                "capacities are not known; causes follow from last uses alone and the books close"
            )
        if profile == "sglang":
            yield from _radix_notes(run)
        if run.plan.pool.tier is not None:
            yield from _tier_notes(run)
        if run.hosted is not None:
            cache = run.plan.pool.cache
            yield from hosted_notes(run.hosted, str(pool), profile, cache.ttl, cache.marks or ())
        if run.preemptions and run.recompute_tokens is not None:
            yield (
                f"pool {pool!r}: {run.preemptions} preemptions of running requests made room for output, and "
                f"{int(run.recompute_tokens.sum())} tokens were computed again; they stand outside the books, where the first "
                "admission counts, and what they brought back is resident for others from the next lookup on"
            )
        if run.plan.residence.mode != "none":
            yield (
                f"pool {pool!r}: running requests hold their blocks, for times that are {run.plan.residence.mode}; what is "
                "said of other cache sizes (steps to the ideal, curves, needed capacities) holds for one request at a time"
            )
