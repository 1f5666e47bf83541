"""A log whose caching loses money: the report recommends to turn it off, and says what that saves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prefixledger import api

if TYPE_CHECKING:
    from pathlib import Path

MAP = """\
format = "jsonl"
block_size = 16
[columns]
started_at = { from = "at", unit = "s" }
block_ids = "ids"
prompt_tokens = "n"
output_tokens = "out"
tenant = "tenant"
provider = "provider"
model = "model"
"""
SCENARIO = "[cache]\nprofile = 'anthropic'\nttl = '5m'\nmarks = [1120]\n[pricing]\nrates = 'by-model'\n"
BLOCKS = 72
DOLLARS_A_TOKEN = 3e-6


def test_the_report_recommends_to_turn_it_off_and_says_what_that_saves(tmp_path: Path) -> None:
    """Two tenants come back after three hours: every prompt is written at a quarter more, and nobody reads it."""
    rows = []
    for n in range(7 * 8 * 2):
        ids = [*range(1000 * (n % 2), 1000 * (n % 2) + 70), 10**6 + 2 * n, 10**6 + 2 * n + 1]
        rows.append(
            {
                "at": 1_795_000_000 + n // 2 * 3 * 3600 + n % 2,
                "ids": ids,
                "n": 16 * BLOCKS + 1,
                "out": 5,
                "tenant": f"t{n % 2}",
                "provider": "anthropic",
                "model": "claude-sonnet-4-5",
            }
        )
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, text in (("map", MAP), ("one", SCENARIO)):
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    found = api.report(
        [tmp_path / "log.jsonl"], map=tmp_path / "map.toml", scenario=[tmp_path / "one.toml"],
        workspace=tmp_path / "ws", output=tmp_path / "r.html",
    )  # fmt: skip
    (one,) = found.twin["recommendations"]
    assert one["kind"] == "caching_off"
    saved = 0.25 * 16 * BLOCKS * len(rows) * DOLLARS_A_TOKEN
    assert float(one["in_full"]["saved"]) == pytest.approx(saved, rel=1e-5)
    page = found.html.read_text(encoding="utf-8")
    assert "Turn prompt caching off" in page
    assert f"${saved * 3 / 7:.2f}" in page  # of the days that judge, three of seven
