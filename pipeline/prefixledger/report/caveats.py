"""What a verdict rests on and what it cannot show, one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.config.registry import HOSTED_PROVIDERS, PROFILES
from prefixledger.ingest.text.scale import APPROXIMATE
from prefixledger.replay.hosted_notes import NO_PROMISE
from prefixledger.replay.notes import PARTIAL
from prefixledger.report.invoice_parts import coverage_sentence
from prefixledger.report.numbers import clean, count, money, percent, whole

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView, Result

_DOUBTFUL_AGREEMENT = 0.9
FEW_LOOKUPS = 30
"""Of fewer than that nobody should conclude anything about next week."""

_SHORT = 0.02
"""Share of the prompts that the service reads less than the text repeats, from which how it is rendered may be why."""
_RENDERED = (
    " The service reads less than the text repeats: a template may render history otherwise than it was sent, or the same text "
    "be cut into other tokens. --tokenizer and --template show what was really asked."
)
_TWICE, _OTHER_UNIT = 1.8, 0.1
"""Tokens counted for each that the log asks, above and below which they are not the same thing."""
_COUNTER_SLACK = 0.01
"""Samples of counters do not begin and end with an hour: a point more than within reach is no contradiction."""


def caveats_of(view: ReportView) -> tuple[str, ...]:
    """Return the caveats, the basis of the rate first."""
    result = view.result
    held = "" if view.reconciliation is None else coverage_sentence(view.reconciliation)
    found = [
        held,
        _basis_caveat(result),
        ceiling_caveat(result),
        counter_caveat(view),
        unit_caveat(view),
        _text_caveat(view),
    ]
    if result.setup.unlimited and result.total.prompt_tokens and result.book("simulated"):
        found.append(
            "No capacity was given, so the replay cannot show eviction and its rate is an upper bound: "
            'tell us your capacity, e.g. capacity = "60000 blocks" under [cache] of a --scenario file.'
        )
    if result.spread is not None:
        found.append(
            f"The router draws, so this is one of several outcomes: the hit rate is {result.spread.told}, the replay's among them."
        )
    if 1 < result.total.requests < FEW_LOOKUPS:
        found.append(f"Only {whole(result.total.requests)} lookups: too few to conclude anything from.")
    found += [_loss_caveat(result), _refused_caveat(result), *_partial_caveats(result)]
    found.append(reject_caveat(view))
    cut = [clean(s.path, 40) for s in view.sources if s.truncated_at is not None]
    if cut:
        found.append(
            f"Cut off at the end, read to the last whole record: {', '.join(cut[:3])}{' …' if cut[3:] else ''}."
        )
    if view.window.resumed:
        gaps = len(view.window.resumed)
        many = "a gap" if gaps == 1 else f"{whole(gaps)} gaps"
        found.append(f"The log has {many} in coverage, after which caches warm up anew.")
    if result.failed_requests and result.total.requests:
        found.append(
            f"{count(result.failed_requests, 'failed request')} never reached a cache and {'is' if result.failed_requests == 1 else 'are'} in no rate."
        )
    found.append(_unpriced_caveat(view))
    if result.unmeasured_requests:
        found.append(
            f"Of {count(result.unmeasured_requests, 'request')} nothing can be said: neither keys nor usage were logged."
        )
    return tuple(text for text in found if text)


def reject_caveat(view: ReportView) -> str:
    """Say how many records were rejected; empty where none was."""
    rejected = sum(s.rejected for s in view.sources)
    records = sum(s.records for s in view.sources)
    if not rejected:
        return ""
    return f"{whole(rejected)} of {whole(records)} records ({percent(rejected / records)}) were rejected."


def refused_share(result: Result) -> float:
    """Return the share of prompt tokens that are of prompts larger than the whole cache of their replica."""
    refused = sum(one.tokens for one in result.details if one.detail == "larger_than_cache")
    return refused / result.total.prompt_tokens if result.total.prompt_tokens else 0.0


def _refused_caveat(result: Result) -> str:
    """Say that prompts do not fit into the cache: an engine that served them has more, so the capacity is in doubt."""
    share = refused_share(result)
    if not share:
        return ""
    return (
        f"{percent(share)} of the prompt tokens are of prompts larger than the whole cache of their replica, which an "
        "engine refuses: check the capacity of the scenario."
    )


def _loss_caveat(result: Result) -> str:
    """Say that the cache costs more than it saves; in prefill tokens it cannot."""
    lost = [cost for cost in result.costs if cost.saved < 0]
    return " ".join(
        f"Caching costs {money(-cost.saved, cost.currency)} more than it saves: {money(cost.actual, cost.currency)} against "
        f"{money(cost.uncached, cost.currency)} without a cache, output included."
        for cost in lost
    )


def _partial_caveats(result: Result) -> list[str]:
    """Repeat what the replay says of traffic that the log does not hold: sampled rows, replicas whose log stops."""
    notes = [note for note in result.setup.notes if any(phrase in note for phrase in PARTIAL)]
    return [f"Not the whole traffic: {clean(note, 400)}." for note in notes]


def _text_caveat(view: ReportView) -> str:
    """Say so where keys were made of text in another way than the engine makes them."""
    total = sum(s.kept for s in view.sources)
    rough = sum(s.kept for s in view.sources if any(note.startswith(APPROXIMATE) for note in s.notes))
    if not rough or not total:
        return ""
    observed = view.result.observed
    short = observed is not None and observed.unexplained_tokens >= _SHORT * max(
        1, observed.both_prompt_tokens
    )
    return (
        f"Keys are approximate in inputs with {percent(rough / total)} of the requests: they are made of text, without the "
        "tokenizer and the chat template of the model, so lengths and hits in tokens are estimates."
    ) + (_RENDERED if short else "")


def ceiling_caveat(result: Result) -> str:
    """Say that the service reports more hits than the log allows; empty where it does not."""
    observed = result.observed
    if observed is None or observed.compared is None or not observed.above_ceiling_tokens:
        return ""
    both = observed.compared
    reported, most = (
        percent(tokens / both.prompt_tokens)
        for tokens in (both.reported_hit_tokens, observed.both_ideal_tokens)
    )
    return (
        f"The service reports {reported} where this log allows {most} at most: either its cache was warm from before "
        "the log or with answers that the replay does not cache, or it counts what are no hits (recomputation after "
        "preemption, prefill and decode added up)."
    )


def counter_caveat(view: ReportView) -> str:
    """Say that the counters of engines show more hits than the log allows; empty where they do not."""
    if view.engines is None:
        return ""
    (hits, queries), (_, ideal, asked) = view.engines.counted, view.engines.replayed
    if not queries or not asked or hits / queries - ideal / asked <= _COUNTER_SLACK:
        return ""
    return (
        f"The engines count {percent(hits / queries)} where this log allows {percent(ideal / asked)} at most: either their "
        "caches were warm from before the log or with answers that the replay does not cache, or requests are missing in the "
        "log, or the counters count what are no hits (recomputation after preemption, lookups told twice)."
    )


def unit_caveat(view: ReportView) -> str:
    """Say that counters of engines do not count the tokens that this log asks; empty where they may.

    An hour is covered in part at its ends, so only what is far off is told.
    """
    if view.engines is None:
        return ""
    (hits, queries), (simulated, _, asked) = view.engines.counted, view.engines.replayed
    if not queries or not asked:
        return ""
    per_token = queries / asked
    if per_token > _TWICE:
        return (
            f"The engines count {per_token:.1f} tokens asked for each prompt token of this log: lookups are counted more than once "
            "(after preemption, or when they end as well), or requests are missing in the log."
        )
    if per_token < _OTHER_UNIT:
        return (
            f"The engines count {per_token:.2g} tokens asked for each prompt token of this log: they count requests or blocks and "
            "not tokens, or most of these requests were served elsewhere."
        )
    if not hits and simulated > _COUNTER_SLACK * asked:
        return (
            f"The engines count tokens asked and none hit, where the replay hits {percent(simulated / asked)}: either nothing is "
            "cached there, or hits are counted under another name or in another unit."
        )
    return ""


def _basis_caveat(result: Result) -> str:
    if not result.total.requests:
        return ""
    observed = result.observed
    if observed is None:
        return "Simulated: the log carries no usage, so nothing here was confirmed by the service."
    if result.book("simulated") is None:
        return "Observed: the log carries no keys, or no profile follows the rules of that cache, so most causes cannot be proven."
    agreement = (
        "" if observed.agreement is None else f" Replay and log agree to {percent(observed.agreement)}."
    )
    doubt = ""
    if observed.agreement is not None and observed.agreement < _DOUBTFUL_AGREEMENT:
        doubt = f" That is too little to trust the causes: {_doubt(result)}"
    if result.headline.basis == "observed":
        simulated = result.book("simulated")
        expected = percent(simulated.token_hit_rate if simulated else None)
        return (
            f"Observed: the rate is what the service logged; the replay gives {expected}.{agreement}{doubt}"
        )
    return (
        f"Simulated: only {percent(result.usage_share)} of the prompt tokens carry usage.{agreement}{doubt}"
    )


def _doubt(result: Result) -> str:
    """Say why a replay and the service may differ so much, and what to do about it."""
    profiles = [PROFILES[name] for name in result.setup.profiles if name in PROFILES]
    if any(NO_PROMISE in note for note in result.setup.notes):
        return (
            "the service promises no lifetime, while the replay takes it to keep everything; what it can be expected to hit "
            "is fitted to its own usage, in the notes of the scenario."
        )
    if profiles and all(profile.hosted for profile in profiles):
        return (
            "the service may have followed other rules than the replay. Look at the models and days that differ most, and give "
            "the lifetime, minimum or marks that hold there in a --scenario file."
        )
    return (
        "the caches may be smaller, shorter-lived or differently routed than the replay takes them to be. Give their capacity, "
        "TTL and replicas in a --scenario file, and see whether it comes nearer."
    )


def _unpriced_caveat(view: ReportView) -> str:
    """Name the hosted providers of which some model has no price; the bill of their tokens counts and does not add up."""
    where = sorted(
        {
            clean(part.value, 40)
            for part in view.spend
            if part.field == "provider" and part.value in HOSTED_PROVIDERS and part.currency == PREFILL_TOKENS
        }
    )
    if not where:
        return ""
    return (
        f"No price is known for some models that {', '.join(where)} served: their tokens are counted, not priced. "
        "Give prices as [pricing] rates in a --scenario file."
    )
