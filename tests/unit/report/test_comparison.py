"""Two reports side by side: signs, better and worse, noise, and where the change is."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

import report_data
from prefixledger import api
from prefixledger.errors import InputError, UsageError
from prefixledger.report.comparison import comparison
from prefixledger.report.twin import twin

if TYPE_CHECKING:
    from pathlib import Path

WEEK = json.loads(json.dumps(twin(report_data.week())))


def better(points: float, *, days: int = 7) -> dict[str, Any]:
    """Return the week with a share of its changed keys turned into hits, on so many of its days."""
    found = copy.deepcopy(WEEK)
    asked = sum(s["prompt_tokens"] for s in found["timeline"]["slices"])
    moved = 0
    for number, one in enumerate(found["timeline"]["slices"]):
        if number // 24 < days:
            tokens = round(one["prompt_tokens"] * points)
            one["hit_tokens"] += tokens
            moved += tokens
    found["totals"]["hit_tokens"] += moved
    found["totals"]["token_hit_rate"] = found["totals"]["hit_tokens"] / asked
    found["misses"]["by_cause"]["key_changed"] -= moved
    first = found["breakdowns"][0]["values"][0]
    first["hit_tokens"] += moved
    return found


def test_a_change_has_its_sign_its_cause_and_its_place() -> None:
    """Up is better for a rate, down for a cause; the parts of the tenants sum to the change."""
    after = better(0.05)
    found = comparison(WEEK, after)
    assert found.change is not None
    assert found.change == pytest.approx(0.05, abs=1e-4)
    rate = found.figures[0]
    assert (rate.change, rate.better) == ("+5.0 points", True)
    cause = next(row for row in found.causes if row.cause == "key_changed")
    assert (cause.change, cause.better) == ("\N{MINUS SIGN}5.0 points", True)
    assert sum(row.points for row in found.groups if row.field == "tenant") == pytest.approx(
        found.change, abs=1e-4
    )
    assert found.groups[0].value == WEEK["breakdowns"][0]["values"][0]["value"]
    assert "went up from" in found.sentence
    assert "most of it is key changed, 5.0 points less" in found.sentence
    back = comparison(after, WEEK)
    assert (back.figures[0].better, "went down" in back.sentence) == (False, True)


def test_noise_is_told_by_days_of_the_same_traffic() -> None:
    """The same days in both are drawn together: a gain on every day is beyond chance, one on a single day is not."""
    sure = comparison(WEEK, better(0.01))
    assert sure.beyond_noise is True
    assert sure.low is not None
    assert sure.low == pytest.approx(0.01, abs=1e-3)
    assert "beyond chance" in sure.sentence
    one_day = comparison(WEEK, better(0.01, days=1))
    assert one_day.beyond_noise is False
    other = better(0.01)
    for one in other["timeline"]["slices"]:
        one["at"] = one["at"].replace("2026-11", "2026-12")
    assert comparison(WEEK, other).beyond_noise is False  # days differ by more than a point among themselves
    short = copy.deepcopy(WEEK)
    del short["timeline"]["slices"][100:]
    assert comparison(short, WEEK).beyond_noise is None


def test_the_same_is_the_same() -> None:
    """Nothing moved, so nothing is better or worse."""
    found = comparison(WEEK, WEEK)
    assert "is the same in both" in found.sentence
    assert all(row.better is None for row in (*found.figures, *found.causes))
    assert found.groups == ()
    nothing = json.loads(json.dumps(twin(report_data.nothing())))
    assert "nothing to compare" in comparison(WEEK, nothing).sentence


def test_what_is_not_of_a_kind_is_said() -> None:
    """Other settings, and other bases."""
    other = copy.deepcopy(WEEK)
    other["setup"]["capacity"] = "90000 blocks"
    other["totals"]["by_basis"]["observed"] = other["totals"]["by_basis"]["simulated"]
    notes = " ".join(comparison(WEEK, other).notes)
    assert "capacity differs: 60000 blocks in the first, 90000 blocks in the second" in notes
    assert "observed" in notes


def test_a_value_that_is_not_listed_has_not_gone() -> None:
    """Only the largest values are in a report; one that is too small in the other is passed over."""
    other = copy.deepcopy(WEEK)
    gone = other["breakdowns"][0]["values"].pop(0)["value"]
    assert gone in {row.value for row in comparison(WEEK, other).groups}
    other["breakdowns"][0]["left_out"] = 1
    assert gone not in {row.value for row in comparison(WEEK, other).groups}


def test_pages_of_kept_reports(tmp_path: Path) -> None:
    """One file, no script; names from logs are text; what is no report is refused."""
    after = better(0.05)
    after["breakdowns"][0]["values"][0]["value"] = "<script>alert(1)</script>"
    for name, values in (("a.json", WEEK), ("b.json", after)):
        (tmp_path / name).write_text(json.dumps(values), encoding="utf-8")
    result = api.compare(tmp_path / "a.json", tmp_path / "b.json", output=tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert result.comparison == comparison(WEEK, after)
    assert text.count('<svg viewBox="0 0 880 ') == 3
    assert "<script" not in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    (tmp_path / "d.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="not the JSON twin"):
        api.compare(tmp_path / "a.json", tmp_path / "d.json")
    with pytest.raises(InputError, match="cannot be read"):
        api.compare(tmp_path / "a.json", tmp_path / "none.json")
    (tmp_path / "e.html").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="not written by prefixledger"):
        api.compare(tmp_path / "a.json", tmp_path / "b.json", output=tmp_path / "e.html")
