"""Sessions whose turns lie in two inputs tell when one of their clocks is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prefixledger.replay import run
from prefixledger.replay.session_clocks import clock_notes
from stage_support import SECOND, make_log, write_workspace

if TYPE_CHECKING:
    from pathlib import Path


def _sessions(behind_s: int, sessions: int = 4) -> list[dict[str, Any]]:
    """Six turns each, 10 s apart, in turn in the logs a and b; the clock of b is behind."""
    return [
        {
            "at_us": (1_000 + 7 * session + 10 * turn - behind_s * (turn % 2)) * SECOND,
            "ids": [1, *range(100 * session + 10, 100 * session + 11 + 2 * turn)],
            "session_id": f"s{session}",
            "source": "ab"[turn % 2],
        }
        for session in range(sessions)
        for turn in range(6)
    ]


def test_a_clock_that_is_behind_is_found(tmp_path: Path) -> None:
    """Turns in b start 90 s before those that they carry on: b is behind by that and the time between two turns."""
    (note,) = [one for one in run(write_workspace(tmp_path, _sessions(100))).notes if "clock" in one]
    assert note.startswith("the clock of b.jsonl is behind that of a.jsonl by 90 s or more: 12 turns")


@pytest.mark.parametrize(
    "change",
    [
        {"behind_s": 0},
        {"behind_s": 9},  # hidden by the time that passes between turns
        {"behind_s": 100, "sessions": 2},
    ],
)
def test_what_shows_no_skew_is_not_called_so(change: dict[str, int], tmp_path: Path) -> None:
    """Clocks that agree, a skew below the time between turns, and too few sessions."""
    assert not [one for one in run(write_workspace(tmp_path, _sessions(**change))).notes if "clock" in one]


def test_prompts_that_do_not_carry_on_say_nothing(tmp_path: Path) -> None:
    """A longer prompt under the same session is another conversation unless it begins with all of the shorter one."""
    rows = [{**row, "ids": [500 + number, *row["ids"]]} for number, row in enumerate(_sessions(100))]
    assert not [one for one in run(write_workspace(tmp_path, rows)).notes if "clock" in one]
    one_source = sorted(({**row, "source": "s"} for row in _sessions(100)), key=lambda row: row["at_us"])
    assert not list(clock_notes(make_log(one_source)))
