"""Base model and adapters share no block, and what a version does to an adapter that is loaded again is said."""

from __future__ import annotations

import json

import pytest

from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.replay.stage import replay_log
from stage_laws import rows_of
from stage_support import SECOND, make_log


def _log():
    """The same prompt for the base model, for an adapter, for another, then again for the first adapter."""
    space = {"model": "m", "cache_salt": None, "namespace": None, "scope": "tokens", "block_size": 16}
    names = [json.dumps({**space, "adapter": adapter}) for adapter in (None, "sql", "chat", "sql")]
    return make_log([{"at_us": n * SECOND, "ids": [1, 2], "namespace": name} for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("cache", "says"),
    [
        ({"version": "0.11.2"}, "vLLM 0.11.2 numbers adapters"),
        ({"version": "0.22.1"}, "vLLM 0.22.1 knows an adapter by its name"),
        ({}, "vLLM knows an adapter by name and path"),
        ({"profile": "sglang"}, "SGLang knows an adapter by an id of its own"),
    ],
)
def test_adapters_and_the_base_model_share_no_block(cache, says):
    """Only the second request of the same adapter hits."""
    scenario = Scenario(pool=(Pool(cache=Cache(**cache)),))

    files, summary = replay_log(_log(), scenario, ())

    assert [row["hit_blocks"] for row in rows_of(files, "lookup_facts")] == [0, 0, 0, 2]
    (note,) = [note for note in summary.notes if "adapters" in note]
    assert "3 lookups ask 2 adapters" in note
    assert says in note


def test_without_adapters_nothing_is_said():
    """Most logs have none."""
    _, summary = replay_log(make_log([{"at_us": 0, "ids": [1]}]), Scenario(), ())

    assert not any("adapter" in note for note in summary.notes)
