"""Logs that are not in order of time."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingest_support import ingest, mooncake, plain_rows, write_lines
from prefixledger.ingest.record_order import disorder, order_note
from prefixledger.ingest.record_order_kernel import longest_ascent
from twins.longest_ascent import longest

if TYPE_CHECKING:
    from pathlib import Path

SECOND_US = 1_000_000


def _us(*seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return (np.array(seconds) * SECOND_US).astype(np.int64)


def test_ten_lines_two_swapped_and_one_far_away() -> None:
    """One of two swapped lines and the one that lies two hours off are out of order, as many as must move."""
    found = disorder(_us(0, 10, 13, 10.5, 20, 7_230, 30, 40, 50, 60))
    assert (found.records, found.moved, found.farthest_us) == (10, 2, 7_200 * SECOND_US)
    assert order_note(_us(0, 10, 13, 10.5, 20, 7_230, 30, 40, 50, 60), None) == (
        "2 of 10 records stand out of order, the farthest by 2 h: read in order of time"
    )


def test_backwards_and_shuffled_logs_are_called_so() -> None:
    """A log whose latest record comes first, and one without any order."""
    assert "runs backwards" in (order_note(_us(9, 8, 8, 5, 2), None) or "")
    mixed = np.random.default_rng(5).permutation(1_000) * SECOND_US
    assert (order_note(mixed, None) or "").startswith("the log is shuffled: 9")


def test_a_log_written_at_the_end_of_calls_is_in_order() -> None:
    """Overlapping calls start out of order, and nothing is said where they end in order; else the lesser disorder is."""
    starts, ends = _us(5, 1, 6), _us(7, 8, 9)
    assert order_note(starts, ends) is None
    assert (order_note(starts, ends[::-1]) or "").startswith("1 of 3 records")


@given(st.lists(st.integers(0, 9), max_size=7))
def test_as_few_are_moved_as_can_be(times: list[int]) -> None:
    """Those that stay never go back in time, and no larger set of records does (the twin tries every one)."""
    array = np.array(times, np.int64)
    stays = longest_ascent(array)
    assert (np.diff(array[stays]) >= 0).all()
    assert int(stays.sum()) == longest(times)
    found = disorder(array)
    assert found.moved == len(times) - longest(times)
    assert 0 <= found.farthest_us <= (max(times) - min(times) if times else 0)


def test_any_order_gives_the_same_rows_and_the_account_says_so(tmp_path: Path) -> None:
    """What is read is the same in every order of the lines; only the note tells them apart."""
    rows = [mooncake(at, [1, at]) for at in (0, 1_000, 2_000)]
    told = set()
    for number, order in enumerate(permutations(rows)):
        result = ingest(tmp_path / str(number), write_lines(tmp_path / f"{number}_blksz_16.jsonl", order))
        (note,) = [n for n in result.account.notes if "order" in n] or [None]
        told.add(note)
        by_time = sorted(result.requests, key=lambda row: row["started_at"])
        assert [row["started_at"].timestamp() for row in by_time] == [0.0, 1.0, 2.0]
    assert None in told
    assert any("1 of 3" in (note or "") for note in told)
    assert any("runs backwards" in (note or "") for note in told)


def test_many_inputs_out_of_order_are_told_in_one_sentence(tmp_path: Path) -> None:
    """Numbers that differ from input to input do not break up what is said of inputs that are alike."""
    for number in range(4):
        rows = [
            mooncake(1_795_953_600_000 + at, [100 + number, at]) for at in (0, 3_000, 1_000 + number, 9_000)
        ]
        write_lines(tmp_path / "logs" / f"{number}_blksz_16.jsonl", rows if number else sorted(rows, key=str))
    messages = ingest(tmp_path / "ws", tmp_path / "logs").summary.messages
    (told,) = [message for message in messages if "out of order" in message]
    assert "3 of them hold records out of order" in told
    assert told.startswith("4 inputs from ")


def test_a_sampled_log_is_marked(tmp_path: Path) -> None:
    """Rows that stand for several requests are counted in the notes of their input."""
    rows = [mooncake(at, [at], weight=10 if at else 1) for at in range(4)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "x_blksz_16.jsonl", rows))
    assert any(note.startswith("3 of 4 requests stand for a sample") for note in result.account.notes)
    assert [row["weight"] for row in plain_rows(result)] == [1.0, 10.0, 10.0, 10.0]
