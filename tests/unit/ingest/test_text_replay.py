"""Logs of text replay like any other log: what hits is what the prompts share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest_support import write_lines
from prefixledger import api
from support import shared

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES, BLOCK_TOKENS = 64, 16
NOON_S = 1_795_953_600
POOL = 'name = "s"\n[[pool]]\n[pool.cache]\nprofile = "vllm"\n'


def hits(workspace: Path, name: str) -> list[int]:
    """Return the hit blocks of each lookup, in order of arrival."""
    table = pq.read_table(
        workspace / "replays" / name / "lookup_facts.parquet", columns=["request_row", "hit_blocks"]
    )
    return [row["hit_blocks"] for row in sorted(table.to_pylist(), key=lambda row: row["request_row"])]


def _common(one: bytes, two: bytes) -> int:
    """Return the length of the common beginning."""
    size = min(len(one), len(two))
    differ = np.frombuffer(one, np.uint8)[:size] != np.frombuffer(two, np.uint8)[:size]
    return int(differ.argmax()) if differ.any() else size


def expected(prompts: list[bytes]) -> list[int]:
    """Compare every prompt with all before it, letter by letter: the blocks that an unlimited vLLM cache would have."""
    found = []
    for at, prompt in enumerate(prompts):
        most = 0
        for other in reversed(
            prompts[:at]
        ):  # the last are the most alike; none that differs before has more in common
            if other.startswith(prompt[: most + 1]):
                most = max(most, _common(prompt, other))
        tokens = max(len(prompt) * BLOCK_TOKENS // BLOCK_BYTES, 1)
        found.append(min(most // BLOCK_BYTES, (tokens - 1) // BLOCK_TOKENS))
    return found


@pytest.mark.parametrize(
    "folder",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("miniswe", "magagent")),
        "taubench",
        "RepoAgent",
    ],
)
def test_agent_sessions_reuse_what_a_string_comparison_finds(tmp_path: Path, folder: str) -> None:
    """Every request of a real session: hits equal its longest common beginning with an earlier one, in whole blocks."""
    path = min(shared(f"traces/lmcache_agent/{folder}").glob("*.jsonl"))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line][:120]
    log = write_lines(tmp_path / "log.jsonl", rows)
    result = api.replay([log], workspace=tmp_path / "ws", jobs=1)
    in_order = sorted(enumerate(rows), key=lambda row: (row[1]["timestamp"], row[0]))
    wanted = expected([row["input"].encode() for _, row in in_order])
    assert hits(tmp_path / "ws", "as-is") == wanted
    assert sum(wanted) > 0
    assert result.replays[0].hit_tokens == BLOCK_TOKENS * sum(wanted)


def exchange(at: int, turns: int, **more: Any) -> dict[str, Any]:
    """Return one call of a growing conversation with bodies of OpenAI's kind and its logged usage."""
    told = [{"role": "system", "content": "You answer in short sentences. " * 40}]
    told += [
        {"role": ("user", "assistant")[turn % 2], "content": f"turn {turn}: " + "and so on " * 30}
        for turn in range(2 * turns + 1)
    ]
    letters = sum(len(one["content"]) for one in told)
    usage = {"prompt_tokens": letters // 5, "completion_tokens": 7, "total_tokens": letters // 5 + 7}
    request = {"model": "m-1", "messages": told, **more}
    response = {
        "id": f"chatcmpl-{at}",
        "object": "chat.completion",
        "created": NOON_S + at,
        "model": "m-1",
        "usage": usage,
    }
    return {"request": request, "response": {**response, "choices": []}}


def test_bodies_of_calls_give_hits_and_say_that_keys_are_approximate(tmp_path: Path) -> None:
    """Each turn hits what the one before it sent, within two blocks of its length, whatever the envelope carries."""
    (tmp_path / "s.toml").write_text(POOL)
    rows = [exchange(at, at, user=f"u{at}", metadata={"call": str(at)}) for at in range(12)]
    log = write_lines(tmp_path / "calls.jsonl", rows)
    result = api.replay([log], workspace=tmp_path / "ws", scenario=[tmp_path / "s.toml"], jobs=1)
    assert result.ingest is not None
    (account,) = result.ingest.inputs
    assert account.kept == 12
    assert any(note.startswith("approximate keys") for note in account.notes)
    assert account.text_scales[0]["origin"] == "measured"
    found = hits(tmp_path / "ws", "s")
    size = account.block_size or 0
    assert found[0] == 0
    for at in range(1, 12):
        before = rows[at - 1]["response"]["usage"]["prompt_tokens"]
        assert abs(found[at] * size - before) <= 2 * size


def test_reports_say_that_keys_are_approximate(tmp_path: Path) -> None:
    """On the first screen, and what may be why where a service reads nothing of turns that the text repeats."""
    (tmp_path / "s.toml").write_text(POOL)
    rows = [exchange(at, at) for at in range(4)]
    for row in rows:
        row["response"]["usage"]["prompt_tokens_details"] = {"cached_tokens": 0}
    log = write_lines(tmp_path / "calls.jsonl", rows)
    done = api.report(
        [log], output=tmp_path / "a.html", workspace=tmp_path / "ws", scenario=[tmp_path / "s.toml"], jobs=1
    )
    page = done.html.read_text(encoding="utf-8")
    assert "Keys are approximate in inputs with 100" in page
    assert "The service reads less than the text repeats" in page
    twin = json.loads(done.json.read_text(encoding="utf-8"))
    assert twin["inputs"][0]["kept"] == 4
