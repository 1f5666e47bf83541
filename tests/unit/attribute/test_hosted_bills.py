"""Small hosted logs whose bills were worked out by hand, from the log to the invoice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from hosted_logs import (
    FLASH,
    GEMINI,
    GPT_4O,
    GPT_5_5,
    HAIKU,
    HOUR,
    KIMI,
    NOVA,
    OPUS,
    SOL,
    SONNET_5_5,
    TAILS,
    TWICE,
    ask,
    named,
    replayed,
)
from prefixledger import attribute
from prefixledger.config.scenario import Cache, Match, Pool, Scenario
from prefixledger.config.units import datetime_us
from prefixledger.replay import run
from stage_support import MINUTE, SECOND, write_workspace

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Story:
    """A log, how it is replayed, what it costs in millionths of a dollar, and why tokens were missed."""

    rows: list[dict[str, Any]]
    input: str
    causes: dict[str, int]
    cache: dict[str, Any] = field(default_factory=dict)


def _turns(*lengths: int) -> list[dict[str, Any]]:
    return [ask(20 * SECOND * n, tuple(range(length))) for n, length in enumerate(lengths)]


_SHARED = [ask(0, (*range(8), 100, 101)), ask(MINUTE, (*range(8), 200, 201))]


def _with(rows: list[dict[str, Any]], **columns: Any) -> list[dict[str, Any]]:
    return [{**row, **columns} for row in rows]


_OCTOBER = datetime_us(datetime(2026, 10, 6, 23, 57, tzinfo=UTC))

STORIES = {
    # (1.25 · 1280 + 20 + 0.1 · 1280 + 20) · 3 = 1768 · 3
    "written, then read": Story([ask(0), ask(MINUTE)], "5304", TWICE),
    # A gap of exactly the lifetime still hits.
    "read in the last moment": Story([ask(0), ask(5 * MINUTE)], "5304", TWICE),
    # Started 310 s apart: the first took 200 s, but the clock had run from its start. 2 · 1620 · 3
    "the clock runs from the start": Story(
        [ask(0, finished_at=200 * SECOND), ask(310 * SECOND)],
        "9720",
        {**TWICE, "expired:310 s": 1280},
    ),
    # Each read starts the lifetime anew: (1620 + 148 + 148) · 3
    "reads refresh": Story(
        [ask(n * 4 * MINUTE) for n in range(3)],
        "5748",
        {"cold:new_content": 1280, "uncacheable:partial_block": 60},
    ),
    # 896 + 10 tokens, twice, and never written: 2 · 906 · 3
    "below the minimum": Story(
        [ask(n * MINUTE, tuple(range(7)), 10) for n in range(2)],
        "5436",
        {"uncacheable:below_minimum": 1812},
    ),
    # The same prompt is too short for the sibling: 1768 · 3 + 2 · 1300 · 5
    "a sibling has another minimum": Story(
        [
            ask(0),
            ask(SECOND, namespace="opus", **OPUS),
            ask(MINUTE),
            ask(MINUTE + SECOND, namespace="opus", **OPUS),
        ],
        "18304",
        {**TWICE, "uncacheable:below_minimum": 2600},
    ),
    # Two at once, first tokens after 2 s: both write; the third reads. (1620 + 1620 + 148) · 3
    "concurrent first requests": Story(
        [
            ask(0, first_token_at=2 * SECOND),
            ask(0, first_token_at=2 * SECOND),
            ask(2 * SECOND, first_token_at=3 * SECOND),
        ],
        "10164",
        {"cold:new_content": 1280, "in_flight": 1280, "uncacheable:partial_block": 60},
    ),
    # 8 shared blocks, but nothing is stored at their end: 2 · 1620 · 3
    "a shared head without a mark": Story(
        _SHARED,
        "9720",
        {"cold:new_content": 1536, "uncacheable:no_breakpoint": 1024, **TAILS},
    ),
    # The same with a mark behind the head: (1620 + 0.1 · 1024 + 1.25 · 256 + 20) · 3 = 2062.4 · 3
    "a shared head with a mark": Story(
        _SHARED, "6187.2", {"cold:new_content": 1536, **TAILS}, {"marks": (1024,)}
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
    "a slow pair at one hour": Story([ask(0), ask(20 * MINUTE)], "8184", TWICE, {"ttl": "1h"}),
    # 100,000 tokens: 0.125 · 99968 + 0.1 · 32; 100,097, of which 99,968 cached: 0.05 · 99968 + 0.625 · 128 + 0.5
    "cached tokens count towards the cliff": Story(
        [ask(0, tuple(range(781)), 32, **HAIKU), ask(MINUTE, tuple(range(782)), 1, **HAIKU)],
        "17578.1",
        {"cold:new_content": 100_096, "uncacheable:partial_block": 33},
    ),
    # 29 minutes hit, 32 do not: (1620 + 84 + 84 + 1620) · 2
    "OpenAI keeps 30 minutes": Story(
        [ask(at * MINUTE, **SOL) for at in (0, 29, 58, 90)],
        "6816",
        {"cold:new_content": 1280, "expired:1920 s": 1280, "uncacheable:partial_block": 80},
        {"profile": "openai"},
    ),
    # (2.5 · 1280 + 20 + 84) · 2
    "OpenAI keeps 12 hours": Story(
        [ask(0, **SOL), ask(10 * HOUR, **SOL)], "6608", TWICE, {"profile": "openai", "ttl": "12h"}
    ),
    # Two workspaces share nothing: 2 · 1620 · 3
    "two scopes": Story(
        [ask(0, replica="ws-a"), ask(SECOND, replica="ws-b")],
        "9720",
        {"cold:new_content": 1280, "misrouted:ws-a": 1280, **TAILS},
    ),
    # Written and read on the 6th, read on the 7th, when a read had become half as dear: (1620 + 148 + 84) · 2
    "prices have dates": Story(
        [ask(at * MINUTE, start_us=_OCTOBER, **SONNET_5_5) for at in (0, 2, 4)],
        "3704",
        {"cold:new_content": 1280, "uncacheable:partial_block": 60},
    ),
    # Intervals that are not published are replayed as steps of 128; writes are free, reads half: (1300 + 660) · 2.5
    "an older GPT stores at intervals": Story(
        [ask(0, **GPT_4O), ask(29 * MINUTE, **GPT_4O)], "4900", TWICE, {"profile": "openai"}
    ),
    # What it shares with an earlier prompt is read without a mark: (1300 + 0.5 · 1024 + 276) · 2.5
    "an older GPT needs no mark": Story(
        _with(_SHARED, **GPT_4O), "5220", {"cold:new_content": 1536, **TAILS}, {"profile": "openai"}
    ),
    # Every 2,048 tokens: of 20 blocks 16 are stored, and read at a tenth: (2580 + 204.8 + 532) · 5
    "GPT-5.5 stores every 2,048 tokens": Story(
        [ask(0, tuple(range(20)), **GPT_5_5), ask(MINUTE, tuple(range(20)), **GPT_5_5)],
        "16584",
        {"cold:new_content": 2048, "uncacheable:partial_block": 1064},
        {"profile": "openai"},
    ),
    # Nova stores 20,000 tokens at most, writes are free, reads a quarter: (20500 + 0.25 · 19968 + 532) · 0.8
    "Nova stores no more than 20,000 tokens": Story(
        [ask(0, tuple(range(160)), **NOVA), ask(MINUTE, tuple(range(160)), **NOVA)],
        "20819.2",
        {"cold:new_content": 19968, "uncacheable:no_breakpoint": 1064},
        {"profile": "bedrock"},
    ),
    # Whole stored prefixes only: the second to share 8 blocks misses them and makes them a prefix, the third reads
    # them. Off peak a read is a fiftieth: (1300 + 1300 + 20.48 + 276) · 0.15
    "DeepSeek hits at the third": Story(
        [ask(n * MINUTE, (*range(8), 100 * n, 100 * n + 1), **FLASH) for n in (1, 2, 3)],
        "434.472",
        {"cold:new_content": 1792, "uncacheable:no_breakpoint": 1024, "uncacheable:partial_block": 60},
        {"profile": "deepseek"},
    ),
    # The end of the first answer, 12 blocks deep, is stored as well, and the next turn reads it: it goes on with the answer.
    # (1280 + 0.02 · 1536 + 128 + 20) · 0.15; without the answer a read would end at the 10 blocks of the first prompt.
    "DeepSeek stores the end of an answer": Story(
        [
            ask(0, tail=0, output_tokens=257, session_id="s", finished_at=30 * SECOND, **FLASH),
            ask(MINUTE, tuple(range(13)), session_id="s", **FLASH),
        ],
        "218.808",
        {"cold:new_content": 1408, "uncacheable:partial_block": 20},
        {"profile": "deepseek"},
    ),
    # Two service tiers share nothing with GPT from 5.6 on: 2 · 1620 · 2
    "service tiers share nothing": Story(
        [ask(0, service_tier="default", **SOL), ask(SECOND, service_tier="scale", **SOL)],
        "6480",
        {"cold:new_content": 1280, "misrouted:(all) default": 1280, **TAILS},
        {"profile": "openai"},
    ),
    # 17 in 51 s: 15 find room in one cache (1620 + 14 · 84), two spill to another (1620 + 84)
    "overflow": Story(
        [ask(3 * n * SECOND, **SOL) for n in range(17)],
        "9000",
        {"cold:new_content": 1280, "misrouted:(all)": 1280, "uncacheable:partial_block": 340},
        {"profile": "openai"},
    ),
    # The same where one cache takes any number: (1620 + 16 · 84) · 2
    "no overflow": Story(
        [ask(3 * n * SECOND, **SOL) for n in range(17)],
        "5928",
        {"cold:new_content": 1280, "uncacheable:partial_block": 340},
        {"profile": "openai", "overflow_rpm": 0},
    ),
    # What Gemini caches unasked: nothing written, a tenth read: (4116 + 0.1 · 4096 + 20) · 0.75
    "Gemini caches unasked": Story(
        [ask(0, tuple(range(32)), **GEMINI), ask(MINUTE, tuple(range(32)), **GEMINI)],
        "3409.2",
        {"cold:new_content": 4096, **TAILS},
        {"profile": "gemini-implicit"},
    ),
    # Kimi bills a written token like any other for 5 minutes: (1300 + 0.1 · 1280 + 20) · 3
    "Kimi stores blocks of 256": Story(
        [ask(0, **KIMI), ask(MINUTE, **KIMI)], "4344", TWICE, {"profile": "kimi"}
    ),
    # Written for an hour as the scenario says (2 · 1280 + 20), then read: 2728 · 3
    "Kimi keeps an hour": Story(
        [ask(0, **KIMI), ask(50 * MINUTE, **KIMI)], "8184", TWICE, {"profile": "kimi", "ttl": "1h"}
    ),
    # A minimum of 2,048 tokens that somebody has measured to be 1,280: 1768 · 5
    "a minimum that is told": Story(
        [ask(0, **OPUS), ask(MINUTE, **OPUS)], "8840", TWICE, {"minimum_tokens": 1280}
    ),
}


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
        found[miss["request_id"].partition("/")[0]].causes[named(miss)] += miss["tokens"]
    for lookup in pq.read_table(folder / "lookups.parquet").to_pylist():
        assert lookup["hit_tokens"] <= lookup["ideal_hit_tokens"]
        one = found[lookup["request_id"].partition("/")[0]]
        one.prompt_tokens += lookup["prompt_tokens"]
        one.hit_tokens += lookup["hit_tokens"]
    return found


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
    rows = [ask(0, output_tokens=100), ask(MINUTE, output_tokens=100)]
    (bill,), *_ = replayed(tmp_path, rows, None)
    assert (bill.output * 1_000_000, bill.actual * 1_000_000) == (Decimal(3000), Decimal(8304))
