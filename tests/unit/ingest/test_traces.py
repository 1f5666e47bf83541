"""The public traces beside the checkout give the counts that are published with them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingest_support import ingest
from support import shared
from traces import forest, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "size", "rows", "rule"),
    [
        ("mooncake_conversation.jsonl.zst", 512, 12_031, "ceil"),
        ("mooncake_synthetic.jsonl.zst", 512, 3_993, "ceil"),
        ("aligned_blk16.jsonl", 16, 4_000, "floor"),
    ],
)
def test_block_traces(tmp_path: Path, name: str, size: int, rows: int, rule: str) -> None:
    """Every row is kept, the rule of the last block is found, and the forest is that of a plain reading."""
    path = shared(f"traces/{name}")
    result = ingest(tmp_path / "ws", path, block_size=size)
    account = result.account
    assert (account.kept, account.rejected, account.block_ids, account.ids) == (rows, 0, rule, "prefix")
    parent, last = forest(load(path, size))
    table = pq.ParquetFile(tmp_path / "ws" / "paths" / f"{account.source}.parquet").read()
    assert np.array_equal(np.maximum(table["parent"].to_numpy(), -1), parent)
    nodes = [-1 if row["source_node"] is None else row["source_node"] for row in result.requests]
    assert np.array_equal(nodes, last)


def test_weka_originals(tmp_path: Path) -> None:
    """26 conversations, 280 requests; the licence beside them is left out."""
    result = ingest(tmp_path / "ws", shared("traces/weka_originals"))
    assert len(result.summary.inputs) == 26
    assert sum(account.kept for account in result.summary.inputs) == 280
    assert {account.block_size for account in result.summary.inputs} == {64}


def test_azure_lengths(tmp_path: Path) -> None:
    """28,185 rows of two files, detected without a map, none with keys."""
    result = ingest(tmp_path / "ws", shared("traces/azure"))
    assert [account.kept for account in result.summary.inputs] == [8_819, 19_366]
    assert {account.format for account in result.summary.inputs} == {"azure-lengths"}


MEASURED = """
import re, resource, sys
from pathlib import Path
from prefixledger import api
if __name__ == "__main__":
    (one,) = api.ingest([sys.argv[1]], workspace=sys.argv[2], block_size=64, jobs=2).inputs
    own = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1))
    print(one.source, one.kept, one.block_ids, own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A process of its own: the peak of this one is that of all tests before."""


@pytest.mark.slow
def test_agentic_trace_is_read_fast_and_small(tmp_path: Path) -> None:
    """735 MB and 94 million ids: under 2 GiB of memory, and every row kept."""
    log = shared("traces/weka_agentic_blk64.jsonl.zst")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(log), str(tmp_path / "ws")],
        capture_output=True,
        text=True,
        check=True,
    )
    source, kept, block_ids, peak_kib = done.stdout.split()
    assert (int(kept), block_ids) == (49_334, "floor")
    table = pq.ParquetFile(tmp_path / "ws" / "paths" / f"{source}.parquet").read(["parent"])
    assert 3_400_000 < table.num_rows < 3_500_000
    assert int(peak_kib) < 2 << 20
