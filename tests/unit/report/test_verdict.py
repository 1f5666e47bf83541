"""The verdict of the main states of a window."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

import report_data
from prefixledger.report.books import Detail, EngineHour, Engines, Observed
from prefixledger.report.caveats import unit_caveat
from prefixledger.report.findings import derive
from prefixledger.report.kpis import kpis
from prefixledger.report.load import load_notes
from prefixledger.report.load_parts import RoutingOption
from prefixledger.report.parts import Replica
from prefixledger.report.verdict import largest_loss, verdict

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView


def with_result(view: ReportView, **changes: object) -> ReportView:
    """Change the first result of a view."""
    return replace(view, results=(replace(view.result, **changes), *view.results[1:]))  # type: ignore[arg-type]


def observed_week(agreement: float = 0.97) -> ReportView:
    """The week with usage on every lookup, part of it unexplained."""
    view = report_data.week()
    total = view.result.total
    taken = 40_000_000
    lost = {**total.misses, "unexplained": taken}
    book = replace(total, basis="observed", hit_tokens=total.hit_tokens - taken, misses=lost)
    seen = Observed(
        book, book.missed_tokens, None, None, None, total.hit_tokens, total.prompt_tokens, taken, 0, agreement
    )
    return with_result(view, observed=seen)


def test_a_week_with_an_incident() -> None:
    """One sentence with the rate, what was reachable, the largest loss, its size, who and when."""
    found = verdict(report_data.week())
    assert found.state == "loss"
    assert found.sentence == (
        "In the replay, 68.5 % of 341 million prompt tokens came from cache and 84.5 % was within reach; the largest loss is "
        "changed keys, 8.6 points (29.2 million tokens), 90 % of it at tenant-1, 91 % of it on Wed 25 Nov from 10:00 to 23:00."
    )
    assert found.caveats[0].startswith("Simulated: only 33.3 % of the prompt tokens carry usage.")
    assert any("rejected" in text for text in found.caveats)


@pytest.mark.parametrize(
    ("view", "state", "words"),
    [
        (report_data.nothing(), "empty", "No request falls into this window"),
        (report_data.nothing(failed=3), "empty", "all 3 of them failed"),
        (report_data.nothing(requests=2), "empty", "None of the 2 requests of this window has a prompt"),
        (report_data.one_request(), "single", "Only one request falls into this window"),
        (
            report_data.all_cold(),
            "cold",
            "no two prompts of the 32,660 requests begin with the same full block",
        ),
    ],
)
def test_states_without_a_judgement(view: ReportView, state: str, words: str) -> None:
    """What cannot be judged is not judged, and says why."""
    found = verdict(view)
    assert found.state == state
    assert words in found.sentence
    assert found.sentence.count(". ") == 0


def test_usage_on_every_token_makes_the_observed_rate_the_headline() -> None:
    """The verdict says that the service logged the rate, and that the gap has no explanation."""
    found = verdict(observed_week())
    assert found.sentence.startswith(
        "The service itself logged 56.7 % of 341 million prompt tokens as read from cache"
    )
    assert "has no explanation in the log" in found.sentence
    assert "the replay gives 68.5 %" in found.caveats[0]
    assert "too little to trust" not in found.caveats[0]


def test_a_poor_agreement_is_said_before_any_cause() -> None:
    """Below 90 % the reader is told why that may be, and what to give a scenario of this kind of cache."""
    view = observed_week(0.7)
    for profiles, notes, words in (
        (("vllm", "anthropic"), (), "Give their capacity, TTL and replicas"),
        (("anthropic",), (), "give the lifetime, minimum or marks"),
        (("deepseek",), ("pool 'a': no lifetime is promised there; …",), "takes it to keep everything"),
    ):
        setup = replace(view.result.setup, profiles=profiles, notes=notes)
        (told, *_) = verdict(with_result(view, setup=setup)).caveats
        assert "too little to trust the causes" in told
        assert words in told


def test_unlimited_memory_asks_for_the_capacity() -> None:
    """Without a capacity the rate is an upper bound, and the verdict says so."""
    view = with_result(report_data.week(), setup=report_data.setup(unlimited=True, capacity="unlimited"))
    found = verdict(view)
    assert found.sentence.startswith("In a replay without a memory limit, ")
    assert any("tell us your capacity" in text for text in found.caveats)


def test_traffic_that_the_log_does_not_hold_is_said_beside_the_verdict() -> None:
    """Sampled rows and replicas whose log stops make every rate a rate of a part; other notes stay below."""
    notes = (
        "9 lookups stand for a sample: …",
        "pool 'a': 1 of 2 replicas stop in the log while others go on (b)",
        "else",
    )
    found = verdict(with_result(report_data.week(), setup=report_data.setup(notes=notes)))
    assert [text[:32] for text in found.caveats if text.startswith("Not the whole traffic")] == [
        "Not the whole traffic: 9 lookups", "Not the whole traffic: pool 'a':",
    ]  # fmt: skip


def test_what_was_never_stored_is_not_called_new() -> None:
    """Prompts that no mark asks to be cached may share all they have: nobody is told that they begin differently."""
    total = replace(report_data.week().result.total, hit_tokens=0)
    for detail, words in (
        ("no_breakpoint", "no mark asks"),
        ("below_minimum", "shorter than what is cached"),
    ):
        details = (Detail("uncacheable", detail, None, total.prompt_tokens),)
        view = with_result(
            report_data.week(),
            total=total,
            by_basis=(replace(total, basis="simulated"),),
            observed=None,
            ideal_hit_tokens=0,
            details=details,
        )
        found = verdict(view)
        assert found.state == "cold"
        assert words in found.sentence
        assert "no two prompts" not in found.sentence


def test_more_hits_than_the_rules_allow_are_not_all_that_was_within_reach() -> None:
    """A service that logs 57 % where its replayed rules allow 10 % followed others."""
    view = observed_week()
    tenth = (view.result.total.prompt_tokens) // 10
    found = verdict(with_result(view, ideal_hit_tokens=tenth))
    assert "more than the 10.0 % that the rules of the replay let this log have" in found.sentence


@pytest.mark.parametrize(
    ("queries", "hits", "words"),
    [
        (20_000, 9_000, "counted more than once"),
        (100, 50, "requests or blocks and not tokens"),
        (10_000, 0, "tokens asked and none hit"),
        (9_000, 4_000, ""),
    ],
)
def test_counters_that_do_not_count_these_tokens_are_told(queries: int, hits: int, words: str) -> None:
    """Twice the tokens, a hundredth of them, or no hits at all beside 5,000 replayed of 10,000; a part of an hour is nothing."""
    counted: dict[str, Any] = dict.fromkeys(field.name for field in fields(EngineHour))
    counted |= {"replica": "r0", "at_us": 0, "query_tokens": queries, "hit_tokens": hits}
    counted |= {"prompt_tokens": 10_000, "simulated_hit_tokens": 5_000, "ideal_hit_tokens": 6_000}
    told = unit_caveat(replace(report_data.week(), engines=Engines((EngineHour(**counted),), None)))
    assert words in told
    assert bool(told) is bool(words)


def test_nothing_lost_is_called_the_best_that_could_be_had() -> None:
    """A cache without avoidable losses is not accused of anything."""
    view = report_data.week()
    total = view.result.total
    lost = report_data.misses(cold=total.missed_tokens)
    best = replace(total, misses=lost)
    view = with_result(
        view,
        total=best,
        by_basis=(replace(best, basis="simulated"),),
        observed=None,
        ideal_hit_tokens=total.hit_tokens,
    )
    found = verdict(view)
    assert found.state == "best"
    assert "which is all that was within reach" in found.sentence
    assert largest_loss(view) is None


def test_only_what_a_change_could_remove_is_called_a_loss() -> None:
    """Cold and uncacheable tokens are never the largest loss, however many."""
    view = report_data.week()
    lost = report_data.misses(cold=view.result.total.missed_tokens - 1_000_000, expired=1_000_000)
    total = replace(view.result.total, misses=lost)
    view = with_result(view, total=total, by_basis=(replace(total, basis="simulated"),), observed=None)
    found = largest_loss(view)
    assert found is not None
    assert (found.cause, found.tokens) == ("expired", 1_000_000)


def test_prompts_that_do_not_fit_are_no_fault_of_nobody() -> None:
    """Where whole prompts are larger than the cache the verdict asks for capacity, and does not call that the best."""
    view = report_data.week()
    lost = report_data.misses(uncacheable=view.result.total.missed_tokens)
    total = replace(view.result.total, misses=lost)
    details = (Detail("uncacheable", "larger_than_cache", None, total.missed_tokens),)
    found = verdict(
        with_result(
            view, total=total, by_basis=(replace(total, basis="simulated"),), observed=None, details=details
        )
    )
    assert "larger than the whole cache, so more capacity" in found.sentence
    assert any("check the capacity of the scenario" in caveat for caveat in found.caveats)


def burst_week(*, hits_fall: bool) -> ReportView:
    """The week with all misses of the incident cold."""
    view = report_data.week()
    rows = []
    for hour, b in enumerate(view.timeline.buckets):
        cold = b.prompt_tokens - b.hit_tokens if hour in report_data.INCIDENT else 1
        hits = b.hit_tokens if hits_fall else b.prompt_tokens
        rows.append(replace(b, hit_tokens=hits, misses=report_data.misses(cold=cold)))
    lost = report_data.misses(cold=view.result.total.missed_tokens - 100_000, expired=100_000)
    total = replace(view.result.total, misses=lost)
    view = with_result(view, total=total, by_basis=(replace(total, basis="simulated"),), observed=None)
    return replace(view, timeline=replace(view.timeline, buckets=tuple(rows)), breakdowns=())


def test_new_text_that_comes_in_a_burst_is_pointed_at_without_an_accusation() -> None:
    """When hits fall meanwhile, the beginning of the prompts may have changed; the sentence says unless."""
    view = burst_week(hits_fall=True)
    found = verdict(view)
    assert "is of prompts that were new to the cache on Wed 25 Nov from 10:00 to 23:00" in found.sentence
    assert found.sentence.endswith("unless their text was new, its beginning had changed.")
    assert kpis(view)[2].label == "Largest drop"
    assert next(f.kind for f in derive(view)) == "cold"


def test_new_text_beside_steady_hits_is_just_new() -> None:
    """More traffic of another kind is no fault, and neither is the start of a log."""
    assert "were new to the cache" not in verdict(burst_week(hits_fall=False)).sentence
    assert verdict(report_data.all_cold()).state == "cold"


def test_four_figures_with_their_basis() -> None:
    """The hit rate names its basis and stands with the request hit rate."""
    found = kpis(report_data.week())
    assert [k.value for k in found] == ["68.5 %", "84.5 %", "8.6 points", "\N{MULTIPLICATION SIGN}0.32"]
    assert "simulated" in found[0].note
    assert "93.0 % of 32,660 requests had any hit" in found[0].note


def test_best_hit_rate_with_the_worst_load_is_said() -> None:
    """The lesson sample: the hash hits most and loads one of four replicas with half of the requests."""
    options = (
        RoutingOption("random", 2000, 4_120_000, 3_548_816, 0.26, 4),
        RoutingOption("prefix-hash", 2000, 4_120_000, 3_988_800, 1012 / 2000, 4),
    )
    (text,) = load_notes(report_data.week(routing=options, replicas=()))
    assert text.startswith("The best hit rate comes with the worst load: under prefix-hash")
    assert "50.6 %" in text
    even = tuple(replace(o, largest_share=0.25 if o.routing == "prefix-hash" else 0.3) for o in options)
    assert load_notes(report_data.week(routing=even, replicas=())) == ()


@pytest.mark.parametrize(
    ("hits", "words"),
    [(380, "The best hit rate comes with the worst load: r1 hits 95.0 %"), (280, "The load is uneven: r1")],
)
def test_an_uneven_load_is_said_beside_the_hit_rate(hits: int, words: str) -> None:
    """One replica with twice an even share is named; replicas of other pools are not its peers."""
    replicas = (
        Replica("r1", 4, 400, hits, {}),
        Replica("r2", 2, 100, 70, {}),
        Replica("r3", 2, 100, 70, {}),
        Replica("hosted", 9, 9_000, 9_000, {}, pool=1),
    )
    (text,) = load_notes(report_data.week(replicas=replicas))
    assert text.startswith(words)
    assert "2.0 times an even share" in text


def test_findings_are_ranked_and_leave_out_what_was_new() -> None:
    """Largest first; neither cold nor uncacheable tokens are a finding; resets are named as evidence."""
    found = report_data.week().findings
    assert [f.kind for f in found] == ["key_changed", "evicted", "misrouted", "expired", "invalidated"]
    assert [f.tokens for f in found] == sorted((f.tokens for f in found), reverse=True)
    assert found[0].where == "tenant-1"
    assert found[-1].evidence == ("restart-1",)
