"""What a replayed hosted pool took for granted, what can be expected of it, and what in its log speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay import hosted_kernel as kernel
from prefixledger.replay.hosted_observed import minimum_notes, silence_notes
from prefixledger.replay.hosted_rules import BLOCKS, CREATED, UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.replay.hosted_run import HostedRun

NO_PROMISE = "no lifetime is promised there"
"""What the notes of a best-effort cache say: a report knows it by these words."""
_UNASKED = {
    BLOCKS: "nobody asks for anything to be cached: prompts are taken to be stored at every block or interval of the model",
    UNITS: "prompts are stored at their end and at the end of what they share with an earlier one, so that the first to share "
    "a head misses it; so is the end of an answer where the next turn shows what it was",
    CREATED: "heads of the length that marks give are created by the first prompt that has them, and again once they ended; "
    "other tokens are not cached",
}


def hosted_notes(
    run: HostedRun, pool: str, profile: str, ttl: str, given_tokens: tuple[int, ...]
) -> Iterator[str]:
    """Say what was taken for granted."""
    where = f"pool {pool!r}: "
    also = "".join(f" and to token {tokens}" for tokens in given_tokens)
    unsent = int((~run.found.sent & run.found.asked).sum())
    if unsent:
        yield (
            f"{where}the log shows no cache marks of {unsent} lookups; each is taken to be stored to the end of its last "
            f"full block{also}, nothing to be out of reach, and the tokens behind it to be uncached"
        )
    if run.found.sent.any():
        yield (
            f"{where}cache marks are as sent, cut to full blocks of {run.pool.block_size} tokens; a mark inside a message "
            "that is more than its content counts as one behind all of it, so that what it alone would have stored is missed as "
            "no_breakpoint"
        )
    if not run.found.asked.all():
        yield f"{where}{_UNASKED[int(run.rules.entries[~run.found.asked][0])]}"
    short = run.rules.of[run.pool.reasons == kernel.BELOW_MINIMUM]
    for number, prompts in zip(*np.unique(short, return_counts=True), strict=True):
        yield (
            f"{where}nothing of {prompts} prompts is stored: they are marked below the minimum, "
            f"{run.rules.minimums[number]}"
        )
    for note in _contradictions(run):
        yield f"{where}{note}"
    if others := [named for named in run.found.ttls if named != ttl]:
        replayed = "each is replayed with its own" if run.as_sent else f"all are replayed with {ttl}"
        yield f"{where}marks ask for a lifetime of {', '.join(others)}; {replayed}"
    if run.estimated:
        yield (
            f"{where}first tokens of {run.estimated} lookups are not logged: what they store is taken to be readable "
            f"{run.ms_per_token:g} ms for each token not read after their start, at the latest when they end; whoever asks before "
            "that, or while the first token may still be to come, is believed what its usage says it read or wrote"
        )
    yield (
        f"{where}profile {profile!r}: all lookups that name no replica share one cache (scope: {run.rules.scope or 'not known'}); "
        "whoever asks before an entry is readable writes it again"
    )
    if run.rules.best_effort:
        yield (
            f"{where}{NO_PROMISE}; the replay shows what there would be to hit if all were kept"
            f"{'' if ttl == 'none' else f' for {ttl}'}"
        )
        yield f"{where}{_expected(run)}"
    elif run.rules.minimal:
        yield f"{where}{ttl} is the shortest life that is promised; where entries live longer, there are more hits"


def _contradictions(run: HostedRun) -> Iterator[str]:
    """Say where the log does not bear out the rules."""
    if run.said is None:
        return
    spaced = np.stack([run.rules.first_tokens, run.rules.interval_tokens])
    for first, every in np.unique(spaced[:, run.rules.first_tokens > 0], axis=1).T.tolist():
        yield (
            f"by what the service reads, prompts are stored at {first:,} tokens and every {every:,} behind: what it puts "
            "in front of them counts, too"
        )
    size, deepest = run.pool.block_size, np.zeros(run.hit_blocks.size, np.int64)
    np.maximum.at(deepest, run.owner, run.found.depth)
    yield from minimum_notes(run.said, run.rules.minimum_tokens, deepest * size)
    yield from silence_notes(run.said, run.hit_blocks * size, run.pool.stored_blocks * size)


def _expected(run: HostedRun) -> str:
    """Say what can be expected of a cache that promises nothing."""
    if run.survival is None:
        return (
            "too few lookups say what was read of it to tell how much it keeps; what it really hits lies between nothing "
            "and that"
        )
    prompt = int(run.pool.traffic.prompt_tokens.sum()) or 1
    rate, low, high = (
        tokens / prompt
        for tokens in (
            run.survival.expected_tokens,
            run.survival.expected_low,
            run.survival.expected_high,
        )
    )
    return (
        f"by what it read again after each gap, a hit rate of {rate:.1%} is to be expected of it (95 % interval {low:.1%} "
        f"to {high:.1%}), where keeping all would give {run.hit_blocks.sum() * run.pool.block_size / prompt:.1%}; the "
        "share by gap stands in survival.parquet"
    )
