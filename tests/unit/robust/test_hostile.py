"""Hostile records, logs and settings end in rows, rejects or an error of ours, whatever they hold."""

from __future__ import annotations

import random
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from fuzzing import (
    HOSTILE,
    NAMES,
    Found,
    context_of,
    mutated,
    read_one,
    recognise_one,
    records_of,
    whole_line,
)
from ingest_support import FIXTURES
from prefixledger.config.events import load_events
from prefixledger.config.mapping import load_mapping
from prefixledger.config.scenario import load_scenario
from prefixledger.errors import PrefixledgerError
from prefixledger.ingest.invoice import read_invoice
from prefixledger.ingest.overrides import load_aliases
from prefixledger.report.rules import rules
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVENTS = '[[event]]\nat = 2026-11-24T10:00:00Z\nkind = "restart"\nreplica = "r3"\nnote = "x"\n[[event]]\nat = 2026-11-24T11:00:00Z\nkind = "scale"\nreplicas = 3\n'
EVENT_ROWS = "at,kind,replica,note,replicas,force\n2026-11-24T10:00:00Z,scale,,x,4,\n"
EVENT_LINES = '{"at": "2026-11-24T10:00:00Z", "kind": "restart", "replica": "r1"}\n'
MODELS = '[models]\n"prod-*" = "gpt-4.1"\nclaude = "claude-sonnet-4"\n'
INVOICE = "date,model,input_tokens,cached_tokens,cost,currency\n2026-11-24,gpt-4.1,1000,50,0.5,USD\n"
SETTINGS: tuple[tuple[str, str, Callable[[Path], Any]], ...] = (
    ("s.toml", (ROOT / "sample_traces/full.scenario.toml").read_text(), load_scenario),
    ("s2.toml", 'name = "x"\n[cache]\nprofile = "vllm"\ncapacity = "60000 blocks"\nttl = "5m"\n[pricing]\nrates = {base=3.0, write=3.75, read=0.1, output=15.0}\n[[event]]\nat = "+90s"\nkind = "flush"\n', load_scenario),
    ("m.toml", (ROOT / "sample_traces/story.map.toml").read_text(), load_mapping),
    ("t.toml", (FIXTURES / "token_ids.map.toml").read_text(), load_mapping),
    ("e.toml", EVENTS, load_events),
    ("e.csv", EVENT_ROWS, load_events),
    ("e.jsonl", EVENT_LINES, load_events),
    ("models.toml", MODELS, load_aliases),
    ("i.csv", INVOICE, read_invoice),
)  # fmt: skip
"""Name, a good text, and what reads it."""


@pytest.mark.parametrize("name", NAMES)
def test_hostile_records_become_rows_rejects_or_skips(name: str) -> None:
    """None raises, none is lost, and none is of a shape that its reader did not foresee; benchmarks/fuzz.py gives more."""
    context, data = context_of(name)
    own, draw, found = records_of(context, data), random.Random(name), Found()
    for _ in range(60):
        read_one(mutated(draw.choice(own), own, draw), context, found)
    assert [text for _, text in found.faults] == []
    assert sum(found.kinds.values()) > 0


@pytest.mark.parametrize("name", NAMES)
def test_hostile_beginnings_keep_no_reader_from_looking(name: str) -> None:
    """Each reader says yes or no to what the first records hold."""
    context, data = context_of(name)
    own, draw, found = records_of(context, data), random.Random(name), Found()
    for _ in range(15):
        recognise_one([mutated(draw.choice(own), own, draw) for _ in range(4)], found)
    assert [text for _, text in found.faults] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_hostile_logs_reach_the_report_or_are_refused(name: str, tmp_path: Path) -> None:
    """Half of the lines are hostile: the books close over what is left of them."""
    found = Found()
    whole_line(name, tmp_path, 60, random.Random(name), found)
    assert [text for _, text in found.faults] == []


@pytest.mark.parametrize(("name", "text", "load"), SETTINGS, ids=[name for name, _, _ in SETTINGS])
def test_hostile_settings_are_refused(
    name: str, text: str, load: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Scenarios, maps, events, aliases and invoices: read, or refused with exit code 2 or 3."""
    path = tmp_path / name
    load(_written(path, text.encode()))
    draw, faults = random.Random(name), []
    for _ in range(150):
        hostile = _changed(text, draw)
        try:
            load(_written(path, hostile))
        except PrefixledgerError:
            continue
        except Exception:  # noqa: BLE001  # any kind is what is looked for
            faults.append(f"{hostile[:300]!r}\n{traceback.format_exc()}")
    assert faults == []


def test_hostile_rules_are_refused() -> None:
    """``--fail-on`` as well."""
    draw = random.Random(4)
    for _ in range(60):
        text = "".join(
            draw.choice(["hit", "_rate", ">", "<", "=", "1e999", "9" * 5_000, "%", " ", "\0", "nan", "-"])
            for _ in range(5)
        )
        try:
            rules((text,))
        except PrefixledgerError:
            continue


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _changed(text: str, draw: random.Random) -> bytes:
    """Return settings with a value, a line or some bytes changed."""
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    key, equals, _ = lines[at].partition("=")
    how = draw.randrange(4)
    if how == 0:
        return mutated(text.encode(), [text.encode()], draw)
    if how == 1 and equals:
        lines[at] = f"{key}= {_toml(draw.choice(HOSTILE))}"
    elif how == 2:
        lines[at] = f"{draw.choice(lines)}\n{lines[at]}"
    else:
        lines[at] = lines[at].replace(
            draw.choice(["a", "1", '"', "=", ","]),
            str(draw.choice(["", "[", "9" * 4_500, "\0", "-", "1e999", "{", '"'])),
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    if isinstance(value, int) and abs(value) > 10**300:
        return "9" * 4_500
    return "{}" if isinstance(value, dict) or value is None else str(value)
