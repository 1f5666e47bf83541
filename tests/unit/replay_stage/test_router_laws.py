"""What holds for every router: seeds, bounds, independence, and what a new replica moves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.config import routers as options
from prefixledger.replay.routing import STATEFUL
from router_support import sent

LONG = 1000


def _mixed(count, seed):
    draw = np.random.default_rng(seed)
    return [
        {
            "at": n / 10,
            "ids": [int(draw.integers(6)), 10 + int(draw.integers(9)), 100 + n],
            "hold": float(draw.integers(1, 60)) / 10,
            "first": 0.1,
            "session": int(draw.integers(9)),
        }
        for n in range(count)
    ]


@pytest.mark.parametrize("routing", STATEFUL)
def test_the_seed_decides_everything_that_is_drawn(routing):
    """The same seed gives the same placement, and every request is placed on somebody who lives."""
    rows = _mixed(200, 1)
    first = sent(routing, rows, replicas=5, seed=3)
    assert first == sent(routing, rows, replicas=5, seed=3)
    assert {replica for replica, _ in first} <= set(range(5))
    if routing not in ("session", "consistent-hash", "cache-aware"):
        assert any(first != sent(routing, rows, replicas=5, seed=seed) for seed in range(4, 8))


@pytest.mark.parametrize("routing", ["session", "consistent-hash"])
@given(kept=st.sets(st.integers(0, 59), min_size=1))
@settings(max_examples=25, deadline=None)
def test_hashing_does_not_depend_on_others(routing, kept):
    """Without a bound a request goes where its key says, whoever else is there."""
    rows = [{"name": n, **row} for n, row in enumerate(_mixed(60, 2))]
    given = options.ConsistentHash(factor=0) if routing == "consistent-hash" else None
    whole = sent(routing, rows, given, replicas=5)
    assert sent(routing, [rows[n] for n in sorted(kept)], given, replicas=5) == [
        whole[n] for n in sorted(kept)
    ]


def _keys(count):
    return [{"at": n, "ids": [n]} for n in range(count)]


@pytest.mark.parametrize("form", ["kubeai", "sglang", "haproxy", "envoy"])
def test_a_ring_moves_one_key_in_n_and_modulo_nearly_all(form):
    """From 8 to 9 replicas: about 1/9 of the keys move, all of them to the new one; modulo moves 8 in 9.

    Envoy keeps the size of its ring, so a new replica takes points from the others and some more keys move.
    """
    ring = options.ConsistentHash(form=form, factor=0)
    before, after = (
        [replica for replica, _ in sent("consistent-hash", _keys(3000), ring, replicas=n)] for n in (8, 9)
    )
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert 0.05 < len(moved) / 3000 < (0.25 if form == "envoy" else 0.2)
    if form != "envoy":
        assert set(moved) == {8}
    before, after = ([replica for replica, _ in sent("prefix-hash", _keys(3000), replicas=n)] for n in (8, 9))
    assert np.mean(np.asarray(before) != np.asarray(after)) == pytest.approx(8 / 9, abs=0.03)


_BOUND = {
    "kubeai": lambda load, total, n, f: load <= f * (total + 1) / n,
    "sglang": lambda load, total, n, f: load <= f * (total + 1) / n,
    "sglang-bounded": lambda load, total, n, f: load <= f * total / n,
    "paper": lambda load, total, n, f: load + 1 <= np.ceil(f * (total + 1) / n),
    "haproxy": lambda load, total, n, f: load < max(1, np.ceil(np.ceil(f * (total + 1)) / n)),
    "envoy": lambda load, total, n, f: load <= max(1, np.ceil(np.ceil(f * (total + 1)) / n)),
}


@pytest.mark.parametrize("form", sorted(_BOUND))
@pytest.mark.parametrize("factor", [1.25, 2.0])
def test_a_bounded_load_never_exceeds_its_bound(form, factor):
    """One hot key, 6 replicas: whoever is chosen was within the bound of its form, and some requests overflow."""
    rows = [{"at": n / 10, "ids": [1 if n % 3 else n], "hold": 2 + n % 7} for n in range(400)]
    found = sent("consistent-hash", rows, options.ConsistentHash(form=form, factor=factor), replicas=6)
    ends = []
    for row, (replica, why) in zip(rows, found, strict=True):
        ends = [(end, other) for end, other in ends if end > row["at"]]
        load = sum(other == replica for _, other in ends)
        assert why in ("hash", "overload")
        assert _BOUND[form](load, len(ends), 6, factor)
        ends.append((row["at"] + row["hold"], replica))
    assert {why for _, why in found} == {"hash", "overload"}


def test_overflow_orders_differ():
    """Clockwise and by permutation spread one hot key in a fixed order; least-loaded takes the emptiest."""
    rows = [{"at": n / 100, "ids": [1], "hold": LONG} for n in range(12)]
    orders = {
        overflow: [
            r for r, _ in sent("consistent-hash", rows, options.ConsistentHash(overflow=overflow), replicas=4)
        ]
        for overflow in ("clockwise", "permutation", "least-loaded")
    }
    owner = orders["clockwise"][0]
    assert all(order[0] == owner for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) > 1
    for order in orders.values():
        assert max(np.bincount(order)) <= 1 + 1.25 * 12 / 4


def test_no_hashing_form_lets_the_ring_start_elsewhere():
    """The nearest point may lie before the key; the next one never does."""
    nearest, following = (
        sent(
            "consistent-hash", _keys(300), options.ConsistentHash(start=start, vnodes=1, factor=0), replicas=4
        )
        for start in ("nearest", "next")
    )
    assert 0.1 < np.mean([a != b for a, b in zip(nearest, following, strict=True)]) < 0.9


def test_prompts_below_one_block_are_routed_too():
    """No key to go by: drawn, least loaded or in turn, but never refused."""
    rows = [{"at": n, "hold": 0.5, "session": n} for n in range(20)]
    for routing in STATEFUL:
        assert len(sent(routing, rows, replicas=3)) == 20
