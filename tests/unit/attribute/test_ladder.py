"""The ladder of bounds equals the causes, to the block, on replays of real and of random logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import traces
from prefixledger import attribute
from replayed import booked
from support import shared

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.workspace import Workspace

SCENARIO = """
name = "as-is"
[cache]
capacity = "{capacity}"
ttl = "{ttl}"
[in_flight]
residence = "none"
output = "ignore"
"""
EVENT = """
[[event]]
at = {at}
kind = "{kind}"
{who}
"""


def _scenario(capacity: str, ttl: str, events: list[tuple[float, str, str | None]]) -> str:
    text = SCENARIO.format(capacity=capacity, ttl=ttl)
    for seconds, kind, replica in events:
        at = np.datetime64(int(seconds * 1e6), "us").astype(str)
        text += EVENT.format(at=f"{at}Z", kind=kind, who=f'replica = "{replica}"' if replica else "")
    return text


def _rungs_and_causes(workspace: Workspace) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sums over all lookups that were not refused: rungs, and tokens by cause and place."""
    folder = workspace.replay("as-is")
    lookups = pq.read_table(folder / "lookups.parquet")
    kept = lookups.filter(pc.is_valid(lookups["pooled_hit_tokens"]))
    names = ("pooled", "per_replica", "resets", "ttl", "capacity")
    rungs = {name: pc.sum(kept[f"{name}_hit_tokens"]).as_py() for name in names}
    rungs["prompt"] = pc.sum(kept["prompt_tokens"]).as_py()
    rungs["hit"] = pc.sum(kept["hit_tokens"]).as_py()
    misses = pq.read_table(folder / "misses.parquet")
    misses = misses.filter(pc.not_equal(pc.fill_null(misses["detail"], ""), "larger_than_cache"))
    causes: dict[str, int] = {}
    for row in misses.group_by(["cause", "elsewhere"]).aggregate([("tokens", "sum")]).to_pylist():
        causes[f"{row['cause']}:{'elsewhere' if row['elsewhere'] else 'here'}"] = row["tokens_sum"]
    return rungs, causes


def assert_ladder_is_causes(workspace: Workspace) -> dict[str, int]:
    """Assert that each rung loses exactly the tokens of its cause; return the causes."""
    rungs, causes = _rungs_and_causes(workspace)
    at = causes.get
    elsewhere = sum(tokens for name, tokens in causes.items() if name.endswith(":elsewhere"))
    assert rungs["prompt"] - rungs["pooled"] == at("uncacheable:here", 0) + at("cold:here", 0)
    assert rungs["pooled"] - rungs["per_replica"] == at("misrouted:here", 0) + elsewhere
    assert rungs["per_replica"] - rungs["resets"] == at("invalidated:here", 0)
    assert rungs["resets"] - rungs["ttl"] == at("expired:here", 0)
    assert rungs["ttl"] - rungs["capacity"] == at("evicted:here", 0)
    assert rungs["capacity"] == rungs["hit"]
    return causes


def _random_log(seed: int) -> list[dict[str, Any]]:
    """Sessions that share a few heads and grow, on 3 replicas, with gaps and ties."""
    random = np.random.default_rng(seed)
    heads = [[1000 * h + n for n in range(random.integers(1, 6))] for h in range(4)]
    grown: dict[int, list[int]] = {}
    fresh, at_us, rows = 10_000, 0, []
    for _ in range(300):
        at_us += int(random.choice([0, 1, 5, 30])) * 1_000_000
        session = int(random.integers(12))
        path = grown.get(session) if random.random() < 0.8 else None
        path = list(heads[session % 4]) if path is None else path
        added = int(random.integers(0, 4))
        path = [*path, *range(fresh, fresh + added)][: int(random.integers(1, 30))]
        fresh += added
        grown[session] = path
        tail = int(random.choice([0, 1, 2, 3]))
        rows.append(
            {
                "at_us": at_us,
                "ids": path,
                "prompt_tokens": 4 * len(path) + tail,
                "replica": f"r{random.integers(3)}",
                "usage_state": "present",
                "cached_tokens_observed": int(random.integers(0, 4 * len(path) + tail + 1)),
            }
        )
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_random_logs(tmp_path: Path, seed: int) -> None:
    """With resets, a TTL and little room every rung equals its cause, and all of them occur."""
    rows = _random_log(seed)
    end_s = rows[-1]["at_us"] / 1e6
    events = [(end_s * 0.3, "restart", "r0"), (end_s * 0.5, "flush", None), (end_s * 0.7, "restart", "r2")]
    workspace = booked(tmp_path, rows, 4, _scenario("25 blocks", "2m", events))
    causes = assert_ladder_is_causes(workspace)
    assert {"misrouted:here", "invalidated:here", "expired:here", "evicted:here", "cold:here"} <= set(causes)


def test_marts_close_over_any_window(tmp_path: Path) -> None:
    """The marts of two halves of a log sum to those of the whole."""
    rows = _random_log(7)
    workspace = booked(tmp_path, rows, 4, _scenario("25 blocks", "2m", []))
    whole = attribute.default_window(workspace)
    middle = rows[150]["at_us"]
    halves = [
        attribute.choose_window(whole.from_us, whole.to_us - 1, to_us=middle),
        attribute.choose_window(whole.from_us, whole.to_us - 1, from_us=middle),
    ]
    parts = [attribute.marts(workspace, "as-is", half).totals.to_pylist()[0] for half in halves]
    total = attribute.marts(workspace, "as-is", whole).totals.to_pylist()[0]
    for name, value in total.items():
        if name != "basis":
            assert parts[0][name] + parts[1][name] == value, name


def _conversation(rows: int | None = None) -> list[dict[str, Any]]:
    trace = traces.load(shared("traces/mooncake_conversation.jsonl.zst"), 512, rows)
    return [
        {
            "at_us": int(trace.arrival_us[row]),
            "ids": trace.ids[trace.offset[row] : trace.offset[row + 1]],
            "prompt_tokens": int(trace.prompt_tokens[row]),
            "output_tokens": int(trace.output_tokens[row]),
            "replica": f"r{row % 4}",
        }
        for row in range(len(trace.arrival_us))
    ]


def test_conversation_trace(tmp_path: Path) -> None:
    """On 4 replicas with a TTL, a capacity and restarts every rung equals its cause."""
    rows = _conversation()
    events = [(600, "restart", "r1"), (1800, "flush", None), (2400, "restart", "r3")]
    workspace = booked(tmp_path, rows, 512, _scenario("2000 blocks", "10m", events))
    causes = assert_ladder_is_causes(workspace)
    assert {"misrouted:here", "invalidated:here", "expired:here", "evicted:here"} <= set(causes)
    marts = attribute.marts(workspace, "as-is", attribute.default_window(workspace))
    rungs = {row["rung"]: row["lost_tokens"] for row in marts.rungs.to_pylist()}
    assert rungs["ttl"] == causes["expired:here"]
    assert set(marts.prefixes["key"].to_pylist()) > {None}


def test_files_do_not_depend_on_threads(tmp_path: Path) -> None:
    """One thread or two, twice in a row: the same bytes."""
    workspace = booked(tmp_path, _random_log(8), 4, _scenario("25 blocks", "2m", []))
    folder = workspace.replay("as-is")
    seen = []
    for threads in (1, 2, 2):
        attribute.run(workspace, "as-is", threads=threads)
        marts = attribute.marts(workspace, "as-is", attribute.default_window(workspace), threads=threads)
        assert isinstance(marts.totals, pa.Table)
        files = [*sorted(folder.glob("*.parquet")), *sorted(folder.glob("marts/*"))]
        seen.append({path.name: path.read_bytes() for path in files})
    assert seen[0] == seen[1] == seen[2]
