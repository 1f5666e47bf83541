from __future__ import annotations

import pytest

from prefixledger import attribute
from prefixledger.config.scenario import Cache, InFlight, Pool, Scenario
from prefixledger.replay import run
from stage_support import SECOND, read, write_workspace


@pytest.mark.parametrize("profile", ["vllm", "sglang"])
def test_what_a_preempted_request_computes_again_stands_outside_the_books(tmp_path, profile):
    """Its first admission counts: the books close on the prompt, and the tokens have a column of their own."""
    rows = [
        {"at_us": n, "ids": [n + 1], "block_size": 2, "prompt_tokens": 3, "output_tokens": 5}
        for n in range(2)
    ]
    workspace = write_workspace(tmp_path, [{**row, "finished_at": 40 * SECOND} for row in rows])
    pool = Pool(cache=Cache(profile=profile, capacity="5 blocks"), in_flight=InFlight(residence="logged"))

    summary = run(workspace, Scenario(pool=(pool,)))
    attribute.run(workspace, "as-is")

    books = read(summary, "lookups")
    assert [row["recompute_tokens"] > 0 for row in books] == [False, True]
    assert [
        row["hit_tokens"] + row["miss_cold_tokens"] + row["miss_uncacheable_tokens"] for row in books
    ] == [3, 3]
    assert any("1 preemptions of running" in note for note in summary.notes)
