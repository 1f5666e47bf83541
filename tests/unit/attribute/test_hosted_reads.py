"""When what a hosted cache stores can be read, and how much of it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from hosted_logs import GPT_4O, GPT_5_5, PRO, TWICE, ask, replayed
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


@pytest.mark.parametrize(("gap_us", "paid"), [(3 * SECOND, "1.25"), (7 * SECOND, "0.1")])
def test_an_entry_can_be_read_once_its_answer_has_ended(tmp_path: Path, gap_us: int, paid: str) -> None:
    """Qwen: the first token came after a second, the answer ended after 6: 1620 + 20 + 1280 times 1.25 or 0.1."""
    rows = [
        ask(
            at,
            first_token_at=at + SECOND,
            finished_at=at + 6 * SECOND,
            provider="dashscope",
            model="qwen3.7-max",
        )
        for at in (0, gap_us)
    ]
    rates = Rates(base=Decimal(1), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(0))
    (bill,), *_ = replayed(tmp_path, rows, {"profile": "qwen-explicit"}, pricing=Pricing(rates=rates))
    assert bill.input * 1_000_000 == 1640 + 1280 * Decimal(paid)


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
    rows = [ask(0, finished_at=20 * SECOND), ask(int(gap_s * SECOND), finished_at=60 * SECOND, **usage)]
    _, causes, lookups, _ = replayed(tmp_path, rows, {})
    assert causes.get("in_flight", 0) == (1280 if cause else 0)
    assert sum(row["unexplained_tokens"] or 0 for row in lookups) == unexplained


@pytest.mark.parametrize("block", [16, 128])
def test_an_older_gpt_reads_in_steps_of_128_tokens(tmp_path: Path, block: int) -> None:
    """Whatever the blocks of the log: of 1,520 tokens 1,408 are read, the rest is the beginning of a step, and explained."""
    usage = {"usage_state": "present", "cached_tokens_observed": 0}
    ids = list(range(1520 // block))
    rows = [
        {**ask(n * MINUTE, **GPT_4O, **usage), "ids": ids, "block_size": block, "prompt_tokens": 1520}
        for n in range(3)
    ]
    rows[1] |= {"cached_tokens_observed": 1408}
    rows[2] |= {"ids": [*ids[: 1200 // block], 10_000], "cached_tokens_observed": 1152, "prompt_tokens": 1280}
    _, causes, lookups, _ = replayed(tmp_path, rows, {"profile": "openai"})
    assert [row["hit_tokens"] for row in lookups] == [0, 1408, 1152]
    assert [row["unexplained_tokens"] for row in lookups] == [0, 0, 0]
    assert set(causes) <= {"cold:new_content", "uncacheable:partial_block"}


@pytest.mark.parametrize(
    ("reads", "hits"),
    [
        (
            (0, 3968, 3968, 1920),
            [0, 3968, 3968, 1920],
        ),  # nearly all end at 1,920 behind a multiple: hidden tokens
        ((0, 3968, 3328, 1920), [0, 4096, 4096, 2048]),  # at no place in particular
        ((0, 3968, 3968, 0), [0, 4096, 4096, 2048]),  # two are not enough to tell
    ],
)
def test_hidden_tokens_move_the_intervals_of_a_model(
    tmp_path: Path, reads: tuple[int, ...], hits: list[int]
) -> None:
    """GPT-5.5 counts its 2,048 tokens from what it puts in front of a prompt; where they end, its reads tell."""
    rows = [
        ask(
            n * MINUTE,
            tuple(range(40 if n < 3 else 24)),
            cached_tokens_observed=read,
            usage_state="present",
            **GPT_5_5,
        )
        for n, read in enumerate(reads)
    ]
    _, causes, lookups, summary = replayed(tmp_path, rows, {"profile": "openai"})
    assert [row["hit_tokens"] for row in lookups] == hits
    known = hits[1] == 3968
    assert any("every 2,048 behind" in note for note in summary.notes) == known
    assert (sum(row["unexplained_tokens"] for row in lookups) == 0) == known
    assert set(causes) <= {"cold:new_content", "uncacheable:partial_block"}
