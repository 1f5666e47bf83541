"""What would 512 GiB of offload bring: one scenario, from a log to the report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prefixledger import api
from prefixledger.cli import app

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROUNDS, PROMPTS, SHARED = 5, 8, 8
MODEL = "[model]\nlayers = 32\nkv_heads = 8\nhead_dim = 128\n"


def test_512_gib_of_offload_are_asked_by_one_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight prompts of 8 blocks of 64 MiB take turns in 2 GiB and lose all of it; host memory brings back every block."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "timestamp": 1000 * n,
            "input_length": SHARED * 512 + 5,
            "output_length": 10,
            "hash_ids": [*range(100 * (n % PROMPTS), 100 * (n % PROMPTS) + SHARED), 5000 + n],
        }
        for n in range(ROUNDS * PROMPTS)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "offload.toml").write_text(
        f'[cache]\ncapacity = "2GiB"\n{MODEL}[tier]\ncapacity = "512GiB"\n', encoding="utf-8"
    )
    (tmp_path / "as-is.toml").write_text(f'[cache]\ncapacity = "2GiB"\n{MODEL}', encoding="utf-8")

    scenarios = ["--scenario", "offload.toml", "--scenario", "as-is.toml"]
    assert app.run(["report", "log.jsonl", "-o", "r.html", *scenarios]) == 0

    out, _ = capsys.readouterr()
    assert "79.9 % of 164,040 prompt tokens came from cache" in out
    again = (ROUNDS - 1) * PROMPTS * SHARED * 512
    assert f'from the lower tier <span class="n">{again:,}</span>' in (tmp_path / "r.html").read_text("utf-8")
    totals = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["totals"]
    assert (totals["hit_tokens"], totals["hit_host_tokens"]) == (again, again)
    books = """
        SELECT scenario, sum(hit_tokens)::INT, sum(hit_host_tokens)::INT, sum(miss_evicted_tokens)::INT
        FROM lookups GROUP BY ALL ORDER BY ALL
    """
    assert list(api.query(books).rows()) == [("as-is", 0, 0, again), ("offload", again, again, 0)]
