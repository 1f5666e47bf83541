"""Logs of usage alone: conversations are found again, and a miss is blamed only on what usage and time prove."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.attribute.inputs import with_pools
from prefixledger.attribute.session import Session
from prefixledger.attribute.turns import turns
from prefixledger.config.scenario import default_scenario
from prefixledger.schema import LOOKUP_FACTS
from stage_support import MINUTE, SECOND, request_table

OPUS = {"provider": "anthropic", "model": "claude-opus-5-5"}  # stores from 512 tokens on
HOUR = 60 * MINUTE


def ask(at_us: int, prompt: int, read: int, write: int, *, hour: int = 0, **columns: Any) -> dict[str, Any]:
    """Return a row of Claude with usage and no keys; ``write`` lives 5 minutes, ``hour`` an hour."""
    return {
        "at_us": at_us, "prompt_tokens": prompt, "cached_tokens_observed": read, "cache_write_5m_tokens_observed": write,
        "cache_write_1h_tokens_observed": hour, "usage_state": "present", "keyed": False, "session_id": "s", **OPUS, **columns,
    }  # fmt: skip


def chat(at_us: int, prompt: int, read: int, **columns: Any) -> dict[str, Any]:
    """Return a row of a service that counts no writes, and whose entries live as long as they like."""
    free = {"cache_write_5m_tokens_observed": None, "cache_write_1h_tokens_observed": None}
    return {**ask(at_us, prompt, read, 0), "provider": "openai", "model": "gpt-5.4", **free, **columns}


def causes(rows: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Return the missed tokens of each row by ``cause:detail``, window_start as new_content."""
    rows = sorted(rows, key=lambda row: row["at_us"])
    scenario = default_scenario()
    requests = with_pools(request_table(rows), scenario)
    nobody = LOOKUP_FACTS.arrow().empty_table()
    found: list[Counter[str]] = [Counter() for _ in rows]
    with Session() as session:
        session.bind(
            {"requests": requests, "lookup_facts": nobody, "turns": turns(requests, nobody, scenario)}
        )
        session.run(["20_causes/unmeasured", "20_causes/observed_spans"])
        for span in session.table("observed_spans").to_pylist():
            if not span["hit"]:
                name = ":".join(filter(None, (span["cause"], span["detail"])))
                found[span["request_row"]][name.replace("window_start", "new_content")] += span["tokens"]
    return [dict(each) for each in found]


@pytest.mark.parametrize(
    ("gap_us", "lost"),
    [(5 * MINUTE, "unexplained"), (5 * MINUTE + 1, "expired")],
    ids=["at the TTL", "past it"],
)
def test_a_gap_proves_expiry_only_beyond_the_lifetime(gap_us: int, lost: str) -> None:
    """The clock runs from start to start; what the next prompt adds is new, and what follows the mark is not stored."""
    rows = [ask(0, 30_000, 0, 29_990), ask(gap_us, 31_000, 0, 30_990)]
    first, second = causes(rows)
    assert first == {"cold:new_content": 29_990, "uncacheable:no_breakpoint": 10}
    assert second == {lost: 29_990, "cold:new_content": 990, "uncacheable:no_breakpoint": 20}


def test_reads_refresh_and_an_hour_is_an_hour() -> None:
    """Twenty minutes after a write for an hour it is read; in the month of 5-minute writes the same gap expires."""
    february = [
        ask(n * 20 * MINUTE, 30_000 + n, 30_000 if n else 0, 0, hour=0 if n else 30_000) for n in range(4)
    ]
    assert causes(february)[1:] == [{"uncacheable:no_breakpoint": n} for n in (1, 2, 3)]
    march = [ask(n * 20 * MINUTE, 30_000, 0, 30_000) for n in range(2)]
    assert causes(march)[1] == {"expired": 30_000}


def test_of_two_lifetimes_the_shorter_is_over() -> None:
    """A head for an hour and a tail for 5 minutes: after 20 minutes the head is read, and only the tail has expired."""
    rows = [ask(0, 50_000, 0, 30_000, hour=20_000), ask(20 * MINUTE, 50_000, 20_000, 30_000)]
    assert causes(rows)[1] == {"expired": 30_000}
    # Had the head been lost as well, its lifetime was not over: then something else broke, and nothing is proven.
    assert causes([rows[0], ask(20 * MINUTE, 50_000, 0, 50_000)])[1] == {"unexplained": 50_000}


def test_interleaved_conversations_are_told_apart() -> None:
    """A subagent under the same session id: the naive rule sees a break at every change of speaker, and there is none."""
    rows, main, sub = [], 0, 0
    for n in range(6):
        rows.append(ask(2 * n * SECOND, 80_000 + 1000 * n, main, 80_000 + 1000 * n - main))
        main = 80_000 + 1000 * n
        if n in (1, 2, 3):
            rows.append(ask((2 * n + 1) * SECOND, 9_000 + 500 * n, sub, 9_000 + 500 * n - sub))
            sub = 9_000 + 500 * n
    naive = sum(
        after["cached_tokens_observed"]
        < before["cached_tokens_observed"] + before["cache_write_5m_tokens_observed"]
        for before, after in pairwise(rows)
    )
    assert naive >= 3
    assert {cause for row in causes(rows) for cause in row} == {"cold:new_content"}


def test_a_shrunken_prompt_is_no_beginning() -> None:
    """A history that was summed up: the conversation it came from never goes on, so nothing is proven of the new one."""
    rows = [ask(0, 90_000, 0, 90_000), ask(SECOND, 91_000, 90_000, 1_000), ask(MINUTE, 20_000, 0, 20_000)]
    assert causes(rows)[2] == {"unexplained": 20_000}


def test_small_drifts_are_no_breaks() -> None:
    """Counts of one prefix may differ by 1 %: what is missing is not called expired, also after an hour."""
    rows = [ask(0, 30_000, 0, 30_000), ask(HOUR, 30_500, 29_900, 600)]
    assert causes(rows)[1] == {"unexplained": 100, "cold:new_content": 500}


def test_below_the_minimum_nothing_is_stored() -> None:
    """Neither read nor written, and shorter than the model stores; at the minimum that is no explanation."""
    assert causes([ask(n * SECOND, 511, 0, 0) for n in range(2)]) == [{"uncacheable:below_minimum": 511}] * 2
    assert causes([ask(n * SECOND, 512, 0, 0) for n in range(2)])[1] == {"unexplained": 512}


@pytest.mark.parametrize("gap_us", [4 * SECOND, 8 * MINUTE, 3 * HOUR])
def test_a_gap_is_no_proof_where_no_lifetime_is_known(gap_us: int) -> None:
    """A rebuild after seconds, minutes or hours: what the turn before had stored is missing, and nobody knows why."""
    rows = [chat(0, 30_000, 0), chat(SECOND, 31_000, 29_952), chat(SECOND + gap_us, 32_000, 0)]
    assert causes(rows)[2] == {"unexplained": 31_000, "cold:new_content": 1_000}


def test_an_erratic_service_is_not_explained() -> None:
    """The same prompt is cached or not at random, and no lifetime is promised: gaps are no proof."""
    reads = (0, 0, 1024, 0, 1024)
    rows = [chat(n * HOUR, 1500, read) for n, read in enumerate(reads)]
    assert causes(rows)[1] == {"unexplained": 1500}
    assert causes(rows)[2] == {"unexplained": 476}


def test_reads_in_steps_are_no_breaks() -> None:
    """A service that counts no writes reports reads in steps of 128 tokens: the rest is a partial block."""
    rows = [chat(0, 1500, 0), chat(SECOND, 1700, 1408)]
    assert causes(rows)[1] == {"uncacheable:partial_block": 92, "cold:new_content": 200}


def test_without_sessions_growth_alone_proves_nothing() -> None:
    """One-off calls of one caller, each a little longer than the last, ten minutes apart: none is called expired."""
    rows = [ask(n * 10 * MINUTE, 8_000 + 100 * n, 0, 8_000 + 100 * n, session_id=None) for n in range(5)]
    assert causes(rows)[0] == {"cold:new_content": 8_000}
    assert all(set(row) == {"unexplained"} for row in causes(rows)[1:])


def test_without_sessions_a_conversation_that_reads_itself_is_one() -> None:
    """Two turns read what the ones before stored, so the third that has grown and reads nothing is its next one."""
    rows = [
        ask(0, 8_000, 0, 8_000, session_id=None),
        ask(MINUTE, 9_000, 8_000, 1_000, session_id=None),
        ask(30 * MINUTE, 10_000, 0, 10_000, session_id=None),
    ]
    assert causes(rows)[2] == {"expired": 9_000, "cold:new_content": 1_000}


def test_a_call_without_usage_may_have_kept_it_alive() -> None:
    """Nothing is known of the call in between, which may have refreshed the entry: its gap counts from there."""
    unknown = {"at_us": 4 * MINUTE, "usage_state": "absent", "keyed": False, "session_id": "s", **OPUS}
    rows = [ask(0, 30_000, 0, 30_000), unknown, ask(8 * MINUTE, 30_000, 0, 30_000)]
    assert causes(rows)[2] == {"unexplained": 30_000}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 900), st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 400),
            st.sampled_from(["s", "t", None]), st.booleans(),
        ),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_every_token_has_one_cause(drawn: list[tuple[int, int, int, int, int, str | None, bool]]) -> None:
    """Whatever usage says, a prompt is its read and its stretches, and the written tokens are those of the log."""
    rows = [
        {**(ask(at * SECOND, r + w + h + u, r, w, hour=h) if counted else chat(at * SECOND, r + w + h + u, r)), "session_id": who}
        for at, r, w, h, u, who, counted in drawn
    ]  # fmt: skip
    rows.sort(key=lambda row: row["at_us"])
    for row, missed in zip(rows, causes(rows), strict=True):
        assert sum(missed.values()) == row["prompt_tokens"] - row["cached_tokens_observed"]
        assert min(missed.values(), default=1) > 0


def test_facts_have_their_schema() -> None:
    """A log in which every row is replayed costs nothing."""
    requests = with_pools(request_table([ask(0, 10, 0, 10)]), default_scenario())
    everybody = pa.table({"request_row": [0]})
    assert turns(requests, everybody, default_scenario()).num_rows == 0
