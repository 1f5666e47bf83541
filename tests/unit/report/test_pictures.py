"""The tree, the heat map, the histogram and the routings: what they draw, and what their titles say."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

import report_data
from prefixledger.report import captions
from prefixledger.report.curve_parts import Curves, TtlPoint
from prefixledger.report.gap_chart import gap_chart, gaps, within
from prefixledger.report.heat_map import MOST_REPLICAS, heat_map, heat_table, rows_of
from prefixledger.report.icicle import BRANCHES, LEVELS, STRONGEST, WIDTH_PX, icicle, layout, shade
from prefixledger.report.load_parts import RoutingOption
from prefixledger.report.page import page
from prefixledger.report.palette import CHROME, SERIES
from prefixledger.report.parts import Prefix, Prefixes
from prefixledger.report.render import html
from prefixledger.report.routing_chart import drawable, routing_chart, unbeaten

WEEK = report_data.week()


def node(key: str, parent: str | None, own: int, below: int, hit: int = 0) -> Prefix:
    """A shared prefix."""
    return Prefix(key, parent, 0, key, 64, 3, None, 1, own, hit, below, hit)


def test_boxes_are_as_wide_as_their_branches_and_lie_under_their_parents() -> None:
    """Nothing overlaps, nothing sticks out, and what is too narrow to see is left out."""
    children = {
        None: [node("a", None, 10, 600), node("b", None, 300, 300), node("dust", None, 1, 1)],
        "a": [node("c", "a", 400, 400), node("d", "a", 190, 190)],
    }
    boxes = {box.prefix.key: box for box in layout(children, None, 1_000)}
    assert set(boxes) == {"a", "b", "c", "d"}
    assert (boxes["a"].left, boxes["a"].width, boxes["a"].row) == (0.0, 0.6, 1)
    assert (boxes["b"].left, boxes["b"].row) == (0.6, 1)
    assert (boxes["c"].left, boxes["c"].row) == (0.0, 2)
    assert (boxes["d"].left, round(boxes["d"].left + boxes["d"].width, 9)) == (0.4, 0.59)


def test_a_deep_tree_is_cut_and_ends() -> None:
    """A chain of a hundred prefixes shows the first rows; a branch shows its own."""
    chain = tuple(node(f"{n:032x}", f"{n - 1:032x}" if n else None, 10, 1_000 - 10 * n) for n in range(100))
    book = replace(WEEK.result.total, prompt_tokens=1_000)
    view = replace(
        WEEK,
        results=(replace(WEEK.result, total=book),),
        prefixes=Prefixes((node("x", None, 1, 1), replace(node("y", None, 0, 0), key=None)), tree=chain),
    )
    drawn = icicle(view)
    assert drawn.svg.count("<title>") == LEVELS
    assert len(drawn.branches) == BRANCHES
    assert all(b.svg.count("<title>") <= LEVELS for b in drawn.branches)


def test_links_of_the_tree_lead_to_a_branch_or_a_row() -> None:
    """Each has a name for those who do not see it, and hostile names are text."""
    name = '<script>alert("1")</script>'
    tree = tuple(replace(p, name=name) for p in WEEK.prefixes.tree)
    view = replace(WEEK, prefixes=replace(WEEK.prefixes, tree=tree))
    drawn = icicle(view)
    text = html(view)
    ids = set(re.findall(r' id="([^"]+)"', text))
    for svg in (drawn.svg, *(b.svg for b in drawn.branches)):
        root = ET.fromstring(svg)
        links = [e for e in root.iter() if e.tag == "a"]
        assert all(e.attrib["href"][1:] in ids and name in e.attrib["aria-label"] for e in links)
        assert root.attrib["role"] == "group"  # an image may hold no links
    assert len(drawn.branches) == 1
    assert "<script" not in text


def test_shades_follow_the_hit_rate_and_letters_stay_legible() -> None:
    """Grey without a hit, and 4.5:1 for the letters on every shade, light and dark."""
    assert shade(node("a", None, 10, 10, 0)) == 0
    assert shade(node("a", None, 10, 10, 10)) == STRONGEST
    assert shade(node("a", None, 0, 10, 10)) == STRONGEST
    for mode in ("light", "dark"):
        ink, rule, hit = (getattr(one, mode) for one in (CHROME["ink"], CHROME["rule"], SERIES["hit"]))
        for step in range(6):
            assert contrast(mixed(rule, hit, STRONGEST * step / 5), rgb(ink)) >= 4.5


def rgb(colour: str) -> tuple[float, ...]:
    """Return the channels of a hex colour."""
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def mixed(below: str, above: str, alpha: float) -> tuple[float, ...]:
    """Lay one colour over another."""
    return tuple(b + (a - b) * alpha for a, b in zip(rgb(above), rgb(below), strict=True))


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the contrast ratio of WCAG."""

    def light(colour: tuple[float, ...]) -> float:
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_heat_map_has_a_row_for_each_replica_and_its_table_the_same_tokens() -> None:
    """Of many replicas the busiest; a replica without lookups in a stretch has no figure there."""
    table = heat_table(WEEK)
    assert table.width_s == 4 * 3600
    assert len(table.rows) == 42
    asked = sum(cell[0] for _, cells in table.rows for cell in cells if cell)
    assert asked == sum(s.prompt_tokens for s in WEEK.replica_slices)
    assert any(cells[0] is None for _, cells in table.rows)
    many = tuple(
        replace(s, replica=f"r{n}", prompt_tokens=s.prompt_tokens + n, hit_tokens=0)
        for n in range(40)
        for s in WEEK.replica_slices[:2]
    )
    assert [name for name, _ in rows_of(replace(WEEK, replica_slices=many))] == [
        f"r{n}" for n in range(40 - MOST_REPLICAS, 40)
    ]
    assert len(heat_map(replace(WEEK, replica_slices=many), "c")) < 40_000
    assert page(replace(WEEK, replica_slices=WEEK.replica_slices[:100])).charts["heat"] == ""


def test_the_coldest_cell_is_named() -> None:
    """By tokens short of the replica's own mean, not by the lowest rate of an hour with two requests."""
    few = replace(WEEK.replica_slices[3], prompt_tokens=2, hit_tokens=0)
    much = replace(WEEK.replica_slices[5], hit_tokens=0, prompt_tokens=10**9)
    slices = (*WEEK.replica_slices[:3], few, WEEK.replica_slices[4], much, *WEEK.replica_slices[6:])
    text = captions.heat(replace(WEEK, replica_slices=slices))
    assert text == "vllm-0 fell furthest below its own mean at Mon 23 Nov 05:00: 0.0 % of 1 billion tokens"
    even = tuple(replace(s, hit_tokens=s.prompt_tokens) for s in WEEK.replica_slices)
    assert captions.heat(replace(WEEK, replica_slices=even)) == "Every replica hits the same all the time"


def test_the_histogram_holds_what_the_curve_adds() -> None:
    """Bins are the steps of the curve between its own points and sum to all that is used again."""
    points = tuple(
        TtlPoint(t, n) for t, n in ((1, 0), (50, 100), (290, 300), (301, 350), (3_000, 400), (9_000, 400))
    )
    curves = Curves("p", 1_000, ttl=points, ttl_today_s=300.0)
    found = gaps(curves)
    assert sum(g.tokens for g in found) == 400
    assert all(a.to_s == b.from_s for a, b in pairwise(found))
    assert within(found, curves, 300) == 0.75
    assert found[-1].to_s == 3_000
    assert "today, 5 min: 75.0 %" in gap_chart(curves, "c")
    assert captions.used_again(curves) == (
        "Of the tokens that are used again, 75.0 % within 5 min come back; the longest time between two uses is 50 min"
    )
    assert gaps(Curves("p", 1_000)) == ()


OPTIONS = (
    RoutingOption("round-robin", 9, 1_000, 400, 0.26, 4, imbalance_prefill=1.02),
    RoutingOption(
        "cache-aware", 9, 1_000, 800, 0.5, 4, imbalance_prefill=1.9, seeds=8, rate_low=0.78, rate_high=0.82
    ),
    RoutingOption("worse <b>", 9, 1_000, 390, 0.5, 4, imbalance_prefill=1.5),
)


def test_routings_by_load_and_hit_rate() -> None:
    """What another beats in both is grey; the title names the ends of the frontier."""
    assert unbeaten(OPTIONS) == (True, True, False)
    svg = routing_chart(OPTIONS, "c")
    assert "worse &lt;b&gt;" in svg
    assert captions.routing(OPTIONS).startswith("cache-aware hits most, 80.0 %, with ")
    assert "round-robin is most even" in captions.routing(OPTIONS)
    assert drawable(OPTIONS[:1]) == ()
    assert page(replace(WEEK, routing=OPTIONS)).charts["routing"]


def test_titles_say_what_the_charts_show() -> None:
    """Each is a sentence with the figures of this report."""
    found = page(WEEK)
    assert re.fullmatch(
        r"The hit rate was 14.2 % on Wed 25 Nov from 10:00 to 23:00, and 76.3 % otherwise",
        found.captions["time"],
    )
    assert found.captions["ladder"].startswith("The capacity takes most: ")
    assert "all tenants is 85.0 % of all tokens" in found.captions["prefixes"]
    told = found.curves[0].captions
    assert "177,200 blocks a replica give 95 % of what any size can" in told["capacity"]
    assert told["ttl"].startswith("A time to live of 5 min gives ")


@pytest.mark.parametrize("state", [report_data.nothing, report_data.one_request, report_data.all_cold])
def test_states_without_anything_to_draw(state: object) -> None:
    """No picture, no title."""
    found = page(state())  # type: ignore[operator]
    assert not found.icicle.svg
    assert not found.charts["heat"]
    assert all(not row.gap_chart for row in found.curves)


def test_width_is_that_of_the_sheet() -> None:
    """All pictures line up."""
    assert f'viewBox="0 0 {WIDTH_PX} ' in icicle(WEEK).svg
