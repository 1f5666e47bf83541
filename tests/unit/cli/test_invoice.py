"""``report --invoice``: coverage on the first screen, in the twin and in a CSV, over the days of the invoice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema

from prefixledger.cli import app
from prefixledger.resources import read_text

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _call(day: int, number: int) -> str:
    usage = {
        "input_tokens": 1000,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 100,
    }
    body = {"id": f"m{day}-{number}", "type": "message", "model": "claude-opus-5-5", "usage": usage}
    return json.dumps(
        {"timestamp": f"2026-11-{day}T10:00:{number:02}Z", "provider": "anthropic", "request": {"model": "claude-opus-5-5"},
         "response": body}
    )  # fmt: skip


def test_a_report_begins_with_what_the_log_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five calls of six are in the log: 83.3 % of the tokens; a day outside the invoice is outside the report."""
    log, invoice, page = tmp_path / "calls.jsonl", tmp_path / "usage.csv", tmp_path / "r.html"
    log.write_text("\n".join([*(_call(24, n) for n in range(5)), _call(26, 0)]), encoding="utf-8")
    invoice.write_text(
        "date,model,input_tokens,output_tokens\n2026-11-24,claude-opus-5-5,6000,600\n", encoding="utf-8"
    )
    told = [
        "report",
        str(log),
        "-o",
        str(page),
        "--workspace",
        str(tmp_path / "ws"),
        "--invoice",
        str(invoice),
    ]
    assert app.run(told) == 0
    assert "The log holds 83.3 % of the invoice" in capsys.readouterr().out
    twin = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    jsonschema.validate(twin, json.loads(read_text("reports", "schema/report.schema.json")))
    assert twin["totals"]["requests"] == 5
    assert twin["reconciliation"]["coverage"] == 0.833333
    assert twin["verdict"]["caveats"][0].startswith("The log holds 83.3 %")
    assert "The log has fewer tokens" in page.read_text(encoding="utf-8")
    assert "less_in_log" in (page.with_suffix(".csv") / "invoice_days.csv").read_text(encoding="utf-8")
    assert app.run([*told[:-1], str(tmp_path / "nothing.csv")]) == 2
