"""What engines print of themselves, in every spelling, and what is nothing of the kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ingest_support import ingest
from prefixledger.ingest.engine_lines import engine_fact

if TYPE_CHECKING:
    from pathlib import Path

NOON = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("INFO 11-29 12:00:00 [x.py:1] GPU KV cache size: 433,248 tokens", {"engine": "vllm", "tokens": 433_248}),
        ("INFO 10-01 18:43:27 x.py:36] # GPU blocks: 27078, # CPU blocks: 2048", {"engine": "vllm", "blocks": 27_078}),
        ("(EngineCore_DP1 pid=9) INFO 11-29 12:00:00 [x.py:1] num_gpu_blocks is: 100",
         {"engine": "vllm", "blocks": 100, "process": "EngineCore_DP1"}),
        ("Overriding num_gpu_blocks=3000 with num_gpu_blocks_override=512", {"engine": "vllm", "blocks": 512}),
        ('vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="77"} 1.0',
         {"engine": "vllm", "blocks": 77, "block_size": 16, "process": "engine 1"}),
        ("[2026-11-29 12:00:00 DP2 TP0] max_total_num_tokens=477168, chunked_prefill_size=8192",
         {"engine": "sglang", "slots": 477_168, "process": "DP2"}),
        ('sglang:max_total_num_tokens{dp_rank="0",model_name="m"} 4.77168e+05',
         {"engine": "sglang", "slots": 477_168, "process": "DP0"}),
    ],
)  # fmt: skip
def test_every_spelling_of_a_capacity_is_read(text, fact):
    """By vLLM in tokens, blocks and metrics, SGLang in tokens; an override is stronger than what was measured."""
    assert engine_fact(text) == {"kind": "capacity", **fact}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("vLLM API server version 0.33.0", {"kind": "start", "engine": "vllm", "version": "0.33.0"}),
        ("Initializing a V1 LLM engine (v0.11.0) with config", {"kind": "start", "engine": "vllm", "version": "0.11.0"}),
        ("server_args=ServerArgs(model_path='m', page_size=64)", {"kind": "start", "engine": "sglang", "block_size": 64}),
        ("Setting attention block size to 784 tokens", {"kind": "block_size", "engine": "vllm", "tokens": 784}),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0', None),
        ("num_gpu_blocks_override=None, other=1", None),
        ("Maximum concurrency for 8,192 tokens per request: 52.89x", None),
        ("vllm:num_preemptions_total 3.0", None),
    ],
)  # fmt: skip
def test_starts_block_sizes_and_other_lines(text, fact):
    """Starts and block sizes are told apart from sizes; an engine that has not measured yet says nothing."""
    assert engine_fact(text) == fact


def test_a_log_without_requests_is_read_for_what_it_says(tmp_path: Path) -> None:
    """Every line is skipped and counted, local times are read in the zone that is asked for, years by the file."""
    log = tmp_path / "h1.log"
    log.write_text(
        "[2026-11-29 13:00:00] server_args=ServerArgs(page_size=1)\nLoad weight end.\n"
        "[2026-11-29 13:00:00] max_total_num_tokens=1000\nsglang:max_total_num_tokens 1000.0\n",
        encoding="utf-8",
    )
    result = ingest(tmp_path / "ws", log, zone="Europe/Berlin")
    account = result.account
    assert (account.format, account.records, account.skipped, account.kept) == ("engine-log", 4, 4, 0)
    assert [(f["kind"], f["line"], f["at_us"]) for f in account.facts] == [
        ("start", 1, NOON), ("capacity", 3, NOON), ("capacity", 4, None),
    ]  # fmt: skip
    assert any("Europe/Berlin" in note for note in account.notes)
