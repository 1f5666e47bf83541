"""Simulated against observed: gaps by replica and hour, hits that cannot be, usage without keys, and the exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from prefixledger import api, attribute, replay
from prefixledger.attribute.comparison import Comparison, comparison, counter_comparison
from prefixledger.attribute.window import Window
from prefixledger.cli import app
from prefixledger.errors import UsageError
from prefixledger.outcomes import GapError, check_gap
from prefixledger.report import stage as report
from prefixledger.report.books import ObservedHour
from prefixledger.report.page import page
from prefixledger.report.verdict import verdict
from report_data import week
from stage_support import write_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.report.view import ReportView
    from prefixledger.results import ReplayResult

HOUR = 3_600_000_000
BLOCK = 16


def viewed(folder: Path, rows: list[dict[str, Any]]) -> ReportView:
    """Replay rows as logged, without a limit of memory, and build the report of the whole log."""
    workspace = write_workspace(folder, rows)
    manifest = json.loads(workspace.manifest.read_text(encoding="utf-8"))
    for source in manifest["sources"]:
        counts = dict.fromkeys(("rejected", "duplicates", "joined", "skipped", "identical_lines", "bytes"), 0)
        source.update(
            counts, path="log.jsonl", format="sglang", why="", records=len(rows), kept=len(rows), reasons={}, notes=[],
            truncated_at=None, block_size=BLOCK, block_ids=None, id_scope=None, clock="absolute",
        )  # fmt: skip
    workspace.manifest.write_text(json.dumps(manifest), encoding="utf-8")
    found = replay.run(workspace)
    attribute.run(workspace, found.name)
    return report.build(workspace, (found,), Window(0, rows[-1]["at_us"] + 1))


def asked(at_us: int, ids: list[int], cached: int | None, **columns: Any) -> dict[str, Any]:
    """One request of whole blocks and 5 tokens more; cached tokens are what the service reports."""
    seen = {} if cached is None else {"usage_state": "present", "cached_tokens_observed": cached}
    return {"at_us": at_us, "ids": ids, "prompt_tokens": BLOCK * len(ids) + 5, **seen, **columns}


def test_gaps_stand_by_replica_and_hour(tmp_path: Path) -> None:
    """A replica whose cache is smaller than the replay believes shows itself in its own hours, and only there."""
    prompt = list(range(1, 11))
    rows = [
        asked(HOUR * (n // 4) + n, prompt, 160 * (n > 1) * (n % 2 == 0 or n < 4), replica=f"r{n % 2}")
        for n in range(8)
    ]
    seen = viewed(tmp_path, rows).result.observed
    assert seen is not None
    assert seen.compared is not None
    gaps = {(hour.replica, hour.at_us // HOUR): hour.gap_pp for hour in seen.hours}
    assert gaps == {("r0", 0): 0, ("r1", 0): 0, ("r0", 1): 0, ("r1", 1): pytest.approx(100 * 160 / 165)}
    assert seen.compared.gap_pp == pytest.approx(100 * 320 / (8 * 165))
    assert sum(hour.prompt_tokens for hour in seen.hours) == seen.book.prompt_tokens
    assert seen.above_ceiling_tokens == 0


def test_hits_on_prompts_that_nobody_sent_before_are_flagged(tmp_path: Path) -> None:
    """Recomputation after preemption counted as hits: 30 % on unique prompts, where the ceiling is nothing."""
    rows = [
        asked(n, [1000 * n + 1, *range(1000 * n + 2, 1000 * n + 21)], 320 * (n % 3 == 0)) for n in range(100)
    ]
    view = viewed(tmp_path, rows)
    (flag,) = (text for text in verdict(view).caveats if "at most" in text)
    assert "reports 33.5 % where this log allows 0.0 % at most" in flag
    assert page(view).ceiling == flag
    assert [name for name, _ in page(view).sections[:2]] == ["findings", "observed"]


def test_more_than_the_arithmetic_ceiling_is_flagged(tmp_path: Path) -> None:
    """Of five equal prompts the first must miss, so 96 % cannot be; 80 % can."""
    prompt = list(range(1, 101))
    above = viewed(tmp_path / "above", [asked(n, prompt, 1541) for n in range(5)])
    below = viewed(tmp_path / "below", [asked(n, prompt, 1600 * (n > 0)) for n in range(5)])
    seen = above.result.observed
    assert seen is not None
    assert seen.both_ideal_tokens == 4 * 1600
    assert seen.above_ceiling_tokens == 5 * 1541 - 4 * 1600 - 5 * BLOCK
    assert any("at most" in text for text in verdict(above).caveats)
    assert not any("at most" in text for text in verdict(below).caveats)


def test_single_tokens_beyond_whole_blocks_are_no_lie(tmp_path: Path) -> None:
    """A service with pages of one token hits up to a block more than a replay with larger blocks."""
    view = viewed(tmp_path, [asked(n, [1, 2, 3], 52 * (n > 0)) for n in range(6)])
    assert view.result.observed is not None
    assert view.result.observed.above_ceiling_tokens == 0


def test_usage_without_keys_goes_through_the_books(tmp_path: Path) -> None:
    """Nothing can be replayed, so hits are those reported, and the rest is unexplained: nobody is accused."""
    rows = [
        {"at_us": n * HOUR, "keyed": False, "block_size": 0, "prompt_tokens": 1000, "usage_state": "present",
         "cached_tokens_observed": 400, "replica": "r0"}
        for n in range(3)
    ]  # fmt: skip
    view = viewed(tmp_path, rows)
    total = view.result.total
    assert (total.prompt_tokens, total.hit_tokens, total.misses["unexplained"]) == (3000, 1200, 1800)
    assert [book.basis for book in view.result.by_basis] == ["observed"]
    assert view.result.observed is not None
    assert view.result.observed.compared is None
    assert [hour.gap_pp for hour in view.result.observed.hours] == [None] * 3
    assert "no row carries block hashes" in view.result.setup.notes[0]


def test_a_page_shows_the_hours_that_differ_most() -> None:
    """Of many hours 48 are on the page, in order of time; all are in the twin."""
    view = week()
    seen = view.result.observed
    assert seen is not None
    hour = ObservedHour("r0", 0, 1, 100, 50, 100, 50, 50, 60)
    hours = tuple(replace(hour, at_us=n * HOUR, both_simulated_tokens=50 + n % 50) for n in range(100))
    shown = page(replace(view, results=(replace(view.result, observed=replace(seen, hours=hours)),))).hours
    assert len(shown) == 48
    assert [h.at_us for h in shown] == sorted(h.at_us for h in shown)
    assert min(h.both_simulated_tokens for h in shown) == 50 + 26


def test_a_comparison_says_which_side_is_more() -> None:
    """In words, with both rates; nothing to compare is no comparison."""
    found = Comparison(1200, 1000, 800, 650, 0.83)
    assert found.sentence == (
        "over the 1,200 lookups that have both, the replay hits 80.0 % and the service reports 65.0 %: 15.0 points more; "
        "request by request they agree to 83.0 %"
    )
    assert "15.0 points less" in Comparison(1, 1000, 650, 800, 0.85).sentence
    assert comparison({"prompt_tokens": None}) is None


def _log(folder: Path, *, usage: bool) -> Path:
    path = folder / "dynamo.jsonl"
    rows = []
    for n in range(10):
        request: dict[str, Any] = {
            "request_id": f"q{n}", "input_tokens": 160, "output_tokens": 4, "request_received_ms": 1_777_312_800_000 + n,
            "replay": {"trace_block_size": 16, "input_length": 160, "input_sequence_hashes": list(range(1, 11))},
        }  # fmt: skip
        if usage:
            request["cached_tokens"] = 144 if n > 4 else 0
        rows.append(
            {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 1_777_312_900_000,
             "request": request}
        )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("verb", ["report", "replay"])
def test_too_large_a_gap_is_exit_1_after_everything_is_written(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """81 % against 45 %: 36 points, said in words; a wider rule is kept."""
    monkeypatch.chdir(tmp_path)
    log = str(_log(tmp_path, usage=True))
    assert app.run([verb, log, "--max-gap-pp", "35.9"]) == 1
    err = capsys.readouterr().err
    assert "more than 35.9 points" in err
    assert "the replay hits 81.0 % and the service reports 45.0 %: 36.0 points more" in err
    assert app.run([verb, log, "--max-gap-pp", "36"]) == 0
    if verb == "report":
        assert (tmp_path / "prefixledger.html").is_file()


@pytest.mark.parametrize("gap", [float("nan"), -1.0, 101.0])
def test_a_gap_that_no_replay_could_cross_is_refused(gap: float, tmp_path: Path) -> None:
    """A rule of nan would always be kept."""
    with pytest.raises(UsageError, match="no distance between two hit rates"):
        api.replay([_log(tmp_path, usage=True)], workspace=tmp_path / "ws", max_gap_pp=gap)


def test_replicas_that_err_in_opposite_directions_do_not_make_up_for_each_other() -> None:
    """The same rate in all, 20 points apart on both replicas: too far."""
    result = cast("ReplayResult", None)
    check_gap(Comparison(10, 1000, 500, 500, 0.9, 100), 10, result)
    with pytest.raises(GapError, match=r"the same; .* but replica by replica they are 20\.0 points apart"):
        check_gap(Comparison(10, 1000, 500, 500, 0.8, 200), 10, result)
    hours = [
        {"pool": 0, "replica": name, "simulated_hit_tokens": simulated, "prompt_tokens": 100,
         "counted_hit_tokens": 50, "counted_query_tokens": 100}
        for name, simulated in [("a", 60), ("b", 40), ("a", 80), ("b", 20)]
    ]  # fmt: skip
    found = counter_comparison(hours)
    assert found is not None
    assert (found.gap_pp, found.replicas_apart_pp) == (0, pytest.approx(20))


def test_a_rule_that_cannot_be_checked_is_not_kept(tmp_path: Path) -> None:
    """Without cached tokens in the log there is nothing to compare, and that is no pass."""
    with pytest.raises(GapError, match="cannot be checked") as caught:
        api.replay([_log(tmp_path, usage=False)], workspace=tmp_path / "ws", max_gap_pp=50)
    assert caught.value.exit_code == 1
    assert caught.value.result.replays[0].lookups == 10
