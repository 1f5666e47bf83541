"""Up to where prompts of a hosted log are stored, and for how long, by their marks."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from hosted_logs import SOL, TAILS, TWICE, ask, parts_of, replayed
from prefixledger import attribute
from prefixledger.config.scenario import Pricing, Rates
from prefixledger.workspace import Workspace
from stage_support import MINUTE, SECOND

if TYPE_CHECKING:
    from pathlib import Path


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
    rows = [ask(0, tuple(range(15)), 0), ask(MINUTE, tuple(range(last)), 0)]
    parts = parts_of(1, list(range(1, 16)), {14}) + parts_of(2, list(range(1, last + 1)), {last - 1})
    (bill,), found, *_ = replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(input_)
    assert found == causes


def test_a_second_mark_opens_a_second_window(tmp_path: Path) -> None:
    """With a mark near the old entry the prompt of 35 positions reads it: 2400 + 192 + 1.25 · 2560 = 5792."""
    rows = [ask(0, tuple(range(15)), 0), ask(MINUTE, tuple(range(35)), 0)]
    parts = parts_of(1, list(range(1, 16)), {14}) + parts_of(2, list(range(1, 36)), {16, 34})
    (bill,), *_ = replayed(tmp_path, rows, {}, parts)
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
            rows.append(ask((10 * session + turn) * 20 * SECOND, (*head, *own), 0, session_id=f"s{session}"))
            ends = [8, *range(10, 10 + 2 * turn + 1, 2)]
            last = len(ends) - 1
            marked["before"] += parts_of(len(rows), ends, {last})
            marked["after"] += parts_of(len(rows), ends, {0} if turn % 2 else {0, last})
    found = {}
    for name, parts in marked.items():
        (bill,), causes, lookups, _ = replayed(tmp_path / name, rows, {}, parts)
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
    rows = [ask(n * MINUTE, tuple(range(12))) for n in range(2)]
    parts = [part for line in (1, 2) for part in parts_of(line, [10, 12], {0})]
    (bill,), causes, lookups, summary = replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(6840)
    assert causes == {"cold:new_content": 1280, "uncacheable:no_breakpoint": 552}
    assert [row["written_tokens"] for row in lookups] == [1280, 0]
    assert any("cache marks are as sent" in note for note in summary.notes)


def test_a_prompt_without_marks_is_not_cached(tmp_path: Path) -> None:
    """Claude stores nothing that is not marked (2 · 1300 · 3); GPT marks the end by itself (1704 · 2)."""
    parts = [part for line in (1, 2) for part in parts_of(line, [10], set())]
    (bill,), causes, *_ = replayed(tmp_path / "claude", [ask(0), ask(MINUTE)], {}, parts)
    assert (bill.input * 1_000_000, causes) == (Decimal(7800), {"uncacheable:no_breakpoint": 2600})
    rows = [ask(0, **SOL), ask(MINUTE, **SOL)]
    (bill,), causes, *_ = replayed(tmp_path / "gpt", rows, {"profile": "openai"}, parts)
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
        ask(
            n * MINUTE,
            usage_state="present",
            cached_tokens_observed=1280 if n else 0,
            cache_write_5m_tokens_observed=wrote,
        )
        for n in range(3)
    ]
    parts = [part for line in (1, 2, 3) for part in parts_of(line, [10], set())]
    (bill,), found, _, summary = replayed(tmp_path, rows, {}, parts)
    assert (bill.input * 1_000_000, found) == (Decimal(input_), causes)
    assert any("shows no cache marks of" in note for note in summary.notes)


_MIXED = [parts_of(line, [8, 12], {0: "ephemeral/1h", 1: "ephemeral/5m"}) for line in (1, 2)]


def test_mixed_lifetimes_pay_and_live_by_mark(tmp_path: Path) -> None:
    """8 blocks for an hour, 4 behind them for 5 minutes: after 10 minutes the head is read and the rest written again.

    (2 · 1024 + 1.25 · 512 + 20) + (0.1 · 1024 + 1.25 · 512 + 20) = 3470.4
    """
    rows = [ask(n * 10 * MINUTE, tuple(range(12))) for n in range(2)]
    (bill,), causes, _, summary = replayed(tmp_path, rows, {}, [part for line in _MIXED for part in line])
    assert bill.input * 1_000_000 == Decimal("10411.2")
    assert causes == {"cold:new_content": 1536, "expired:600 s": 512, **TAILS}
    assert any("each is replayed with its own" in note for note in summary.notes)


def test_a_chosen_lifetime_is_that_of_all_marks(tmp_path: Path) -> None:
    """All for 5 minutes: both are written twice (2 · 1940); all for an hour: 3092 + 153.6 + 20 = 3265.6."""
    rows = [ask(n * 10 * MINUTE, tuple(range(12))) for n in range(2)]
    parts = [part for line in _MIXED for part in line]
    for ttl, paid in (("5m", "11640"), ("1h", "9796.8")):
        (bill,), *_ = replayed(tmp_path / ttl, rows, {"ttl": ttl}, parts)
        assert bill.input * 1_000_000 == Decimal(paid)


def test_shared_heads_pay_for_the_longer_life(tmp_path: Path) -> None:
    """What the prefixes of a report pay is what the bill says: the head at the price of an hour, the tails at that of 5 minutes.

    (2 · 1024 + 1.25 · 512 + 20) + (0.1 · 1024 + 1.25 · 512 + 20) = 3470.4, of which the head is 2048 + 102.4.
    """
    rows = [ask(n * MINUTE, (*range(8), *range(100 * n + 100, 100 * n + 104))) for n in range(2)]
    parts = [part for line in _MIXED for part in line]
    (bill,), *_ = replayed(tmp_path, rows, {}, parts)
    marts = attribute.marts(
        Workspace(tmp_path), "as-is", attribute.Window(rows[0]["at_us"], rows[1]["at_us"] + 1)
    )
    excess = {row["depth_tokens"]: row["excess_cost"] for row in marts.prefixes.to_pylist()}
    assert bill.input * 1_000_000 == Decimal("10411.2")
    # Above the price of reads: 3 · 1024 · (2 - 0.1)
    assert excess[1024] * 1_000_000 == Decimal("5836.8")


def test_look_back_counts_content_blocks(tmp_path: Path) -> None:
    """Messages of 7 content blocks: an entry at block 7 is out of reach of a mark 21 blocks later, 3 messages behind it.

    Written twice: 1.25 · (1024 + 1408) · 3
    """
    rows = [ask(0, tuple(range(8)), 0), ask(MINUTE, tuple(range(11)), 0)]
    parts = parts_of(1, [8], {0}, 7) + parts_of(2, [8, 9, 10, 11], {3}, 7)
    (bill,), causes, *_ = replayed(tmp_path, rows, {}, parts)
    assert bill.input * 1_000_000 == Decimal(9120)
    assert causes == {"cold:new_content": 1408, "uncacheable:out_of_reach": 1024}


@pytest.mark.parametrize(("model", "third"), [("qwen4-max", "0.1"), ("qwen3.7-max", "1.25")])
def test_a_read_may_give_the_lifetime_that_it_asks_for(tmp_path: Path, model: str, third: str) -> None:
    """Written for 5 minutes, read with a mark for an hour, asked again 40 minutes later: Qwen4 has it, Qwen3 does not."""
    rows = [ask(at * MINUTE, provider="dashscope", model=model) for at in (0, 4, 44)]
    parts = [
        part
        for line, word in ((1, "ephemeral/5m"), (2, "ephemeral/1h"), (3, "ephemeral/5m"))
        for part in parts_of(line, [10], {0: word})
    ]
    rates = Rates(base=Decimal(1), write=Decimal("1.25"), read=Decimal("0.1"), output=Decimal(0))
    (bill,), *_ = replayed(tmp_path, rows, {"profile": "qwen-explicit"}, parts, pricing=Pricing(rates=rates))
    assert bill.input * 1_000_000 == 1280 * (Decimal("1.25") + Decimal("0.1") + Decimal(third)) + 60
