"""``investigate`` finds a release that broke prompts and its repair, blames no quiet log, and says when there is too little."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api
from prefixledger.cli import app
from prefixledger.errors import UsageError
from prefixledger.samples import generator
from replayed import booked
from support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HOUR_US = 3_600_000_000
HOURS = 40
BREAK, REPAIR = 20, 28
PREFIX = tuple(range(1, 21))
SCENARIO = """
name = "as-is"
[[event]]
at = 1970-01-01T10:00:00Z
kind = "restart"
"""


def _rows(hours: int, *, broken: bool, salts: bool = False) -> list[dict[str, Any]]:
    """Return twelve requests an hour of two tenants with one prefix each; a release stamps them for eight hours."""
    draw = random.Random(7)
    rows = []
    for n in range(12 * hours):
        hour = n / 12
        stamped = broken and BREAK <= hour < REPAIR
        tenant = draw.randrange(2)
        ids = tuple(10_000 * n + k for k in range(20)) if stamped else tuple(100 * tenant + k for k in PREFIX)
        shared = salts and n % 3 == 0
        rows.append(
            {
                "at_us": round(hour * HOUR_US) + 1,
                "request_id": f"r{n}",
                "ids": (PREFIX if shared else ids) + (1_000_000 + n,),
                "prompt_tokens": 16 * 21 + 5,
                "tenant": f"t{tenant}",
                "release": "v2" if stamped else "v3" if hour >= REPAIR else "v1",
                "cache_salt": f"s{tenant}" if salts and not shared else None,
            }
        )
    return rows


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay forty hours with a bad release."""
    return booked(tmp_path_factory.mktemp("ws"), _rows(HOURS, broken=True), 16, SCENARIO).root


def test_the_release_and_its_repair_are_found_unasked(broken: Path, tmp_path: Path) -> None:
    """Both moments are those of the releases, to the microsecond; the cause that took over is named."""
    result = api.investigate(
        workspace=broken, output=tmp_path / "page.html", figures=tmp_path / "figures", jobs=1
    )
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {
        "figures.json",
        *(f"{n}.{s}" for n in ("course", "change-1", "change-2") for s in ("svg", "png")),
    }
    bad, repair = result.found.incidents
    assert (bad.better, repair.better) == (False, True)
    assert (bad.at.hour, repair.at.hour) == (BREAK, REPAIR % 24)
    assert [each.name for each in bad.nearby if each.kind == "release begins"] == ["v2"]
    assert bad.table[0].before > 0.9
    assert bad.table[0].after < 0.01
    assert bad.shape is not None
    assert bad.shape.startswith("invalidation, not proven: hits are gone from a deploy on")
    assert "v3" in repair.sentence
    assert sum(line.after_tokens for line in bad.table) == 8 * 12 * (16 * 21 + 5)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "v2" in page
    assert "Made by prefixledger" in page


def test_the_reset_is_listed_with_what_it_cost(broken: Path) -> None:
    """The restart at ten lost each tenant's prefix once, and five minutes later all was as before."""
    (reset,) = api.investigate(workspace=broken, jobs=1).found.recoveries
    assert (reset.kind, reset.lost_tokens) == ("restart", 2 * 20 * 16)
    assert reset.recovery_s is not None
    assert reset.peak_tokens == 20 * 16


def test_a_quiet_log_has_no_incident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is found where nothing changed, in text and as JSON."""
    workspace = booked(tmp_path / "ws", _rows(HOURS, broken=False), 16, 'name = "as-is"').root
    assert app.run(["investigate", str(workspace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["incidents"] == []
    assert "larger than chance" in found["verdict"][0]
    assert found["prompt_tokens"] == found["hit_tokens"] + sum(found["misses"].values()) > 0
    assert app.run(["investigate", str(workspace)]) == 0
    account, verdict = capsys.readouterr().out.split("\n\n")[-2:]
    assert account.splitlines()[0].split()[:2] == ["asked", f"{found['prompt_tokens']:,}"]
    assert account.splitlines()[-1].split()[-3:] == ["0", "0.0", "%"]
    assert "larger than chance" in verdict


def test_too_little_is_said(tmp_path: Path) -> None:
    """A log of one quarter of an hour tells no change from chance."""
    workspace = booked(tmp_path / "ws", _rows(1, broken=False)[:3], 16, 'name = "as-is"').root
    found = api.investigate(workspace=workspace, jobs=1).found
    assert found.problem is not None
    assert found.problem.startswith("not enough data")
    assert found.verdict[0] == found.problem


def test_a_moment_can_be_named(broken: Path) -> None:
    """Around a moment that is asked for, before and after are compared and nothing else is looked for."""
    (one,) = api.investigate(workspace=broken, at="1970-01-01T20:00:00Z", jobs=1).found.incidents
    assert one.table[0].before > one.table[0].after
    with pytest.raises(UsageError, match="not within"):
        api.investigate(workspace=broken, at="1980-01-01T20:00:00Z", jobs=1)
    with pytest.raises(UsageError, match="do not go together"):
        api.investigate(workspace=broken, at="1970-01-01T20:00:00Z", to="1970-01-02T00:00:00Z")


def test_shared_keys_beside_salts_are_a_side_channel(tmp_path: Path) -> None:
    """Tenants with salts of their own share a prefix in the requests that have none."""
    workspace = booked(tmp_path / "ws", _rows(HOURS, broken=False, salts=True), 16, 'name = "as-is"').root
    found = api.investigate(workspace=workspace, jobs=1).found.side_channels
    assert {(one.tenant, one.other_tenant, one.one_salt) for one in found} == {
        ("t0", "t1", False),
        ("t1", "t0", False),
    }
    assert not api.investigate(workspace=workspace, jobs=1).found.incidents


def test_a_foreign_page_is_not_replaced(broken: Path, tmp_path: Path) -> None:
    """What somebody else wrote stays, and a name that is no page is refused before any work."""
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="not written by prefixledger"):
        api.investigate(workspace=broken, output=page)
    with pytest.raises(UsageError, match="no name for a page"):
        api.investigate(workspace=broken, output=tmp_path / "page.txt")


@pytest.mark.slow
def test_the_story_is_told_by_itself(tmp_path: Path) -> None:
    """Of the week of the demo the bad release and its repair are found, at their minute and by their cause, and no third moment."""
    story = generator("story")
    log = story.write(tmp_path / "story.jsonl", story.Story(requests_per_day=2_500))
    found = api.investigate(
        [log],
        workspace=tmp_path / "ws",
        map=ROOT / "sample_traces/story.map.toml",
        scenario=ROOT / "sample_traces/story.scenario.toml",
        jobs=1,
    ).found
    bad, repair = found.incidents
    assert timedelta(0) <= bad.at - (story.START + story.BREAK_AFTER) < timedelta(minutes=10)
    assert timedelta(0) <= repair.at - (story.START + story.REPAIR_AFTER) < timedelta(minutes=10)
    assert "release v42 began" in bad.sentence
    assert "more key_changed" in bad.sentence
    assert "release v43 began" in repair.sentence
    assert bad.shape == "invalidation: hits are gone from a deploy on"
    assert (found.burdens[0].thing, found.burdens[0].release) == ("prefix_edited, system, time of day", "v42")
