"""Where relative clocks begin, and rows whose time does not belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import FIXTURES, ingest, mooncake, write_lines
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NOON_US = 1_795_953_600_000_000


def _logs(tmp_path: Path) -> list[Path]:
    return [
        write_lines(
            tmp_path / f"{name}_blksz_16.jsonl", [mooncake(at, [base, base + at]) for at in (0, 500, 2_000)]
        )
        for name, base in (("a", 10), ("b", 5_000), ("c", 9_000))
    ]


def _starts(rows: list[dict[str, Any]]) -> list[int]:
    return [round(row["started_at"].timestamp() * 1_000_000) for row in rows]


def test_a_relative_clock_begins_in_1970(tmp_path: Path) -> None:
    """Times are offsets from the epoch, and the account says that they are no dates."""
    result = ingest(tmp_path / "ws", _logs(tmp_path)[0])
    assert _starts(result.requests) == [0, 500_000, 2_000_000]
    assert result.account.clock == "relative"
    assert any("1970-01-01" in note for note in result.account.notes)


def test_t0_moves_relative_clocks(tmp_path: Path) -> None:
    """All relative inputs of the call begin there; absolute ones do not move."""
    a, b, _ = _logs(tmp_path)
    result = ingest(tmp_path / "ws", a, b, FIXTURES / "dynamo.jsonl", t0=NOON_US)
    assert _starts(result.requests)[:6] == [NOON_US, NOON_US + 500_000, NOON_US + 2_000_000] * 2
    assert result.requests[6]["started_at"].year == 2026
    assert [a.clock_zero_us for a in result.summary.inputs] == [NOON_US, NOON_US, 0]


def test_after_lets_inputs_follow_each_other(tmp_path: Path) -> None:
    """The first begins at the last request of the named input, each further one at the last of the one before."""
    a, b, c = _logs(tmp_path)
    ingest(tmp_path / "ws", a)
    result = ingest(tmp_path / "ws", b, c, after=str(a))
    assert _starts(result.requests)[3:] == [2_000_000, 2_500_000, 4_000_000, 4_000_000, 4_500_000, 6_000_000]


def test_after_an_unknown_input_names_the_known_ones(tmp_path: Path) -> None:
    """Exit code 2, with the inputs of the workspace."""
    a, b, _ = _logs(tmp_path)
    ingest(tmp_path / "ws", a)
    with pytest.raises(UsageError, match="no input of that name") as caught:
        ingest(tmp_path / "ws", b, after="z.jsonl")
    assert a.name in str(caught.value.hint)


def test_a_second_relative_input_asks_where_it_lies(tmp_path: Path) -> None:
    """Exit code 2; the first input of the call is complete in the workspace all the same."""
    a, b, _ = _logs(tmp_path)
    with pytest.raises(UsageError, match=a.name) as caught:
        ingest(tmp_path / "ws", a, b)
    assert str(caught.value.place) == str(b)
    result = ingest(tmp_path / "ws", b, after=str(a))
    assert len(result.requests) == 6


def test_an_absolute_input_never_asks(tmp_path: Path) -> None:
    """Relative and absolute inputs may stand side by side."""
    result = ingest(tmp_path / "ws", _logs(tmp_path)[0], FIXTURES / "dynamo.jsonl", FIXTURES / "sglang.jsonl")
    assert [account.clock for account in result.summary.inputs] == ["relative", "absolute", "absolute"]


def test_dates_in_a_relative_format_are_dates(tmp_path: Path) -> None:
    """A Mooncake file with unix milliseconds is absolute, and a stray offset in it is a reject."""
    rows = [mooncake(1_795_953_600_000 + at, [1, at]) for at in range(20)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "x_blksz_16.jsonl", [*rows, mooncake(7, [1])]))
    assert result.account.clock == "absolute"
    assert _starts(result.requests)[0] == NOON_US
    assert [row["reason"].partition(":")[0] for row in result.rejects] == ["mixed time units"]


def test_microseconds_survive(tmp_path: Path) -> None:
    """Fractions of a millisecond are not cut off."""
    rows = [mooncake(at, [1]) for at in (0.001, 0.002, 2.0036, 10.9999)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "x_blksz_16.jsonl", rows))
    assert _starts(result.requests) == [1, 2, 2_004, 11_000]


def test_choices_that_exclude_each_other_are_refused() -> None:
    """Exit code 2 before anything is read."""
    from prefixledger.ingest import IngestOptions

    for wrong in ({"t0": 1, "after": "a"}, {"block_size": 0}, {"jobs": 0}, {"max_rejects": "many"}):
        with pytest.raises(UsageError):
            IngestOptions(**wrong)  # type: ignore[arg-type]
