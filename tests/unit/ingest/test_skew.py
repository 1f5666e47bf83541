"""Clocks of inputs that hold the same calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ingest_support import ingest, write_lines
from prefixledger.ingest.duplicates import NO_START
from prefixledger.ingest.skew import skew_note

if TYPE_CHECKING:
    from pathlib import Path

SECOND_US = 1_000_000


def _dynamo(number: int, at_ms: int) -> dict[str, Any]:
    start = 1_795_953_600_000 + at_ms
    request = {"request_id": f"r{number}", "request_received_ms": start, "input_tokens": 16 + number}
    event = {"schema": "dynamo.request.trace.v1", "event_type": "request_end"}
    return {**event, "event_time_unix_ms": start, "request": request}


def test_the_clock_of_a_second_log_of_the_same_calls_is_compared(tmp_path: Path) -> None:
    """The note gives the median, no time is corrected, and the workspace remembers starts from call to call."""
    one = write_lines(tmp_path / "pod.jsonl", [_dynamo(n, 1_000 * n) for n in range(8)])
    late = write_lines(tmp_path / "proxy.jsonl", [_dynamo(n, 1_000 * n + 4_200 + n) for n in range(3, 12)])
    ingest(tmp_path / "ws", one)
    result = ingest(tmp_path / "ws", late)
    (note,) = [note for note in result.account.notes if "clock" in note]
    assert note.startswith("its clock is about 4.21 s ahead of that of earlier inputs (median over 5 calls")
    assert (result.account.kept, result.account.duplicates) == (4, 5)
    assert result.requests[-1]["started_at"].timestamp() == 1_795_953_600 + 11 + 4.211
    same = write_lines(tmp_path / "copy.jsonl", [_dynamo(n, 1_000 * n) for n in range(7)])
    assert not [note for note in ingest(tmp_path / "ws", same).account.notes if "clock" in note]


def test_what_is_no_matter_of_clocks_is_not_called_so() -> None:
    """Too few calls, near starts, lags of all sizes and starts that are not known show nothing."""
    there = np.arange(6) * 10 * SECOND_US
    assert "2 s behind" in (skew_note(there - 2 * SECOND_US, there) or "")
    assert skew_note(there[:2] - 2 * SECOND_US, there[:2]) is None
    assert skew_note(there + 90_000, there) is None
    assert skew_note(there + there, there) is None
    assert skew_note(there + 2 * SECOND_US, np.full(6, NO_START)) is None
