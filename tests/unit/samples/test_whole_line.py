"""The whole line, from a log file to the books: the lesson's table, the golden hits, a rolling deploy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from prefixledger import api
from prefixledger.config.scenario import Cache, Fleet, Pool, Scenario
from prefixledger.samples import generator
from prefixledger.workspace import Workspace
from support import ROOT, shared

if TYPE_CHECKING:
    from pathlib import Path

LESSON = {
    "random": {"textbook": 3_447_200, "vllm": 3_548_816},
    "by-prefix-hash": {"textbook": 3_988_800, "vllm": 3_988_800},
    "volatile-top": {"textbook": 0, "vllm": 0},
}


def _scenario(profile: str, capacity: str, **fleet: object) -> Scenario:
    cache = Cache(profile=profile, capacity=capacity)
    return Scenario(name=profile, pool=(Pool(cache=cache, fleet=Fleet(**fleet)),))  # type: ignore[arg-type]


def _lookups(workspace: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(Workspace(workspace).replay(name) / "lookups.parquet")


@pytest.fixture(scope="module")
def lesson_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three logs of the lesson, written once."""
    lesson = generator("lesson")
    return dict(zip(lesson.RUNS, lesson.write(tmp_path_factory.mktemp("lesson")), strict=True))


@pytest.mark.parametrize("run", LESSON)
def test_lesson_table_comes_out_of_its_logs(run: str, lesson_logs: dict[str, Path], tmp_path: Path) -> None:
    """Every cell of the lesson's table, under both profiles, from token ids on disk to hit tokens in the books."""
    api.ingest(
        [lesson_logs[run]], workspace=tmp_path / "ws", map=ROOT / "sample_traces/lesson.map.toml", jobs=1
    )
    api.replay(
        [tmp_path / "ws"], scenario=[_scenario("textbook", "400 blocks"), _scenario("vllm", "400 blocks")]
    )
    for profile, expected in LESSON[run].items():
        lookups = _lookups(tmp_path / "ws", profile)
        assert lookups["prompt_tokens"].sum() == (4_122_000 if run == "volatile-top" else 4_120_000)
        assert lookups["hit_tokens"].sum() == expected
        misses = [c for c in lookups.columns if c.startswith("miss_")]
        assert (
            lookups["hit_tokens"] + lookups.select(pl.sum_horizontal(misses)).to_series()
            == lookups["prompt_tokens"]
        ).all()


@pytest.mark.parametrize("capacity", [500, 10_000])
def test_golden_hits_come_out_of_the_log_file(capacity: int, tmp_path: Path) -> None:
    """From the packed trace on disk to `lookups`, every row equals what vLLM's own cache manager returned."""
    golden = pl.read_parquet(shared(f"golden/vllm_conv_seq_{capacity}.parquet")).sort("row")
    log = shared("traces/mooncake_conversation.jsonl.zst")
    api.replay([log], workspace=tmp_path / "ws", scenario=[_scenario("vllm", f"{capacity} blocks")], jobs=1)
    lookups = _lookups(tmp_path / "ws", "vllm").sort("source_line")
    assert lookups["hit_tokens"].to_list() == golden["hit_tokens"].to_list()


def test_rolling_deploy_with_new_pod_names_blames_no_router(tmp_path: Path) -> None:
    """What only dead pods held is invalidated because they are gone; nothing is misrouted."""
    rows = []
    for number in range(400):
        generation = "old" if number < 200 else "new"
        rows.append({"id": f"q{number}", "ts": 1_795_942_800 + 60 * number, "pod": f"{generation}-{number % 2}",
                     "n": 10 * 16 + 5, "blocks": [100 * (number % 2) + i for i in range(10)]})  # fmt: skip
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    columns = (
        'format = "jsonl"\nblock_size = 16\nblock_ids = "floor"\n[columns]\nrequest_id = "id"\nreplica = "pod"\n'
        'prompt_tokens = "n"\nblock_ids = "blocks"\nstarted_at = { from = "ts", unit = "s" }\n'
    )
    map_file = tmp_path / "log.map.toml"
    map_file.write_text(columns, encoding="utf-8")
    api.replay(
        [log],
        workspace=tmp_path / "ws",
        map=map_file,
        scenario=[_scenario("vllm", "unlimited", replica_grace="30s")],
    )
    misses = pl.read_parquet(Workspace(tmp_path / "ws").replay("vllm") / "misses.parquet")
    assert misses.filter(pl.col("cause") == "misrouted").is_empty()
    gone = misses.filter(pl.col("cause") == "invalidated")
    assert gone["detail"].unique().to_list() == ["replica_gone"]
    assert gone["tokens"].sum() == 2 * 10 * 16
    assert gone["elsewhere"].all()
