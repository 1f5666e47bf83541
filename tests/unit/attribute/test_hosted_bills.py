"""Small hosted logs whose bills were worked out by hand, from the log to the invoice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prefixledger import attribute
from prefixledger.config.scenario import Cache, Match, Pool, Pricing, Rates, Scenario, default_scenario
from prefixledger.config.units import datetime_us
from prefixledger.errors import UsageError
from prefixledger.replay import run
from prefixledger.schema import PARTS
from prefixledger.workspace import Workspace, write_table
from stage_support import MINUTE, SECOND, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 128
START_US = datetime_us(datetime(2026, 11, 24, tzinfo=UTC))
HOUR = 60 * MINUTE
SONNET = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
}  # 3 a million, w 1.25 and 2, r 0.1, from 1,024 tokens
OPUS = {"provider": "anthropic", "model": "claude-opus-4-7"}  # 5 a million, from 2,048 tokens
HAIKU = {
    "provider": "anthropic",
    "model": "claude-haiku-5-5",
}  # 0.1 a million up to 100,000 tokens, 0.5 above
SONNET_5_5 = {
    "provider": "anthropic",
    "model": "claude-sonnet-5-5",
}  # 2 a million, r 0.1, since 7 October 0.05
SOL = {"provider": "openai", "model": "gpt-6.1-sol"}  # 2 a million, w 1.25 and 2.5, r 0.05
GPT_4O = {"provider": "openai", "model": "gpt-4o"}  # 2.5 a million, r 0.5, writes are free
GPT_5_5 = {"provider": "openai", "model": "gpt-5.5"}  # 5 a million, r 0.1, writes are free
NOVA = {"provider": "bedrock", "model": "amazon.nova-pro-v1:0"}  # 0.8 a million, r 0.25, writes are free
FLASH = {"provider": "deepseek", "model": "deepseek-flash"}  # 0.15 a million off peak, r 0.02
GEMINI = {
    "provider": "gemini",
    "model": "gemini-3.8-flash",
}  # 0.75 a million in 2026, r 0.1, from 4,096 tokens
PRO = {"provider": "gemini", "model": "gemini-2.5-pro"}  # 1.25 a million, r 0.1, from 2,048 tokens
KIMI = {"provider": "moonshot", "model": "kimi-k3"}  # 3 a million, w 1 and 2, r 0.1
PLAIN = tuple(range(10))  # 1,280 tokens in full blocks, and 20 behind them unless a row says otherwise


def _ask(at_us: int, ids: tuple[int, ...] = PLAIN, tail: int = 20, **columns: Any) -> dict[str, Any]:
    start_us = columns.pop("start_us", START_US)
    for name in ("first_token_at", "finished_at"):
        if name in columns:
            columns[name] += start_us
    return {
        "at_us": start_us + at_us,
        "ids": list(ids),
        "block_size": BLOCK,
        "prompt_tokens": BLOCK * len(ids) + tail,
        # Without a first token an entry could be read after 65 ms.
        **SONNET,
        **columns,
    }


@dataclass
class Story:
    """A log, how it is replayed, what it costs in millionths of a dollar, and why tokens were missed."""

    rows: list[dict[str, Any]]
    input: str
    causes: dict[str, int]
    cache: dict[str, Any] = field(default_factory=dict)


def _turns(*lengths: int) -> list[dict[str, Any]]:
    return [_ask(20 * SECOND * n, tuple(range(length))) for n, length in enumerate(lengths)]


_SHARED = [_ask(0, (*range(8), 100, 101)), _ask(MINUTE, (*range(8), 200, 201))]


def _with(rows: list[dict[str, Any]], **columns: Any) -> list[dict[str, Any]]:
    return [{**row, **columns} for row in rows]


_OCTOBER = datetime_us(datetime(2026, 10, 6, 23, 57, tzinfo=UTC))
_TAILS = {"uncacheable:partial_block": 40}
TWICE = {"cold:new_content": 1280, **_TAILS}

STORIES = {
    # (1.25 · 1280 + 20 + 0.1 · 1280 + 20) · 3 = 1768 · 3
    "written, then read": Story([_ask(0), _ask(MINUTE)], "5304", TWICE),
    # A gap of exactly the lifetime still hits.
    "read in the last moment": Story([_ask(0), _ask(5 * MINUTE)], "5304", TWICE),
    # Started 310 s apart: the first took 200 s, but the clock had run from its start. 2 · 1620 · 3
    "the clock runs from the start": Story(
        [_ask(0, finished_at=200 * SECOND), _ask(310 * SECOND)],
        "9720",
        {**TWICE, "expired:310 s": 1280},
    ),
    # Each read starts the lifetime anew: (1620 + 148 + 148) · 3
    "reads refresh": Story(
        [_ask(n * 4 * MINUTE) for n in range(3)],
        "5748",
        {"cold:new_content": 1280, "uncacheable:partial_block": 60},
    ),
    # 896 + 10 tokens, twice, and never written: 2 · 906 · 3
    "below the minimum": Story(
        [_ask(n * MINUTE, tuple(range(7)), 10) for n in range(2)],
        "5436",
        {"uncacheable:below_minimum": 1812},
    ),
    # The same prompt is too short for the sibling: 1768 · 3 + 2 · 1300 · 5
    "a sibling has another minimum": Story(
        [
            _ask(0),
            _ask(SECOND, namespace="opus", **OPUS),
            _ask(MINUTE),
            _ask(MINUTE + SECOND, namespace="opus", **OPUS),
        ],
        "18304",
        {**TWICE, "uncacheable:below_minimum": 2600},
    ),
    # Two at once, first tokens after 2 s: both write; the third reads. (1620 + 1620 + 148) · 3
    "concurrent first requests": Story(
        [
            _ask(0, first_token_at=2 * SECOND),
            _ask(0, first_token_at=2 * SECOND),
            _ask(2 * SECOND, first_token_at=3 * SECOND),
        ],
        "10164",
        {"cold:new_content": 1280, "in_flight": 1280, "uncacheable:partial_block": 60},
    ),
    # 8 shared blocks, but nothing is stored at their end: 2 · 1620 · 3
    "a shared head without a mark": Story(
        _SHARED,
        "9720",
        {"cold:new_content": 1536, "uncacheable:no_breakpoint": 1024, **_TAILS},
    ),
    # The same with a mark behind the head: (1620 + 0.1 · 1024 + 1.25 · 256 + 20) · 3 = 2062.4 · 3
    "a shared head with a mark": Story(
        _SHARED, "6187.2", {"cold:new_content": 1536, **_TAILS}, {"marks": (1024,)}
    ),
    # 1620 + (128 + 320 + 20) + (153.6 + 320 + 20) = 2581.6
    "a conversation grows": Story(
        _turns(10, 12, 14), "7744.8", {"cold:new_content": 1792, "uncacheable:partial_block": 60}
    ),
    # The same written for an hour: 2580 + (128 + 512 + 20) + (153.6 + 512 + 20) = 3925.6: a loss
    "a fast loop at one hour": Story(
        _turns(10, 12, 14),
        "11776.8",
        {"cold:new_content": 1792, "uncacheable:partial_block": 60},
        {"ttl": "1h"},
    ),
    # 20 minutes apart an hour pays: (2580 + 148) · 3 against 9720
    "a slow pair at one hour": Story([_ask(0), _ask(20 * MINUTE)], "8184", TWICE, {"ttl": "1h"}),
    # 100,000 tokens: 0.125 · 99968 + 0.1 · 32; 100,097, of which 99,968 cached: 0.05 · 99968 + 0.625 · 128 + 0.5
    "cached tokens count towards the cliff": Story(
        [_ask(0, tuple(range(781)), 32, **HAIKU), _ask(MINUTE, tuple(range(782)), 1, **HAIKU)],
        "17578.1",
        {"cold:new_content": 100_096, "uncacheable:partial_block": 33},
    ),
    # 29 minutes hit, 32 do not: (1620 + 84 + 84 + 1620) · 2
    "OpenAI keeps 30 minutes": Story(
        [_ask(at * MINUTE, **SOL) for at in (0, 29, 58, 90)],
        "6816",
        {"cold:new_content": 1280, "expired:1920 s": 1280, "uncacheable:partial_block": 80},
        {"profile": "openai"},
    ),
    # (2.5 · 1280 + 20 + 84) · 2
    "OpenAI keeps 12 hours": Story(
        [_ask(0, **SOL), _ask(10 * HOUR, **SOL)], "6608", TWICE, {"profile": "openai", "ttl": "12h"}
    ),
    # Two workspaces share nothing: 2 · 1620 · 3
    "two scopes": Story(
        [_ask(0, replica="ws-a"), _ask(SECOND, replica="ws-b")],
        "9720",
        {"cold:new_content": 1280, "misrouted:ws-a": 1280, **_TAILS},
    ),
    # Written and read on the 6th, read on the 7th, when a read had become half as dear: (1620 + 148 + 84) · 2
    "prices have dates": Story(
        [_ask(at * MINUTE, start_us=_OCTOBER, **SONNET_5_5) for at in (0, 2, 4)],
        "3704",
        {"cold:new_content": 1280, "uncacheable:partial_block": 60},
    ),
    # Intervals that are not published are replayed as steps of 128; writes are free, reads half: (1300 + 660) · 2.5
    "an older GPT stores at intervals": Story(
        [_ask(0, **GPT_4O), _ask(29 * MINUTE, **GPT_4O)], "4900", TWICE, {"profile": "openai"}
    ),
    # What it shares with an earlier prompt is read without a mark: (1300 + 0.5 · 1024 + 276) · 2.5
    "an older GPT needs no mark": Story(
        _with(_SHARED, **GPT_4O), "5220", {"cold:new_content": 1536, **_TAILS}, {"profile": "openai"}
    ),
    # Every 2,048 tokens: of 20 blocks 16 are stored, and read at a tenth: (2580 + 204.8 + 532) · 5
    "GPT-5.5 stores every 2,048 tokens": Story(
        [_ask(0, tuple(range(20)), **GPT_5_5), _ask(MINUTE, tuple(range(20)), **GPT_5_5)],
        "16584",
        {"cold:new_content": 2048, "uncacheable:partial_block": 1064},
        {"profile": "openai"},
    ),
    # Nova stores 20,000 tokens at most, writes are free, reads a quarter: (20500 + 0.25 · 19968 + 532) · 0.8
    "Nova stores no more than 20,000 tokens": Story(
        [_ask(0, tuple(range(160)), **NOVA), _ask(MINUTE, tuple(range(160)), **NOVA)],
        "20819.2",
        {"cold:new_content": 19968, "uncacheable:no_breakpoint": 1064},
        {"profile": "bedrock"},
    ),
    # Whole stored prefixes only: the second to share 8 blocks misses them and makes them a prefix, the third reads
    # them. Off peak a read is a fiftieth: (1300 + 1300 + 20.48 + 276) · 0.15
    "DeepSeek hits at the third": Story(
        [_ask(n * MINUTE, (*range(8), 100 * n, 100 * n + 1), **FLASH) for n in (1, 2, 3)],
        "434.472",
        {"cold:new_content": 1792, "uncacheable:no_breakpoint": 1024, "uncacheable:partial_block": 60},
        {"profile": "deepseek"},
    ),
    # The end of the first answer, 12 blocks deep, is stored as well, and the next turn reads it: it goes on with the answer.
    # (1280 + 0.02 · 1536 + 128 + 20) · 0.15; without the answer a read would end at the 10 blocks of the first prompt.
    "DeepSeek stores the end of an answer": Story(
        [
            _ask(0, tail=0, output_tokens=257, session_id="s", finished_at=30 * SECOND, **FLASH),
            _ask(MINUTE, tuple(range(13)), session_id="s", **FLASH),
        ],
        "218.808",
        {"cold:new_content": 1408, "uncacheable:partial_block": 20},
        {"profile": "deepseek"},
    ),
    # Two service tiers share nothing with GPT from 5.6 on: 2 · 1620 · 2
    "service tiers share nothing": Story(
        [_ask(0, service_tier="default", **SOL), _ask(SECOND, service_tier="scale", **SOL)],
        "6480",
        {"cold:new_content": 1280, "misrouted:(all) default": 1280, **_TAILS},
        {"profile": "openai"},
    ),
    # 17 in 51 s: 15 find room in one cache (1620 + 14 · 84), two spill to another (1620 + 84)
    "overflow": Story(
        [_ask(3 * n * SECOND, **SOL) for n in range(17)],
        "9000",
        {"cold:new_content": 1280, "misrouted:(all)": 1280, "uncacheable:partial_block": 340},
        {"profile": "openai"},
    ),
    # The same where one cache takes any number: (1620 + 16 · 84) · 2
    "no overflow": Story(
        [_ask(3 * n * SECOND, **SOL) for n in range(17)],
        "5928",
        {"cold:new_content": 1280, "uncacheable:partial_block": 340},
        {"profile": "openai", "overflow_rpm": 0},
    ),
    # What Gemini caches unasked: nothing written, a tenth read: (4116 + 0.1 · 4096 + 20) · 0.75
    "Gemini caches unasked": Story(
        [_ask(0, tuple(range(32)), **GEMINI), _ask(MINUTE, tuple(range(32)), **GEMINI)],
        "3409.2",
        {"cold:new_content": 4096, **_TAILS},
        {"profile": "gemini-implicit"},
    ),
    # Kimi bills a written token like any other for 5 minutes: (1300 + 0.1 · 1280 + 20) · 3
    "Kimi stores blocks of 256": Story(
        [_ask(0, **KIMI), _ask(MINUTE, **KIMI)], "4344", TWICE, {"profile": "kimi"}
    ),
    # Written for an hour as the scenario says (2 · 1280 + 20), then read: 2728 · 3
    "Kimi keeps an hour": Story(
        [_ask(0, **KIMI), _ask(50 * MINUTE, **KIMI)], "8184", TWICE, {"profile": "kimi", "ttl": "1h"}
    ),
    # A minimum of 2,048 tokens that somebody has measured to be 1,280: 1768 · 5
    "a minimum that is told": Story(
        [_ask(0, **OPUS), _ask(MINUTE, **OPUS)], "8840", TWICE, {"minimum_tokens": 1280}
    ),
}


def _replayed(
    root: Path, rows: list[dict[str, Any]], cache: dict[str, Any] | None, parts: Any = (), pricing: Any = None
) -> Any:
    """Return bills, tokens by cause and detail, and written tokens of each request."""
    scenario = default_scenario()
    if cache is not None:
        pool = Pool(cache=Cache(**{"profile": "anthropic", **cache}), pricing=pricing)
        scenario = Scenario(pool=(pool,))
    workspace = write_workspace(root, rows)
    if parts:
        write_table(workspace.parts / "s.parquet", pa.Table.from_pylist(parts, schema=PARTS.arrow()))
    summary = run(workspace, scenario)
    attribute.run(workspace, scenario.name)
    first, last = rows[0]["at_us"], rows[-1]["at_us"]
    marts = attribute.marts(workspace, scenario.name, attribute.Window(first, last + 1))
    causes: Counter[str] = Counter()
    folder = workspace.replay(scenario.name)
    for miss in pq.read_table(folder / "misses.parquet", columns=["cause", "detail", "tokens"]).to_pylist():
        causes[_named(miss)] += miss["tokens"]
    lookups = pq.read_table(folder / "lookups.parquet")
    return marts.bills, dict(causes), lookups.to_pylist(), summary


@dataclass
class Told:
    """What became of one story: its bill, its missed tokens, its prompt and hit tokens."""

    input: Decimal
    causes: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    hit_tokens: int = 0


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """All stories in one log, each a tenant with a pool and a namespace of its own: 30 replays would take 20 s."""
    rows, pools = [], []
    for name, story in STORIES.items():
        cache = Cache(**{"profile": "anthropic", **story.cache})
        pools.append(Pool(name=name, match=Match(tenant=(name,)), cache=cache))
        for number, row in enumerate(story.rows):
            space = f"{name}/{row.get('namespace', 'n')}"
            rows.append({**row, "tenant": name, "namespace": space, "request_id": f"{name}/{number}"})
    rows.sort(key=lambda row: row["at_us"])
    scenario = Scenario(pool=tuple(pools))
    workspace = write_workspace(tmp_path_factory.mktemp("stories"), rows)
    run(workspace, scenario)
    attribute.run(workspace, scenario.name)
    window = attribute.Window(rows[0]["at_us"], rows[-1]["at_us"] + 1)
    spend = attribute.marts(workspace, scenario.name, window).spend.to_pylist()
    found = {row["value"]: Told(row["input_cost"]) for row in spend if row["field"] == "tenant"}
    folder = workspace.replay(scenario.name)
    for miss in pq.read_table(
        folder / "misses.parquet", columns=["request_id", "cause", "detail", "tokens"]
    ).to_pylist():
        found[miss["request_id"].partition("/")[0]].causes[_named(miss)] += miss["tokens"]
    for lookup in pq.read_table(folder / "lookups.parquet").to_pylist():
        assert lookup["hit_tokens"] <= lookup["ideal_hit_tokens"]
        one = found[lookup["request_id"].partition("/")[0]]
        one.prompt_tokens += lookup["prompt_tokens"]
        one.hit_tokens += lookup["hit_tokens"]
    return found


def _named(miss: dict[str, Any]) -> str:
    cause = miss["cause"] if miss["detail"] is None else f"{miss['cause']}:{miss['detail']}"
    return cause.replace("window_start", "new_content")


@pytest.mark.parametrize("name", STORIES)
def test_bill(told: dict[str, Told], name: str) -> None:
    """The bill is the hand sum to the last digit, and every missed token has the cause it was given by hand."""
    story, one = STORIES[name], told[name]
    assert one.input * 1_000_000 == Decimal(story.input)
    assert dict(one.causes) == story.causes
    prompt = sum(row["prompt_tokens"] for row in story.rows)
    assert one.prompt_tokens == prompt == one.hit_tokens + sum(one.causes.values())


def test_output_is_in_the_bill(tmp_path: Path) -> None:
    """Output tokens are paid whatever hit: 100 tokens at 15 a million, twice."""
    rows = [_ask(0, output_tokens=100), _ask(MINUTE, output_tokens=100)]
    (bill,), *_ = _replayed(tmp_path, rows, None)
    assert (bill.output * 1_000_000, bill.actual * 1_000_000) == (Decimal(3000), Decimal(8304))


def _parts(
    line: int, ends: list[int], marked: set[int] | dict[int, str], content_blocks: int = 1
) -> list[dict[str, Any]]:
    """Return parts of one block or more each; ``ends`` are in blocks, ``marked`` are parts, with the words of their marks."""
    words = marked if isinstance(marked, dict) else dict.fromkeys(marked, "ephemeral")
    return [
        {
            "source": "s",
            "source_line": line,
            "part": number,
            "kind": "message",
            "raw_hash": bytes(16),
            "canonical_hash": bytes(16),
            "n_bytes": 1,
            "first_token": BLOCK * begin,
            "n_tokens": BLOCK * (end - begin),
            "breakpoint": words.get(number),
            "content_blocks": content_blocks,
            "goes_on": False,
        }
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


@pytest.mark.parametrize(
    ("last", "input_", "causes"),
    [
        # The mark at 34 looks back at 34 … 15: 1.25 · 1920 + (192 + 1.25 · 2432) = 5632
        (34, "16896", {"cold:new_content": 4352}),
        # The mark at 35 looks back at 35 … 16 and misses by one: 1.25 · (1920 + 4480) = 8000
        (35, "24000", {"cold:new_content": 4480, "uncacheable:out_of_reach": 1920}),
    ],
    ids=["in reach", "out of reach"],
)
def test_look_back_ends_after_20_positions(
    tmp_path: Path, last: int, input_: str, causes: dict[str, int]
) -> None:
    """A mark counts as the first of the 20 positions; a read beyond them is no hit, and everything is written again."""
    rows = [_ask(0, tuple(range(15)), 0), _ask(MINUTE, tuple(range(last)), 0)]
    parts = _parts(1, list(range(1, 16)), {14}) + _parts(2, list(range(1, last + 1)), {last - 1})
    (bill,), found, *_ = _replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(input_)
    assert found == causes


def test_a_second_mark_opens_a_second_window(tmp_path: Path) -> None:
    """With a mark near the old entry the prompt of 35 positions reads it: 2400 + 192 + 1.25 · 2560 = 5792."""
    rows = [_ask(0, tuple(range(15)), 0), _ask(MINUTE, tuple(range(35)), 0)]
    parts = _parts(1, list(range(1, 16)), {14}) + _parts(2, list(range(1, 36)), {16, 34})
    (bill,), *_ = _replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(17376)


def test_a_mark_that_is_taken_from_another_use(tmp_path: Path) -> None:
    """Two sessions share 8 blocks and grow by 2 a turn: marks of every second turn are spent on the shared head.

    Then the second session begins with the head read (1,024 tokens), and turns within sessions read 6,656 tokens in place of
    9,216: what looked like a fix loses 1,536 tokens.
    """
    head = tuple(range(8))
    rows, marked = [], {"before": [], "after": []}
    for session in (1, 2):
        for turn in range(4):
            own = tuple(range(100 * session, 100 * session + 2 + 2 * turn))
            rows.append(_ask((10 * session + turn) * 20 * SECOND, (*head, *own), 0, session_id=f"s{session}"))
            ends = [8, *range(10, 10 + 2 * turn + 1, 2)]
            last = len(ends) - 1
            marked["before"] += _parts(len(rows), ends, {last})
            marked["after"] += _parts(len(rows), ends, {0} if turn % 2 else {0, last})
    found = {}
    for name, parts in marked.items():
        (bill,), causes, lookups, _ = _replayed(tmp_path / name, rows, {}, parts)
        hits = [row["hit_tokens"] for row in sorted(lookups, key=lambda row: row["admitted_at"])]
        found[name] = (hits[4], sum(hits) - hits[4], causes.get("uncacheable:no_breakpoint", 0), bill.input)
    (head_before, turns_before, open_before, paid), (head_after, turns_after, open_after, now) = (
        found.values()
    )
    assert (head_before, head_after) == (0, 1024)
    assert (turns_before, turns_after) == (9216, 6656)
    assert open_after > open_before == 1024
    assert now > paid


def test_what_lies_behind_the_last_mark_is_not_stored(tmp_path: Path) -> None:
    """10 blocks marked, 2 more and 20 tokens behind them: (1.25 · 1280 + 276 + 128 + 276) · 3 = 2280 · 3."""
    rows = [_ask(n * MINUTE, tuple(range(12))) for n in range(2)]
    parts = [part for line in (1, 2) for part in _parts(line, [10, 12], {0})]
    (bill,), causes, lookups, summary = _replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(6840)
    assert causes == {"cold:new_content": 1280, "uncacheable:no_breakpoint": 552}
    assert [row["written_tokens"] for row in lookups] == [1280, 0]
    assert any("cache marks are as sent" in note for note in summary.notes)


def test_a_prompt_without_marks_is_not_cached(tmp_path: Path) -> None:
    """Claude stores nothing that is not marked (2 · 1300 · 3); GPT marks the end by itself (1704 · 2)."""
    parts = [part for line in (1, 2) for part in _parts(line, [10], set())]
    (bill,), causes, *_ = _replayed(tmp_path / "claude", [_ask(0), _ask(MINUTE)], {}, parts)
    assert (bill.input * 1_000_000, causes) == (Decimal(7800), {"uncacheable:no_breakpoint": 2600})
    rows = [_ask(0, **SOL), _ask(MINUTE, **SOL)]
    (bill,), causes, *_ = _replayed(tmp_path / "gpt", rows, {"profile": "openai"}, parts)
    assert (bill.input * 1_000_000, causes) == (Decimal(3408), TWICE)


@pytest.mark.parametrize(
    ("wrote", "input_", "causes"),
    [
        # Nobody counts writes: the first may have been marked as the others were. (1620 + 148 + 148) · 3
        (None, "5748", {"cold:new_content": 1280, "uncacheable:partial_block": 60}),
        # It neither read nor wrote, so nothing was marked; the second writes, the third reads. (1300 + 1620 + 148) · 3
        (
            0,
            "9204",
            {"uncacheable:no_breakpoint": 2580, "uncacheable:partial_block": 40},
        ),
    ],
    ids=["writes not counted", "writes counted"],
)
def test_marks_that_are_set_behind_the_log_show_in_its_usage(
    tmp_path: Path, wrote: int | None, input_: str, causes: dict[str, int]
) -> None:
    """A gateway marks what it passes on: a text without marks of which the service reads was marked all the same."""
    rows = [
        _ask(
            n * MINUTE,
            usage_state="present",
            cached_tokens_observed=1280 if n else 0,
            cache_write_5m_tokens_observed=wrote,
        )
        for n in range(3)
    ]
    parts = [part for line in (1, 2, 3) for part in _parts(line, [10], set())]
    (bill,), found, _, summary = _replayed(tmp_path, rows, {}, parts)
    assert (bill.input * 1_000_000, found) == (Decimal(input_), causes)
    assert any("shows no cache marks of" in note for note in summary.notes)


_MIXED = [_parts(line, [8, 12], {0: "ephemeral/1h", 1: "ephemeral/5m"}) for line in (1, 2)]


def test_mixed_lifetimes_pay_and_live_by_mark(tmp_path: Path) -> None:
    """8 blocks for an hour, 4 behind them for 5 minutes: after 10 minutes the head is read and the rest written again.

    (2 · 1024 + 1.25 · 512 + 20) + (0.1 · 1024 + 1.25 · 512 + 20) = 3470.4
    """
    rows = [_ask(n * 10 * MINUTE, tuple(range(12))) for n in range(2)]
    (bill,), causes, _, summary = _replayed(tmp_path, rows, {}, [part for line in _MIXED for part in line])
    assert bill.input * 1_000_000 == Decimal("10411.2")
    assert causes == {"cold:new_content": 1536, "expired:600 s": 512, **_TAILS}
    assert any("each is replayed with its own" in note for note in summary.notes)


def test_a_chosen_lifetime_is_that_of_all_marks(tmp_path: Path) -> None:
    """All for 5 minutes: both are written twice (2 · 1940); all for an hour: 3092 + 153.6 + 20 = 3265.6."""
    rows = [_ask(n * 10 * MINUTE, tuple(range(12))) for n in range(2)]
    parts = [part for line in _MIXED for part in line]
    for ttl, paid in (("5m", "11640"), ("1h", "9796.8")):
        (bill,), *_ = _replayed(tmp_path / ttl, rows, {"ttl": ttl}, parts)
        assert bill.input * 1_000_000 == Decimal(paid)


def test_shared_heads_pay_for_the_longer_life(tmp_path: Path) -> None:
    """What the prefixes of a report pay is what the bill says: the head at the price of an hour, the tails at that of 5 minutes.

    (2 · 1024 + 1.25 · 512 + 20) + (0.1 · 1024 + 1.25 · 512 + 20) = 3470.4, of which the head is 2048 + 102.4.
    """
    rows = [_ask(n * MINUTE, (*range(8), *range(100 * n + 100, 100 * n + 104))) for n in range(2)]
    parts = [part for line in _MIXED for part in line]
    (bill,), *_ = _replayed(tmp_path, rows, {}, parts)
    marts = attribute.marts(
        Workspace(tmp_path), "as-is", attribute.Window(rows[0]["at_us"], rows[1]["at_us"] + 1)
    )
    excess = {row["depth_tokens"]: row["excess_cost"] for row in marts.prefixes.to_pylist()}
    assert bill.input * 1_000_000 == Decimal("10411.2")
    # Above the price of reads: 3 · 1024 · (2 - 0.1)
    assert excess[1024] * 1_000_000 == Decimal("5836.8")


def test_an_hour_that_the_service_wrote_for_is_known(tmp_path: Path) -> None:
    """No marks in the log, but the answer says that it wrote for an hour: 20 minutes later it is read, not expired."""
    rows = [_ask(0, cache_write_1h_tokens_observed=1280, cache_write_5m_tokens_observed=0), _ask(20 * MINUTE)]
    (bill,), causes, *_ = _replayed(tmp_path, rows, {})
    assert (bill.input * 1_000_000, causes) == (Decimal(8184), TWICE)


def test_look_back_counts_content_blocks(tmp_path: Path) -> None:
    """Messages of 7 content blocks: an entry at block 7 is out of reach of a mark 21 blocks later, 3 messages behind it.

    Written twice: 1.25 · (1024 + 1408) · 3
    """
    rows = [_ask(0, tuple(range(8)), 0), _ask(MINUTE, tuple(range(11)), 0)]
    parts = _parts(1, [8], {0}, 7) + _parts(2, [8, 9, 10, 11], {3}, 7)
    (bill,), causes, *_ = _replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(9120)
    assert causes == {"cold:new_content": 1408, "uncacheable:out_of_reach": 1024}


def test_a_cached_content_ends_whoever_reads_it(tmp_path: Path) -> None:
    """Created at 0, read at 50 minutes, gone at 70: reads do not make it live longer, and rent is paid to the end of each hour.

    (2068 + 0.1 · 2048 + 20 + 2068) · 1.25, and 2 · 2048 tokens for an hour at 4.5
    """
    rows = [_ask(at * MINUTE, tuple(range(16)), **PRO) for at in (0, 50, 70)]
    cache = {"profile": "gemini-explicit", "marks": (2048,)}
    (bill,), causes, *_ = _replayed(tmp_path, rows, cache)
    assert bill.input * 1_000_000 == Decimal(5451) + 2 * 2048 * Decimal("4.5")
    assert causes == {"cold:new_content": 2048, "expired:4200 s": 2048, "uncacheable:partial_block": 60}
    facts = pq.read_table(Workspace(tmp_path).replay("as-is") / "lookup_facts.parquet")
    assert facts["storage_token_s"].to_pylist() == [2048 * 3600, 0, 2048 * 3600]


def test_a_cached_content_needs_a_length(tmp_path: Path) -> None:
    """Nobody can say what would have been created."""
    with pytest.raises(UsageError, match="how long it is"):
        _replayed(tmp_path, [_ask(0, **PRO)], {"profile": "gemini-explicit"})


@pytest.mark.parametrize(("gap_us", "paid"), [(3 * SECOND, "1.25"), (7 * SECOND, "0.1")])
def test_an_entry_can_be_read_once_its_answer_has_ended(tmp_path: Path, gap_us: int, paid: str) -> None:
    """Qwen: the first token came after a second, the answer ended after 6: 1620 + 20 + 1280 times 1.25 or 0.1."""
    rows = [
        _ask(
            at,
            first_token_at=at + SECOND,
            finished_at=at + 6 * SECOND,
            provider="dashscope",
            model="qwen3.7-max",
        )
        for at in (0, gap_us)
    ]
    rates = Rates(base=Decimal(1), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(0))
    (bill,), *_ = _replayed(tmp_path, rows, {"profile": "qwen-explicit"}, pricing=Pricing(rates=rates))
    assert bill.input * 1_000_000 == 1640 + 1280 * Decimal(paid)


@pytest.mark.parametrize(("model", "third"), [("qwen4-max", "0.1"), ("qwen3.7-max", "1.25")])
def test_a_read_may_give_the_lifetime_that_it_asks_for(tmp_path: Path, model: str, third: str) -> None:
    """Written for 5 minutes, read with a mark for an hour, asked again 40 minutes later: Qwen4 has it, Qwen3 does not."""
    rows = [_ask(at * MINUTE, provider="dashscope", model=model) for at in (0, 4, 44)]
    parts = [
        part
        for line, word in ((1, "ephemeral/5m"), (2, "ephemeral/1h"), (3, "ephemeral/5m"))
        for part in _parts(line, [10], {0: word})
    ]
    rates = Rates(base=Decimal(1), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(0))
    (bill,), *_ = _replayed(tmp_path, rows, {"profile": "qwen-explicit"}, parts, pricing=Pricing(rates=rates))
    assert bill.input * 1_000_000 == 1280 * (Decimal("1.25") + Decimal("0.1") + Decimal(third)) + 60


@pytest.mark.parametrize(
    ("gap_s", "read", "wrote", "cause", "unexplained"),
    [
        # It wrote what the first was about to store: the first had not begun to answer.
        (4, 0, 1280, "in_flight", 0),
        # It read it, so the first had begun, however early.
        (0.01, 1280, 0, None, 0),
        # Nobody says what was read: as estimated, readable after 65 ms.
        (4, None, None, None, 0),
        # Neither read nor written: no mark was seen, which proves nothing.
        (4, 0, 0, None, 1280),
        # The first had ended; or an answer went on for longer than any first token takes.
        (21, 0, 1280, None, 1280),
        (12, 0, 1280, None, 1280),
    ],
)
def test_usage_shows_that_a_first_answer_had_not_begun(
    tmp_path: Path, gap_s: float, read: int | None, wrote: int | None, cause: str | None, unexplained: int
) -> None:
    """Only starts and ends are logged: between them, whoever asks for the same shows by its usage whether it was there."""
    state = "absent" if read is None else "present"
    usage = {"cached_tokens_observed": read, "cache_write_5m_tokens_observed": wrote, "usage_state": state}
    rows = [_ask(0, finished_at=20 * SECOND), _ask(int(gap_s * SECOND), finished_at=60 * SECOND, **usage)]
    _, causes, lookups, _ = _replayed(tmp_path, rows, {})
    assert causes.get("in_flight", 0) == (1280 if cause else 0)
    assert sum(row["unexplained_tokens"] or 0 for row in lookups) == unexplained


@pytest.mark.parametrize("block", [16, 128])
def test_an_older_gpt_reads_in_steps_of_128_tokens(tmp_path: Path, block: int) -> None:
    """Whatever the blocks of the log: of 1,520 tokens 1,408 are read, the rest is the beginning of a step, and explained."""
    usage = {"usage_state": "present", "cached_tokens_observed": 0}
    ids = list(range(1520 // block))
    rows = [
        {**_ask(n * MINUTE, **GPT_4O, **usage), "ids": ids, "block_size": block, "prompt_tokens": 1520}
        for n in range(3)
    ]
    rows[1] |= {"cached_tokens_observed": 1408}
    rows[2] |= {"ids": [*ids[: 1200 // block], 10_000], "cached_tokens_observed": 1152, "prompt_tokens": 1280}
    _, causes, lookups, _ = _replayed(tmp_path, rows, {"profile": "openai"})
    assert [row["hit_tokens"] for row in lookups] == [0, 1408, 1152]
    assert [row["unexplained_tokens"] for row in lookups] == [0, 0, 0]
    assert set(causes) <= {"cold:new_content", "uncacheable:partial_block"}
