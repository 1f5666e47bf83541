"""Replicas replayed apart are the pool replayed in one go."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prefixledger.engine import LocalEngine
from prefixledger.replay import apart
from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.extents import Output, Resets, Traffic
from prefixledger.replay.profile_runs import _extents, _radix
from prefixledger.replay.sglang_running import replay_running

if TYPE_CHECKING:
    from collections.abc import Callable

REPLICAS = 4
"""The last one is asked by nobody, but reset."""


def _same(one: object, other: object) -> None:
    for field in fields(one):  # type: ignore[arg-type]
        values = [getattr(each, field.name) for each in (one, other)]
        if field.name == "removals":
            _same(*values)
        elif values[0] is None:
            assert values[1] is None
        else:
            assert values[0].dtype == values[1].dtype
            np.testing.assert_array_equal(*values, err_msg=field.name)


@pytest.mark.parametrize("replay", [_extents, replay_running, _radix])
def test_apart_is_as_one(replay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits, times, resets and every removal with its numbers, under contention, with output, resets and bypass."""
    monkeypatch.setattr(apart, "FEWEST_LOOKUPS", 0)
    random = np.random.default_rng(4)
    n, size = 600, 4
    parent = np.asarray([-1 if at < 4 else random.integers(at // 2, at) for at in range(400)], np.int64)
    chains = build_chains(parent)
    last = random.integers(0, 400, n)
    paths = build_paths(chains, last)
    depth = (chains.chain_depth[chains.chain[last]] + chains.position[last] + 1).astype(np.int64)
    keyed = np.minimum(depth, random.integers(0, 30, n))
    hold_us = random.integers(10, 400, n)
    alone = replay is _radix
    traffic = Traffic(
        arrival_us=np.sort(random.integers(0, 9_000, n)),
        replica=random.integers(0, REPLICAS - 1, n).astype(np.int32),
        prompt_tokens=np.maximum(keyed * size + random.integers(0, size, n), 1),
        keyed_blocks=keyed,
        path_offset=paths.offset,
        path_chain=paths.chain,
        reach_blocks=np.where(random.random(n) < 0.1, 0, 1 << 60),
        hold_us=None if alone else hold_us,
        prefill_us=None if alone else hold_us // 3,
    )
    output = None if alone else Output("as_decoded", random.integers(0, 20, n), keyed)
    resets = Resets(
        random.integers(0, 9_000, 9),
        random.integers(0, REPLICAS, 9).astype(np.int32),
        random.random(9) < 0.5,
    )
    rules = {"block_size": size, "capacity_blocks": 60, "ttl_us": 4_000, "log_removals": True}
    given = {"replicas": REPLICAS, "output": output, "resets": resets, **rules}
    whole = replay(traffic, chains, **given)
    assert whole.removals is not None
    assert whole.removals.replica.size > 50
    with LocalEngine(2) as engine:
        found = apart.replay_apart(replay, traffic, chains, engine, **given)
        assert engine.times.summaries()[0].tasks == REPLICAS - 1
    _same(found, whole)
