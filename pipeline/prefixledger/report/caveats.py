"""What a verdict rests on and what it cannot show, one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.report.numbers import clean, count, percent, whole

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView, Result

_DOUBTFUL_AGREEMENT = 0.9


def caveats_of(view: ReportView) -> tuple[str, ...]:
    """Return the caveats, the basis of the rate first."""
    result = view.result
    found = [_basis_caveat(result)]
    if result.setup.unlimited and result.total.prompt_tokens and result.book("simulated"):
        found.append(
            "No capacity was given, so the replay cannot show eviction and its rate is an upper bound: "
            'tell us your capacity, e.g. capacity = "60000 blocks" under [cache] of a --scenario file.'
        )
    rejected = sum(s.rejected for s in view.sources)
    if rejected:
        records = sum(s.records for s in view.sources)
        found.append(
            f"{whole(rejected)} of {whole(records)} records ({percent(rejected / records)}) were rejected."
        )
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
    if result.unmeasured_requests:
        found.append(
            f"Of {count(result.unmeasured_requests, 'request')} nothing can be said: neither keys nor usage were logged."
        )
    return tuple(text for text in found if text)


def _basis_caveat(result: Result) -> str:
    if not result.total.requests:
        return ""
    observed = result.observed
    if observed is None:
        return "Simulated: the log carries no usage, so nothing here was confirmed by the service."
    if result.book("simulated") is None:
        return "Observed: the log carries usage but no keys, so most causes cannot be proven."
    agreement = (
        "" if observed.agreement is None else f" Replay and log agree to {percent(observed.agreement)}."
    )
    doubt = ""
    if observed.agreement is not None and observed.agreement < _DOUBTFUL_AGREEMENT:
        doubt = (
            " That is too little to trust the causes: check capacity, TTL and replicas of the scenario first."
        )
    if result.headline.basis == "observed":
        simulated = result.book("simulated")
        expected = percent(simulated.token_hit_rate if simulated else None)
        return (
            f"Observed: the rate is what the service logged; the replay gives {expected}.{agreement}{doubt}"
        )
    return (
        f"Simulated: only {percent(result.usage_share)} of the prompt tokens carry usage.{agreement}{doubt}"
    )
