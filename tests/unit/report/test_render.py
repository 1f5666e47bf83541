"""The page: structure, states, hostile names, size."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import report_data
from prefixledger.report.parts import Breakdown, Finding, Group
from prefixledger.report.reject_parts import RejectReason
from prefixledger.report.render import html
from report_states import HOSTILE, STATES, hostile_week

if TYPE_CHECKING:
    from prefixledger.report.parts import Source

VOID = {"meta", "br", "hr", "img", "input", "link"}


@cache
def page_of(state: str) -> str:
    """Return the page of a state, drawn once."""
    return html(STATES[state]())


class Outline(HTMLParser):
    """Collects what the tests ask of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.unclosed: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep track of what is open."""
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep track of what is open."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Keep track of what is open."""
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unclosed.append(tag)

    def values(self, name: str) -> list[str]:
        """Return every value of an attribute."""
        return [a[name] or "" for _, a in self.tags if name in a]


@pytest.mark.parametrize("state", STATES)
def test_structure_serves_every_reader(state: str) -> None:
    """One h1, ordered headings, landmarks, a skip link, unique ids, labels and links that lead somewhere."""
    page = Outline(page_of(state))
    names = [tag for tag, _ in page.tags]
    assert page.open == page.unclosed == []
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(page.headings, page.headings[1:], strict=False))
    assert all(names.count(tag) == 1 for tag in ("header", "nav", "main", "footer"))
    assert names[: names.index("body")].count("title") == 1
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(" ".join(page.values("aria-labelledby")).split()) <= set(ids)
    links = page.values("href")
    assert links[0] == "#main"
    assert {link[1:] for link in links} <= set(ids)


@pytest.mark.parametrize("state", STATES)
def test_tables_have_captions_and_scopes(state: str) -> None:
    """Every table says what it is and every heading cell what it heads."""
    page = Outline(page_of(state))
    names = [tag for tag, _ in page.tags]
    assert names.count("table") == names.count("caption")
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")


@pytest.mark.parametrize("state", STATES)
def test_one_file_without_script_or_request(state: str) -> None:
    """The policy forbids everything but the style inside, and nothing in the page would need more."""
    text = page_of(state)
    page = Outline(text)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert (policy or "").startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in page.tags}
    assert not re.search(r"https?://|@import|\bsrc=|url\((?!#)", text)
    assert not [name for _, a in page.tags for name in a if name.startswith("on")]
    assert page.values("content")[0]
    assert '<meta name="generator" content="prefixledger ' in text[:4096]


def test_sections_in_order() -> None:
    """A window with lookups has all sections; one without keeps those that still have something to say."""
    expected = ["verdict", "findings", "time", "account", "prefixes", "who", "replicas", "ladder", "capacity", "ttl", "events",
                "observed", "inputs", "definitions", "made"]  # fmt: skip

    def sections(text: str) -> list[str]:
        return [a["id"] or "" for tag, a in Outline(text).tags if tag == "section"]

    assert sections(page_of("week")) == sections(page_of("one")) == sections(page_of("cold")) == expected
    assert sections(page_of("nothing")) == ["verdict", "inputs", "made"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("failed", "No request of this window reached a cache: all 3 of them failed."),
        ("one", "The log names no replica: all lookups were put on one cache"),
        ("one", "there is no course of time to draw"),
        ("cold", "Nothing repeats, so there is nothing for a limit to take away."),
        ("cold", "No prompt shares a block with an earlier one, so no capacity would hit."),
        ("cold", "The log carries no usage (cached tokens)"),
    ],
)
def test_every_state_says_why_it_is_empty(state: str, words: str) -> None:
    """No section is an empty chart."""
    assert words in re.sub(r"&nbsp;", " ", page_of(state))


def test_charts_stand_with_their_tables() -> None:
    """Nine charts, the tree and its branch, and the figures of each as a table below it."""
    text = page_of("week")
    assert text.count('<svg viewBox="0 0 880 ') == 11
    for chart_id in ("time", "heat", "ladder", "capacity-1", "ages-1", "ttl-1", "gaps-1"):
        after = text[text.index(f'id="fig-{chart_id}-title"') :]
        assert after.index("<details>") < after.index("</section>")


def test_the_account_closes_on_the_page() -> None:
    """Asked, hits and causes are shown to the token, and what is left over is 0."""
    table = page_of("week").split('<table class="account">')[1].split("</table>")[0]
    rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
    tokens = [
        int(m.group(1).replace(",", ""))
        for r in rows
        if (m := re.search(r'</th>\s*<td class="n">([\d,]+)</td>', r))
    ]
    assert tokens[0] == sum(tokens[1:-1])
    assert tokens[-1] == 0


def test_the_account_shows_what_a_lower_tier_hit() -> None:
    """As a part of the hits, and only where there was a tier that hit."""
    view = report_data.week()
    with_tier = replace(view.result, total=replace(view.result.total, hit_host_tokens=12_345))

    text = html(replace(view, results=(with_tier, *view.results[1:])))

    assert 'from the lower tier <span class="n">12,345</span>' in text
    assert "from the lower tier" not in page_of("week")


def test_size_of_a_small_report() -> None:
    """Under 300 KB with 168 slices, 20 tenants and 11 pictures."""
    assert len(page_of("week").encode()) < 300_000


def test_size_is_bounded_by_construction() -> None:
    """500 slices, 8 breakdowns and 40 inputs with long names stay under the hard cap of 1 MB."""
    view = report_data.week()
    buckets = tuple(
        replace(view.timeline.buckets[i % 168], at_us=report_data.START_US + i * 10**9) for i in range(500)
    )
    groups = tuple(Group("x" * 300, 10**6, 10**10, 10**9, report_data.misses(cold=10**9)) for _ in range(20))
    view = replace(
        view,
        timeline=replace(view.timeline, buckets=buckets),
        breakdowns=tuple(Breakdown(f"field{i}", groups) for i in range(8)),
        sources=tuple(report_data.source(path="p" * 200, notes=("n" * 500,)) for _ in range(40)),
        prefixes=replace(view.prefixes, shown=view.prefixes.shown[:-1] * 3),
    )
    assert len(html(view).encode()) < 1_000_000


def test_same_view_same_bytes() -> None:
    """Nothing of the clock, the machine or chance is in the page."""
    assert html(report_data.week()) == page_of("week")


@cache
def harmless_tags() -> list[str]:
    """Return the tags of the page with harmless names."""
    return [tag for tag, _ in Outline(html(hostile_week("harmless"))).tags]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_logs_cannot_become_markup(name: str) -> None:
    """A hostile name leaves the same tags as a harmless one, in page and charts."""
    text = html(hostile_week(name))
    assert [t for t, _ in Outline(text).tags] == harmless_tags()
    assert "<script" not in text
    assert "onerror=alert(1)>" not in text.replace("onerror=alert(1)&gt;", "")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert "49" not in re.findall(r"<bdi>([^<]*)</bdi>", text)


def test_evidence_ids_are_shortened_unless_asked_for() -> None:
    """Request ids are private by default."""
    view = report_data.week(findings=(Finding("evicted", "t", 5, evidence=("request-0123456789",)),))
    assert "request-0123456789" not in html(view)
    assert "request-0123456789" in html(view, show_ids=True)


def test_several_scenarios_and_bases_stand_apart() -> None:
    """Simulated and observed tokens have their own columns, scenarios their own rows."""
    view = report_data.week()
    total = view.result.total
    keyless = replace(
        total,
        basis="observed",
        requests=10,
        prompt_tokens=1_000,
        hit_tokens=400,
        misses=report_data.misses(unexplained=600),
    )
    both = replace(
        total,
        prompt_tokens=total.prompt_tokens + 1_000,
        hit_tokens=total.hit_tokens + 400,
        misses={**total.misses, "unexplained": 600},
    )
    result = replace(view.result, total=both, by_basis=(replace(total, basis="simulated"), keyless))
    text = html(replace(view, results=(result, replace(result, name="what-if"))))
    assert "Simulated (with keys)" in text
    assert "Observed (usage only)" in text
    assert "what-if" in text
    assert both.residual_tokens == 0


@pytest.mark.parametrize("state", STATES)
def test_regions_have_names_of_their_own(state: str) -> None:
    """A list of landmarks in which two are called the same helps nobody."""
    labels = [a["aria-label"] for _, a in Outline(page_of(state)).tags if a.get("role") == "region"]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ((), "Nothing was read"),
        (
            (report_data.source(rejected=36_014, kept=0, duplicates=0, skipped=0),),
            "Every one of the 36,014 records was rejected",
        ),
        ((report_data.source(),), '>--from</span> and <span class="nw">--to<'),
    ],
)
def test_an_empty_report_says_what_to_do(sources: tuple[Source, ...], words: str) -> None:
    """Nothing read, nothing kept, or nothing in the window."""
    text = html(replace(report_data.nothing(), sources=sources))
    assert words in text
    assert text.count("were rejected.") == 0  # the account of the records says it once


def test_every_sheet_of_paper_says_what_it_covers() -> None:
    """In the margin, where no text from a log can come."""
    assert '@page{@top-right{content:"Mon 23 Nov 00:00 to Mon 30 Nov 00:00"' in page_of("week")


def test_a_handful_of_lookups_has_no_course_of_time() -> None:
    """Nine of them would be nine lines on an empty chart."""
    view = report_data.week()
    few = replace(view.result, total=replace(view.result.total, requests=9))
    text = html(replace(view, results=(few,)))
    assert "There are only 9 lookups: too few for a course of time." in text
    assert "fig-time-title" not in text
    assert "fig-heat-title" not in text


def test_first_rejects_stand_with_the_inputs() -> None:
    """Each reason with its number, and where it occurs first."""
    found = RejectReason(
        "missing field", 32, (("a.jsonl", 1, "missing field: ts"), ("a.jsonl", 4, "missing field: <b>"))
    )
    text = html(replace(report_data.nothing(), rejects=(found,)))
    assert (
        '<th scope="rowgroup" rowspan="2"><bdi>missing field</bdi></th><td class="n" rowspan="2">32</td>'
        in text
    )
    assert "<bdi>a.jsonl</bdi>:4" in text
    assert "missing field: &lt;b&gt;" in text
