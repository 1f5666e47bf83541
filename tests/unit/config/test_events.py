"""Event files say the same in TOML, CSV and JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefixledger.config.events import load_events
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
[[event]]
at = 2026-11-24T12:00:00Z
kind = "scale"
replicas = 4
[[event]]
at = 2026-11-24T10:00:00Z
kind = "restart"
replica = "r3"
note = "OOM, again"
[[event]]
at = 2026-11-24T10:00:00Z
kind = "flush"
force = true
"""
CSV = """\ufeffat,kind,replica,note,replicas,force
2026-11-24T12:00:00Z,scale,,,4,
2026-11-24T11:00:00+01:00,restart,r3,"OOM, again",,
2026-11-24 10:00:00,flush,,,,true
"""
JSONL = """
{"at": "2026-11-24T12:00:00Z", "kind": "scale", "replicas": 4, "note": null}

{"at": "2026-11-24T10:00:00Z", "kind": "restart", "replica": "r3", "note": "OOM, again"}
{"at": "2026-11-24T10:00:00Z", "kind": "flush", "force": true}
"""


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_three_notations_give_the_same_events_in_order_of_time(tmp_path: Path) -> None:
    """Equal times keep the order of the file."""
    events = [
        load_events(_write(tmp_path, name, text))
        for name, text in (("e.toml", TOML), ("e.csv", CSV), ("e.jsonl", JSONL))
    ]
    assert events[0] == events[1] == events[2]
    assert [event.kind for event in events[0]] == ["restart", "flush", "scale"]
    assert events[0][0].note == "OOM, again"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("e.csv", "at,kind\n2026-11-24T10:00:00Z,restart\n2026-11-24T10:00:00Z,explode\n", "e.csv:3: kind"),
        ("e.csv", "at,kind\n2026-11-24T10:00:00Z,restart,x\n", "e.csv:2: this row has more fields"),
        ("e.csv", "at,kind,author\n2026-11-24T10:00:00Z,restart,me\n", "unknown key 'author'"),
        ("e.csv", "when,kind\n2026-11-24T10:00:00Z,restart\n", "unknown key 'when'"),
        ("e.jsonl", '{"at": "2026-11-24T10:00:00Z"}\n', "e.jsonl:1: kind is missing"),
        ("e.jsonl", '{"at": 1764000000, "kind": "restart"}\n', "not a time"),
        ("e.jsonl", "[1]\n", "must be a JSON object"),
        ("e.jsonl", '\n{"at": \n', "e.jsonl:2:8: it is not JSON"),
        ("e.toml", "[[event]]\nat = 1\nkind = 'restart'\n", "e.toml:2:1: event.at"),
        ("e.toml", "[[events]]\n", "did you mean 'event'?"),
        ("e.yaml", "", "endings that are read: .toml, .csv, .jsonl"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    """A bad event ends in exit code 2 with the file and the line."""
    with pytest.raises(UsageError) as caught:
        load_events(_write(tmp_path, name, text))
    assert said in str(caught.value)


def test_a_missing_event_file_is_a_usage_error(tmp_path: Path) -> None:
    """Nothing is replayed without the events that were asked for."""
    with pytest.raises(UsageError, match="cannot read it"):
        load_events(tmp_path / "e.csv")


@pytest.mark.parametrize(
    "row",
    [
        '{"at": "2026-11-24", "kind": "restart", "replicas": 3}',
        '{"at": "2026-11-24", "kind": "scale", "replicas": 3, "replica": "r1"}',
        '{"at": "2026-11-24", "kind": "restart", "namespace": "v2"}',
        '{"at": "2026-11-24", "kind": "restart", "force": true}',
    ],
)
def test_keys_of_another_kind_are_refused(tmp_path: Path, row: str) -> None:
    """A key that would be ignored is an error."""
    with pytest.raises(UsageError):
        load_events(_write(tmp_path, "e.jsonl", row))
