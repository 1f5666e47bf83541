"""When what a hosted cache stores can be read, and how much of it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from hosted_logs import GPT_4O, PRO, TWICE, ask, replayed
from prefixledger.config.scenario import Pricing, Rates
from prefixledger.errors import UsageError
from prefixledger.workspace import Workspace
from stage_support import MINUTE, SECOND

if TYPE_CHECKING:
    from pathlib import Path


def test_an_hour_that_the_service_wrote_for_is_known(tmp_path: Path) -> None:
    """No marks in the log, but the answer says that it wrote for an hour: 20 minutes later it is read, not expired."""
    rows = [ask(0, cache_write_1h_tokens_observed=1280, cache_write_5m_tokens_observed=0), ask(20 * MINUTE)]
    (bill,), causes, *_ = replayed(tmp_path, rows, {})
    assert (bill.input * 1_000_000, causes) == (Decimal(8184), TWICE)


def test_a_cached_content_ends_whoever_reads_it(tmp_path: Path) -> None:
    """Created at 0, read at 50 minutes, gone at 70: reads do not make it live longer, and rent is paid to the end of each hour.

    (2068 + 0.1 · 2048 + 20 + 2068) · 1.25, and 2 · 2048 tokens for an hour at 4.5
    """
    rows = [ask(at * MINUTE, tuple(range(16)), **PRO) for at in (0, 50, 70)]
    cache = {"profile": "gemini-explicit", "marks": (2048,)}
    (bill,), causes, *_ = replayed(tmp_path, rows, cache)
    assert bill.input * 1_000_000 == Decimal(5451) + 2 * 2048 * Decimal("4.5")
    assert causes == {"cold:new_content": 2048, "expired:4200 s": 2048, "uncacheable:partial_block": 60}
    facts = pq.read_table(Workspace(tmp_path).replay("as-is") / "lookup_facts.parquet")
    assert facts["storage_token_s"].to_pylist() == [2048 * 3600, 0, 2048 * 3600]


def test_a_cached_content_needs_a_length(tmp_path: Path) -> None:
    """Nobody can say what would have been created."""
    with pytest.raises(UsageError, match="how long it is"):
        replayed(tmp_path, [ask(0, **PRO)], {"profile": "gemini-explicit"})


def test_an_entry_can_be_read_once_its_answer_has_ended(tmp_path: Path) -> None:
    """Qwen: the first token came after a second, the answer ended after 6: 1620 + 20 + 1280 times 1.25 after 3 s, 0.1 after 7."""
    rows = [
        ask(
            at, first_token_at=at + SECOND, finished_at=at + 6 * SECOND, provider="dashscope", model="qwen3.7-max",
            namespace=str(gap_us),
        )
        for gap_us in (3 * SECOND, 7 * SECOND)
        for at in (0, gap_us)
    ]  # fmt: skip
    rows.sort(key=lambda row: row["at_us"])
    rates = Rates(base=Decimal(1), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(0))
    (bill,), _, lookups, _ = replayed(
        tmp_path, rows, {"profile": "qwen-explicit"}, pricing=Pricing(rates=rates)
    )
    assert [row["hit_tokens"] for row in lookups] == [0, 0, 0, 1280]
    assert bill.input * 1_000_000 == 2 * 1640 + 1280 * (Decimal("1.25") + Decimal("0.1"))


OVERLAPS = {
    # It wrote what the first was about to store: the first had not begun to answer.
    "wrote it again": (4.0, 0, 1280, 1280, 0),
    # It read it, so the first had begun, however early.
    "read it": (0.01, 1280, 0, 0, 0),
    # Nobody says what was read: as estimated, readable after 65 ms.
    "says nothing": (4.0, None, None, 0, 0),
    # Neither read nor written: no mark was seen, which proves nothing.
    "neither": (4.0, 0, 0, 0, 1280),
    # The first had ended; or an answer went on for longer than any first token takes.
    "behind the end": (21.0, 0, 1280, 0, 1280),
    "late": (12.0, 0, 1280, 0, 1280),
}
"""By name: seconds between two starts, tokens that the second read and wrote, its tokens in flight, those unexplained."""


def test_usage_shows_that_a_first_answer_had_not_begun(tmp_path: Path) -> None:
    """Only starts and ends are logged: between them, whoever asks for the same shows by its usage whether it was there."""
    rows = []
    for name, (gap_s, read, wrote, *_) in OVERLAPS.items():
        state = "absent" if read is None else "present"
        usage = {
            "cached_tokens_observed": read,
            "cache_write_5m_tokens_observed": wrote,
            "usage_state": state,
        }
        rows.append(ask(0, finished_at=20 * SECOND, namespace=name, request_id=f"{name} 1"))
        second = ask(int(gap_s * SECOND), finished_at=60 * SECOND, namespace=name, request_id=f"{name} 2")
        rows.append({**second, **usage})
    rows.sort(key=lambda row: row["at_us"])
    _, _, lookups, _ = replayed(tmp_path, rows, {})
    found = {row["request_id"]: row for row in lookups}
    for name, (*_, in_flight, unexplained) in OVERLAPS.items():
        one = found[f"{name} 2"]
        assert (one["miss_in_flight_tokens"], one["unexplained_tokens"] or 0) == (in_flight, unexplained), (
            name
        )


def test_what_was_read_from_an_earlier_copy_tells_nothing_of_one_that_is_stored_only_here(
    tmp_path: Path,
) -> None:
    """Logged under an hour and replayed under five minutes, whoever asks 20 ms after the second write finds nothing yet."""
    usage = {"cached_tokens_observed": 1280, "cache_write_5m_tokens_observed": 0, "usage_state": "present"}
    starts = (0, 10 * MINUTE, 10 * MINUTE + SECOND // 50)
    rows = [ask(at, finished_at=at + 20 * SECOND, **(usage if at else {})) for at in starts]
    _, _, lookups, _ = replayed(tmp_path, rows, {})
    assert [row["miss_in_flight_tokens"] for row in lookups] == [0, 0, 1280]
    assert [row["miss_expired_tokens"] for row in lookups] == [0, 1280, 0]


def test_an_older_gpt_reads_in_steps_of_128_tokens(tmp_path: Path) -> None:
    """Whatever the blocks of the log: of 1,520 tokens 1,408 are read, the rest is the beginning of a step, and explained."""
    ids, usage = tuple(range(95)), {"usage_state": "present", "block_size": 16}
    shared = (*ids[:75], 10_000)
    prompts = ((ids, 0, 1520), (ids, 1408, 1520), (shared, 1152, 1280))
    rows = [
        {**ask(n * MINUTE, ids, cached_tokens_observed=read, **GPT_4O, **usage), "prompt_tokens": tokens}
        for n, (ids, read, tokens) in enumerate(prompts)
    ]
    _, causes, lookups, _ = replayed(tmp_path, rows, {"profile": "openai"})
    assert [row["hit_tokens"] for row in lookups] == [0, 1408, 1152]
    assert [row["unexplained_tokens"] for row in lookups] == [0, 0, 0]
    assert set(causes) <= {"cold:new_content", "uncacheable:partial_block"}


INTERVALS = {
    "gpt-5.5": (
        (0, 3968, 3968, 1920),
        [0, 3968, 3968, 1920],
    ),  # all end 1,920 behind a multiple: hidden tokens
    "gpt-5.5-pro": ((0, 3968, 3328, 1920), [0, 4096, 4096, 2048]),  # at no place in particular
    "gpt-5.5-mini": ((0, 3968, 3968, 0), [0, 4096, 4096, 2048]),  # two are not enough to tell
}
"""By model: tokens that four prompts read, and what they hit in the replay."""


def test_hidden_tokens_move_the_intervals_of_a_model(tmp_path: Path) -> None:
    """GPT-5.5 counts its 2,048 tokens from what it puts in front of a prompt; where they end, its reads tell."""
    rows = [
        ask(
            n * MINUTE + at, tuple(range(40 if n < 3 else 24)), provider="openai", model=model, namespace=model,
            request_id=f"{n} {model}", cached_tokens_observed=reads[n], usage_state="present",
        )
        for n in range(4)
        for at, (model, (reads, _)) in enumerate(INTERVALS.items())
    ]  # fmt: skip
    rates = Rates(base=Decimal(1), write=Decimal(1), read=Decimal("0.1"), output=Decimal(0))
    _, causes, lookups, summary = replayed(
        tmp_path, rows, {"profile": "openai"}, pricing=Pricing(rates=rates)
    )
    hits = {row["request_id"]: row["hit_tokens"] for row in lookups}
    for model, (_, expected) in INTERVALS.items():
        assert [hits[f"{n} {model}"] for n in range(4)] == expected
    assert sum("every 2,048 behind" in note for note in summary.notes) == 1
    assert sum(row["unexplained_tokens"] for row in lookups if row["request_id"].endswith("gpt-5.5")) == 0
    assert set(causes) <= {"cold:new_content", "uncacheable:partial_block"}
