"""Writes what engines say beside requests: sizes of caches, starts; ``make.py`` runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

STEP_S = 60
SAMPLES = 5


def engine_log() -> str:
    """Starts and sizes of two engines: a line of vLLM, a scrape of its metrics, lines of SGLang."""
    return "".join(
        f"{line}\n"
        for line in (
            "(EngineCore_DP0 pid=91) INFO 11-24 09:58:51 [kv_cache_utils.py:1087] GPU KV cache size: 433,248 tokens",
            "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig",
            "# TYPE vllm:cache_config_info gauge",
            'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="27078"} 1.0',
            "[2026-11-24 09:57:12] server_args=ServerArgs(model_path='m', page_size=1, mem_fraction_static=0.88)",
            "[2026-11-24 09:57:55] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=62.51 GB",
            "[2026-11-24 09:58:12 DP0] max_total_num_tokens=477168, chunked_prefill_size=8192, context_len=131072",
        )
    )


def prometheus() -> str:
    """The answer to a range query: five minutes of the counters of one engine."""
    start = int(datetime(2026, 11, 24, 10, 0, tzinfo=UTC).timestamp())
    growth = {
        "vllm:prefix_cache_queries_total": 1_400,
        "vllm:prefix_cache_hits_total": 900,
        "vllm:num_preemptions_total": 0,
    }
    result = [
        {
            "metric": {
                "__name__": name,
                "instance": "vllm-0:8000",
                "job": "vllm",
                "engine": "0",
                "model_name": "m",
            },
            "values": [[start + STEP_S * n, str(step * n)] for n in range(SAMPLES)],
        }
        for name, step in growth.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}) + "\n"


def files() -> dict[str, str]:
    """Return the name and content of every fixture."""
    return {"engine.log": engine_log(), "prometheus.json": prometheus()}
