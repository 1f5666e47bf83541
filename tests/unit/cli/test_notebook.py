"""The example of ``docs/notebook.py`` runs, and every result shows itself in a notebook, whatever the log calls things."""

from __future__ import annotations

import json
import runpy
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from prefixledger import api
from prefixledger.cards import Bar, Card, Part, card_html, frame_card
from prefixledger.cli.app import run
from prefixledger.errors import UsageError
from prefixledger.frames import Tabled, objects_frame, rows_frame
from prefixledger.report.account_card import account_bar
from prefixledger.schema import CAUSES
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = '<script>alert("1")</script>\u202e' + "x" * 10_000
RESULTS = ("ingested", "replayed", "investigated", "tried", "report", "compared")


class Tags(HTMLParser):
    """Collects tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run the example in an empty folder, and stay there: its paths are relative."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        yield runpy.run_path(str(ROOT / "docs" / "notebook.py"))


def inert(html: str) -> Tags:
    """Parse what a notebook shows: no script, nothing from elsewhere, nothing but style and words for readers aloud."""
    found = Tags(html)
    assert {"script", "img", "link", "style", "iframe", "a"}.isdisjoint(found.tags)
    assert found.attributes <= {"class", "style", "title", "scope", "role", "aria-label"}
    return found


def test_every_result_of_the_example_shows_itself(cells: dict[str, Any]) -> None:
    """Its answer first; and each of its tables is a frame."""
    for name in RESULTS:
        result = cells[name]
        assert isinstance(result, Tabled)
        found = inert(result._repr_html_())
        assert found.texts[0].strip()
        assert len(result._repr_html_()) < 20_000
        assert result.tables
        assert all(isinstance(result.frame(table), pl.DataFrame) for table in result.tables)
        with pytest.raises(UsageError, match="no table 'nonsense'"):
            result.frame("nonsense")
    inert(api.explain("q450", workspace=cells["workspace"])._repr_html_())
    inert(api.query("SELECT * FROM lookups", workspace=cells["workspace"])._repr_html_())


def test_the_frames_close_as_the_books_do(cells: dict[str, Any]) -> None:
    """The account of a report, the lookups of its replay and the cells of a grid sum to the same prompts."""
    account = dict(cells["report"].frame("account").select("line", "tokens").iter_rows())
    assert account["asked"] == account["hit"] + sum(account[cause] for cause in CAUSES)
    misses = [f"miss_{cause}_tokens" for cause in CAUSES]
    sums = (
        cells["replayed"].frame("lookups").select(pl.col("prompt_tokens", "hit_tokens", *misses).sum()).row(0)
    )
    assert sums[0] == sum(sums[1:])
    for cell in cells["tried"].frame().select("prompt_tokens", "hit_tokens", *misses).iter_rows():
        assert cell[0] == sums[0] == sum(cell[1:])
    assert cells["report"].twin["totals"]["prompt_tokens"] == account["asked"]


def test_the_example_finds_the_day_of_the_bad_release(cells: dict[str, Any]) -> None:
    """It is what the made-up log holds."""
    fell, rose = cells["investigated"].frame("incidents").select("at", "better").rows()
    assert fell == (datetime(2026, 11, 11, tzinfo=UTC), False)
    assert rose == (datetime(2026, 11, 12, tzinfo=UTC), True)


def test_a_workspace_is_compared_with_itself(
    cells: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The last whole week with the week before; or two periods as asked, on the page and as JSON."""
    workspace = str(cells["workspace"])
    before, after = cells["compared"].twins
    assert [one["window"]["from"] for one in (before, after)] == [
        "2026-11-02T00:00:00Z",
        "2026-11-09T00:00:00Z",
    ]
    assert after["totals"] == cells["report"].twin["totals"]
    days = ["--from", "2026-11-04", "--to", "2026-11-05", "--from", "2026-11-11", "--to", "2026-11-12"]
    assert run(["compare", workspace, *days, "--json", "-q", "-o", "days.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["change"] < -0.5
    assert "2026-11-04 00:00 to 2026-11-05 00:00" in Path("days.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--from", "2026-11-03"],
            "the log begins at 2026-11-02T00:00:00Z: it does not hold the period before",
        ),
        (
            ["--from", "2026-11-03", "--from", "2026-11-04"],
            "2 times --from and 0 times --to are not two periods",
        ),
        (["--from", "2026-11-03", "--to", "2026-11-02"], "ends (2026-11-02T00:00:00Z) before it begins"),
        (["--tz", "Europe/Nowhere"], "there is no time zone"),
        (["week.json", "--from", "2026-11-03"], "a report that is kept has its period"),
    ],
)
def test_periods_that_cannot_be_compared(
    cells: dict[str, Any], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each says why, and what to give in its place."""
    place = cells["folder"]
    first = [] if "week.json" not in arguments else [str(place / arguments.pop(0))]
    assert run(["compare", *first, str(cells["workspace"]), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert run(["compare", str(place / "week.json")]) == 2
    assert "one report has one period" in capsys.readouterr().err


def test_hostile_names_are_inert() -> None:
    """Tags, quotes, marks of direction and ten thousand characters, in every place that a log can write to."""
    part = Part(HOSTILE, 1.0, HOSTILE, "#000", "#fff")
    frame = pl.DataFrame({HOSTILE: [HOSTILE], "session_id": ["secret-session-name"]})
    html = card_html(frame_card(HOSTILE, frame, (HOSTILE,), (Bar(HOSTILE, (part,)),)))
    found = inert(html)
    assert "\u202e" not in html
    assert "secret-session-name" not in html
    assert any("alert" in text for text in found.texts)
    assert len(html) < 70_000


def test_a_bar_holds_every_token_and_names_what_it_shows() -> None:
    """Parts sum to the whole; without tokens there is no bar."""
    bar = account_bar("", 60, {"evicted": 30, "cold": 10})
    assert bar is not None
    assert [(part.name, part.told) for part in bar.parts] == [
        ("hits", "60.0 %"),
        ("evicted", "30.0 %"),
        ("cold", "10.0 %"),
    ]
    assert sum(part.share for part in bar.parts) == pytest.approx(1)
    assert account_bar("", 0, {}) is None
    assert "evicted 30.0 %" in "".join(Tags(card_html(Card("t", (bar,)))).texts)


@dataclass(frozen=True)
class _Thing:
    name: str
    cost: Decimal
    parts: tuple[str, ...]
    inner: tuple[Part, ...] = ()


def test_frames_of_objects_and_rows() -> None:
    """Money is a float, times are moments, what is made of objects is left out, and no row still has its columns."""
    made = objects_frame(
        [_Thing("a", Decimal("1.50"), ("x", "y"), (Part("", 1, "", "", ""),))], _Thing, number=[7]
    )
    assert made.rows() == [(7, "a", 1.5, ["x", "y"])]
    assert objects_frame((), _Thing).columns == ["name", "cost", "parts", "inner"]
    times = rows_frame(
        ("at", "n"), [("2026-11-11T00:00:00.000001Z", 1), (None, 2), ("2026-11-11T00:00:01Z", 3)]
    )
    assert times["at"].to_list()[0] == datetime(2026, 11, 11, 0, 0, 0, 1, tzinfo=UTC)
    assert times["at"].null_count() == 1
