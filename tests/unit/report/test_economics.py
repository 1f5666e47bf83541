"""What the bill stands on: break-even, effective tokens, and the hours of prefill behind it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from ingest_support import write_lines
from prefixledger import attribute, index, ingest, replay
from prefixledger.attribute.window import Window
from prefixledger.config.scenario import parse_scenario
from prefixledger.report import stage as report
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from prefixledger.resources import read_text
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.report.view import ReportView

MINUTE = 60_000_000


def _view(root: Path, pricing: str) -> ReportView:
    """Two requests of ten full blocks of 100 tokens and a tail of one: the first misses all, the second its tail."""
    rows = [
        {"timestamp": 60_000 * n, "input_length": 1_001, "output_length": 0, "hash_ids": list(range(10))}
        for n in (0, 1)
    ]
    log = write_lines(root / "log_blksz_100.jsonl", rows)
    workspace = Workspace(root / "ws")
    ingest.run([str(log)], workspace)
    index.update(workspace)
    summary = replay.run(workspace, parse_scenario(f"[pricing]\n{pricing}\n"))
    attribute.run(workspace, "as-is")
    return report.build(workspace, (summary,), Window(0, 2 * MINUTE))


def test_a_write_premium_has_a_break_even(tmp_path: Path) -> None:
    """(1.25, 0.1): 21.7 %; 1,000 written, 1,000 read and 2 uncached tokens are worth 1,352 uncached ones."""
    view = _view(tmp_path, "rates = { base = 3.0, write = 1.25, read = 0.1, output = 15.0 }")
    cost = view.result.cost
    assert cost is not None
    assert list(cost.break_even.values()) == [pytest.approx(0.25 / 1.15)]
    assert cost.effective_tokens == 1_352
    page = html(view)
    assert "caching pays from a hit rate of 21.7 % on" in page
    assert "one GPU" not in page


def test_a_speed_gives_hours_and_free_writes_no_break_even(tmp_path: Path) -> None:
    """1,002 missed tokens at 1,002 tokens per hour take an hour; the twin follows its schema."""
    view = _view(tmp_path, f"gpu_hour = 2.0\nprefill_tokens_per_s = {1_002 / 3_600}")
    value = json.loads(json.dumps(twin(view)))
    jsonschema.validate(value, json.loads(read_text("reports", "schema/report.schema.json")))
    assert value["scenarios"][0]["prefill_gpu_hours"] == pytest.approx(1.0)
    assert value["cost"]["break_even"] == {}
    assert "take one GPU 1.0 hours" in html(view)
