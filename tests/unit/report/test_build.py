"""From a workspace to a report: the view says what the marts say, and what the log said."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from prefixledger import attribute, replay
from prefixledger.attribute.window import Window
from prefixledger.config.events import Event
from prefixledger.config.scenario import parse_scenario
from prefixledger.config.units import us_datetime
from prefixledger.report import stage as report
from prefixledger.report.build import sources
from prefixledger.resources import read_text
from prefixledger.workspace import write_json
from stage_support import MINUTE, SECOND, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.replay import ReplaySummary
    from prefixledger.report.view import ReportView
    from prefixledger.workspace import Workspace

ROWS = 120
HEAD = list(range(1, 21))
ACCOUNT: dict[str, Any] = {
    "path": "week.jsonl", "format": "vllm", "why": "token ids", "bytes": 1234, "records": ROWS + 5, "kept": ROWS, "rejected": 2,
    "duplicates": 3, "joined": 0, "skipped": 0, "reasons": {"bad json": 2}, "truncated_at": 99, "identical_lines": 0,
    "block_size": 16, "block_ids": "exact", "id_scope": "global", "clock": "absolute", "notes": ["a note"],
}  # fmt: skip


def row(number: int) -> dict[str, Any]:
    """Two tenants with a prefix each, on two replicas, each prompt with an end of its own; a third carries usage."""
    tenant = number % 3 == 0
    prefix = [*HEAD, *range(100 + 50 * tenant, 110 + 50 * tenant)]
    ids = [*prefix, 10_000 + number]
    seen = {"usage_state": "present", "cached_tokens_observed": 16 * len(prefix)} if number % 3 == 1 else {}
    return {
        "at_us": number * MINUTE, "ids": ids, "tenant": "big" if tenant else "small", "replica": f"r{number % 2}", "model": "m",
        "output_tokens": 10, "prompt_tokens": 16 * len(ids) + 5, **seen,
    }  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A log of two hours, ingested and indexed."""
    made = write_workspace(tmp_path_factory.mktemp("report"), [row(n) for n in range(ROWS)])
    manifest = json.loads(made.manifest.read_text(encoding="utf-8"))
    for source in manifest["sources"]:
        source.update(ACCOUNT, last_at_us=(ROWS - 1) * MINUTE)
    write_json(made.manifest, manifest)
    return made


@cache
def _replays(workspace: Workspace) -> list[ReplaySummary]:
    """Replay two scenarios, once for all windows."""
    restart = Event(at=us_datetime(60 * MINUTE + SECOND), kind="restart", replica="r1", note="node drained")
    replays = []
    for name, capacity in (("as-is", "36 blocks"), ("large", "unlimited")):
        scenario = parse_scenario(f'name = "{name}"\n[cache]\ncapacity = "{capacity}"\n')
        replays.append(replay.run(workspace, scenario, events=(restart,)))
        attribute.run(workspace, name)
    return replays


def built(workspace: Workspace, window: Window) -> ReportView:
    """Build a report of two scenarios."""
    return report.build(workspace, _replays(workspace), window)


@pytest.fixture(scope="module")
def view(workspace: Workspace) -> ReportView:
    """The whole log."""
    return built(workspace, Window(0, ROWS * MINUTE))


def test_every_cut_of_the_view_sums_to_the_same(view: ReportView) -> None:
    """Total, slices, tenants, replicas and prefixes hold the same tokens, and the account closes."""
    total = view.result.total
    assert total.requests == ROWS
    assert total.prompt_tokens == sum(r["prompt_tokens"] for r in map(row, range(ROWS)))
    assert total.residual_tokens == 0
    tenants = next(b for b in view.breakdowns if b.name == "tenant")
    for parts in (view.timeline.buckets, tenants.groups, view.replicas):
        assert sum(p.prompt_tokens for p in parts) == total.prompt_tokens
        assert sum(p.hit_tokens for p in parts) == total.hit_tokens
        assert all(p.prompt_tokens == p.hit_tokens + sum(p.misses.values()) for p in parts)
    assert sum(p.own_tokens for p in view.prefixes.rows) == total.prompt_tokens
    assert sum(d.tokens for d in view.result.details) == total.missed_tokens


def test_prefixes_are_the_shared_ones(view: ReportView) -> None:
    """The common head, one branch per tenant under it, and (unshared)."""
    shown = [(p.name, p.level, p.depth_tokens) for p in view.prefixes.shown]
    assert shown[0] == ("2 tenants", 0, 16 * 20)
    assert sorted(shown[1:3]) == [("big", 1, 16 * 30), ("small", 1, 16 * 30)]
    assert shown[3] == ("(unshared)", 0, 0)
    assert view.prefixes.shown[0].below_tokens == 16 * 30 * ROWS


def test_the_observed_book_closes_and_stands_apart(view: ReportView) -> None:
    """Usage on a third of the lookups is not the headline, and its causes sum to its misses."""
    seen = view.result.observed
    assert seen is not None
    assert seen.book.requests == ROWS // 3
    assert seen.book.residual_tokens == 0
    assert seen.book.hit_tokens == 16 * 30 * (ROWS // 3)
    assert view.result.headline.basis == "simulated"


def test_event_curves_ladder_and_inputs_arrive(view: ReportView) -> None:
    """The restart with its misses, today's point on the curve, five rungs, and the account of the records."""
    (event,) = view.events
    assert (event.kind, event.replicas, event.note) == ("restart", ("r1",), "node drained")
    assert event.lost_tokens == view.result.total.misses["invalidated"] > 0
    (curves,) = view.curves
    assert curves.capacity_today == 36
    assert curves.ttl[-1].hit_tokens >= view.result.total.hit_tokens
    assert curves.ttl[0].multiplier is not None
    assert [r.rung for r in view.result.ladder][:5] == ["pooled", "per_replica", "resets", "ttl", "capacity"]
    (source,) = view.sources
    assert (source.residual, source.truncated_at, source.notes) == (0, 99, ("a note",))
    assert view.result.cost is not None
    assert int(view.result.cost.actual) == view.result.total.prompt_tokens - view.result.total.hit_tokens


def test_two_scenarios_in_one_report(view: ReportView, tmp_path: Path) -> None:
    """The page is about the first; the twin has both and follows its schema; the page is whole."""
    written = report.write(view, tmp_path / "week.html")
    value = json.loads(written.json.read_text(encoding="utf-8"))
    value["inputs"][0]["source"] = "00"  # the hand-made log is named s, not by a digest
    jsonschema.validate(value, json.loads(read_text("reports", "schema/report.schema.json")))
    assert [s["name"] for s in value["scenarios"]] == ["as-is", "large"]
    assert value["scenarios"][1]["totals"]["hit_tokens"] > value["totals"]["hit_tokens"]
    text = written.html.read_text(encoding="utf-8")
    assert "node drained" in text
    assert str(tmp_path) not in text
    assert "cut off at byte 99" in text


def test_an_empty_window_is_a_report_too(workspace: Workspace, tmp_path: Path) -> None:
    """A window without lookups gives a page that says so, not a fault."""
    view = built(workspace, Window(10**12, 10**12 + MINUTE, why="as asked"))
    assert view.result.total.requests == 0
    assert report.summary(view, report.write(view, tmp_path / "x.html")).verdict.startswith(
        "No request falls into"
    )


def test_what_was_given_again_is_a_line_of_duplicates() -> None:
    """Once more in the same call, or under another name, it is listed; the same command once more is no news."""
    one = {**ACCOUNT, "source": "ab"}
    call = [{"source": "ab", "path": "week.jsonl"}]
    assert len(sources({"sources": [one], "history": [call, call]})) == 1
    twice = sources({"sources": [one], "history": [call * 2, call, [{"source": "ab", "path": "copy.jsonl"}]]})
    assert [(s.path, s.kept, s.duplicates) for s in twice] == [
        ("week.jsonl", ROWS, 3),
        ("week.jsonl", 0, ROWS + 5),
        ("copy.jsonl", 0, ROWS + 5),
    ]
    assert all(s.residual == 0 for s in twice)
    assert twice[1].notes == ("seen before as week.jsonl",)


def test_the_stretch_before_is_the_report_of_that_stretch(workspace: Workspace) -> None:
    """The second hour has the first before it, to the token; the first has nothing, and half a window is no window."""
    hour = 60 * MINUTE
    second = built(workspace, Window(hour, 2 * hour))
    first = built(workspace, Window(0, hour))
    assert first.earlier is None
    assert built(workspace, Window(hour - MINUTE, 2 * hour)).earlier is None
    was = second.earlier
    assert was is not None
    assert (was.from_us, was.to_us) == (0, hour)
    assert was.book == first.result.headline
    assert was.ideal_hit_rate == first.result.ideal_hit_rate
    assert was.multipliers == {c.currency: c.multiplier for c in first.result.costs}
