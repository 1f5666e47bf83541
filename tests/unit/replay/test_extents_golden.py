from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

import traces
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Output, Traffic, replay_extents
from support import shared

_TRACES = {
    "conv": ("mooncake_conversation.jsonl.zst", 512, None),
    "synth": ("mooncake_synthetic.jsonl.zst", 512, None),
    "aligned": ("aligned_blk16.jsonl", 16, None),
    "agentic3000": ("weka_agentic_blk64.jsonl.zst", 64, 3000),
}


@cache
def _trace(name: str):
    file, block_size, rows = _TRACES[name]
    trace = traces.load(shared("traces") / file, block_size, rows)
    return trace, *traces.forest(trace), block_size


def _traffic(trace, parent, last_block, block_size, *, concurrent: bool):
    """Residence is 0.05 ms a prompt token and 20 ms an output token, or one at a time."""
    chains = build_chains(parent)
    paths = build_paths(chains, last_block)
    hold_us = 50 * trace.prompt_tokens + 20_000 * trace.output_tokens
    return chains, Traffic(
        arrival_us=trace.arrival_us,
        replica=np.zeros(len(trace.arrival_us), np.int32),
        prompt_tokens=trace.prompt_tokens,
        keyed_blocks=trace.prompt_tokens // block_size,
        path_offset=paths.offset,
        path_chain=paths.chain,
        hold_us=hold_us if concurrent else None,
    )


def _assert_golden(name: str, found, block_size: int) -> None:
    golden = pq.read_table(shared(f"golden/{name}.parquet"))
    assert golden["row"].to_pylist() == list(range(len(found.hit_blocks)))
    differ = golden["hit_tokens"].to_numpy() != found.hit_blocks * block_size
    assert differ.sum() == 0
    if "admitted_ms" in golden.column_names:
        admitted_us = np.rint(golden["admitted_ms"].to_numpy() * 1000).astype(np.int64)
        assert (admitted_us != found.admitted_us).sum() == 0


@pytest.mark.parametrize(
    "name",
    [
        "vllm_agentic3000_seq_50000",
        "vllm_aligned_conc_80",
        "vllm_aligned_conc_900",
        "vllm_aligned_seq_120",
        "vllm_aligned_seq_1500",
        "vllm_conv_conc_3000",
        "vllm_conv_conc_600",
        "vllm_conv_conc_8000",
        "vllm_conv_seq_10000",
        "vllm_conv_seq_2000",
        "vllm_conv_seq_500",
        "vllm_synth_seq_1000",
        "vllm_synth_seq_5000",
    ],
)
def test_hits_and_admissions_are_those_of_the_engine(name):
    """Every row of a golden file: hit tokens, and where requests overlap the moment of admission, to the microsecond."""
    _, trace_name, residence, capacity = name.split("_")
    trace, parent, last_block, block_size = _trace(trace_name)
    chains, traffic = _traffic(trace, parent, last_block, block_size, concurrent=residence == "conc")

    found = replay_extents(
        traffic, chains.chain_length, block_size=block_size, replicas=1, capacity_blocks=int(capacity)
    )

    _assert_golden(name, found, block_size)


def test_output_of_unknown_content_takes_room_as_in_the_engine():
    """Output that is added at the release, whose keys the log does not tell."""
    trace, parent, last_block, block_size = _trace("conv")
    chains, traffic = _traffic(trace, parent, last_block, block_size, concurrent=True)
    output = Output("at_release", trace.output_tokens, traffic.keyed_blocks)

    found = replay_extents(
        traffic, chains.chain_length, block_size=block_size, replicas=1, capacity_blocks=8000, output=output
    )

    _assert_golden("vllm_conv_conc_out_8000", found, block_size)


def test_output_with_keys_of_its_own_gives_the_same():
    """Fresh keys for every output block, as the engine had them, instead of unknown ones."""
    trace, parent, last_block, block_size = _trace("conv")
    full = trace.prompt_tokens // block_size
    keyed = np.maximum(trace.prompt_tokens + trace.output_tokens - 1, trace.prompt_tokens) // block_size
    fresh = list(parent)
    last = last_block.copy()
    for row in range(len(last)):
        for _ in range(full[row], keyed[row]):
            fresh.append(last[row])
            last[row] = len(fresh) - 1
    chains, traffic = _traffic(trace, np.array(fresh, np.int64), last, block_size, concurrent=True)

    found = replay_extents(
        traffic,
        chains.chain_length,
        block_size=block_size,
        replicas=1,
        capacity_blocks=8000,
        output=Output("at_release", trace.output_tokens, keyed),
    )

    _assert_golden("vllm_conv_conc_out_8000", found, block_size)


def test_without_a_limit_the_ceilings_of_the_traces_come_out():
    """Share of tokens hit with an unlimited cache: 37.34 % of conversation, 65.04 % of synthetic."""
    for name, expected in (("conv", 0.3734), ("synth", 0.6504)):
        trace, parent, last_block, block_size = _trace(name)
        chains, traffic = _traffic(trace, parent, last_block, block_size, concurrent=False)

        found = replay_extents(traffic, chains.chain_length, block_size=block_size, replicas=1)

        rate = found.hit_blocks.sum(dtype=np.int64) * block_size / trace.prompt_tokens.sum()
        assert round(rate, 4) == expected
