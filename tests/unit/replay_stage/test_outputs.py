from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.config.scenario import InFlight, Pool, Scenario
from prefixledger.replay.chains import build_chains
from prefixledger.replay.outputs import find_outputs
from prefixledger.replay.outputs_kernel import MOST_LOOKS
from prefixledger.replay.stage import replay_log
from stage_support import SECOND, make_log
from twins import outputs as twin

B = 4


@st.composite
def conversations(draw):
    """Prompts that extend each other, in sessions or not, some before the end of what they extend."""
    rows = []
    for number in range(draw(st.integers(1, 12))):
        base = draw(st.sampled_from([[1], *[row["ids"] for row in rows]]))
        ids = base + [draw(st.integers(2, 3)) for _ in range(draw(st.integers(0, 2)))]
        at_us = number * SECOND
        rows.append(
            {
                "at_us": at_us,
                "finished_at": draw(st.sampled_from([None, at_us, at_us + 2 * SECOND])),
                "ids": ids,
                "block_size": B,
                "prompt_tokens": B * len(ids) + draw(st.integers(0, B - 1)),
                "output_tokens": draw(st.sampled_from([None, 0, 1, 3, 5, 9])),
                "session_id": draw(st.sampled_from([None, "s", "t"])),
            }
        )
    return rows


@settings(max_examples=200)
@given(conversations())
def test_the_keys_of_output_are_those_of_the_twins_next_turn(rows):
    """Next turn, blocks and last block, for random conversations."""
    log = make_log(rows)
    chains = build_chains(log.forest.parent)
    tokens = [row["output_tokens"] or 0 for row in rows]
    full = [(row["prompt_tokens"] + out - 1) // B for row, out in zip(rows, tokens, strict=True)]
    needed = [
        row["prompt_tokens"] + out
        if blocks > len(row["ids"]) and (row["session_id"] or row["prompt_tokens"] % B == 0)
        else 0
        for row, out, blocks in zip(rows, tokens, full, strict=True)
    ]
    sessions = [-1 if row["session_id"] is None else ord(row["session_id"]) for row in rows]
    ready = [row["at_us"] if row["finished_at"] is None else row["finished_at"] for row in rows]
    turns = twin.next_turns(
        [row["ids"] for row in rows],
        [row["at_us"] for row in rows],
        ready,
        sessions,
        [row["prompt_tokens"] for row in rows],
        needed,
    )

    found = find_outputs(log, np.arange(len(rows)), chains, B)

    assert found.tokens.tolist() == tokens
    assert found.known == sum(turn >= 0 for turn in turns)
    for number, turn in enumerate(turns):
        expected = rows[number]["ids"] if turn < 0 else rows[turn]["ids"][: full[number]]
        assert found.keyed_blocks[number] == len(expected)
        path, block = [], int(found.last_block[number])
        while block >= 0:
            path.append(block)
            block = int(log.forest.parent[block])
        assert len(path) == len(expected)


def test_the_next_turn_hits_what_its_forerunner_generated():
    """Prompt 1 block, output 2 blocks, next turn 4 blocks: 3 hit with output, 1 without."""
    rows = [
        {"at_us": 0, "ids": [1], "prompt_tokens": 5, "output_tokens": 8},
        {"at_us": SECOND, "ids": [1, 2, 3, 4], "prompt_tokens": 17},
    ]
    rows = [{**row, "block_size": B, "session_id": "s"} for row in rows]

    def hits(mode):
        pool = Pool(in_flight=InFlight(residence="none", output=mode))
        files, summary = replay_log(make_log(rows), Scenario(pool=(pool,)), [])
        ideal = files["ladder.parquet"]["ideal_blocks"].to_pylist()
        assert summary.hit_tokens <= summary.ideal_hit_tokens
        return files["lookup_facts.parquet"]["hit_blocks"].to_pylist(), ideal

    assert hits("ignore") == ([0, 1], [0, 1])
    assert hits("at_release") == ([0, 3], [0, 3])
    assert hits("as_decoded") == ([0, 3], [0, 3])


def test_without_a_session_only_a_prompt_that_ends_with_a_block_has_a_next_turn():
    """What followed the last full block is not in the log, so nothing proves that a longer prompt goes on with it."""

    def known(prompt_tokens, **fields):
        first = {"at_us": 0, "ids": [1], "block_size": B, "prompt_tokens": prompt_tokens, "output_tokens": 8}
        turn = {"at_us": SECOND, "ids": [1, 2, 3], "block_size": B, "prompt_tokens": 13}
        log = make_log([{**first, **fields}, {**turn, **fields}])
        return find_outputs(log, np.arange(2), build_chains(log.forest.parent), B).known

    assert known(4) == 1
    assert known(5) == 0
    assert known(5, session_id="s") == 1


def test_a_prompt_that_many_pass_in_vain_has_no_next_turn():
    """The search is bounded, so a prompt that everybody shares does not make it quadratic."""

    def known(passing):
        row = {"ids": [1], "block_size": B, "prompt_tokens": 4}
        first = {**row, "at_us": 0, "output_tokens": 8}
        between = [{**row, "at_us": n + 1} for n in range(passing)]
        last = {"at_us": passing + 1, "ids": [1, 2, 3, 4], "block_size": B, "prompt_tokens": 17}
        log = make_log([first, *between, last])
        return find_outputs(log, np.arange(passing + 2), build_chains(log.forest.parent), B).known

    assert known(MOST_LOOKS - 1) == 1
    assert known(MOST_LOOKS) == 0
