"""Routers that are told by KV events what the caches hold: they go by that, and what they did can be replayed as logged."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixledger.config.scenario import parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay.chains import build_chains
from prefixledger.replay.kv_events import KvEvents
from prefixledger.replay.named_events import name_events
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.routers.base import BRANCHES
from stage_support import SECOND, make_log

RATES = "[in_flight]\nresidence = 'none'\nprefill_ms_per_token = 10\ndecode_ms_per_token = 0\n"


def _scenario(routing, mode, more=RATES, *, cache="", replicas=1, options=""):
    router = f"[fleet.router]\nmode = '{mode}'\n{options}\n"
    fleet = f'[fleet]\nrouting = "{routing}"\nreplicas = {replicas}\n'
    return parse_scenario(f"[cache]\n{cache}\n{fleet}{router}{more}")


def _branches(log, scenario):
    (pool,) = make_plan(log, scenario, []).pools
    return [BRANCHES[branch] for branch in pool.branch]


@pytest.mark.parametrize(
    ("routing", "exact"), [("kv-aware", "exact"), ("kv-aware", "auto"), ("llm-d-prefix", "precise")]
)
def test_told_routers_know_what_was_evicted(routing, exact):
    """Room for one prompt of 4 blocks: the second throws out the first, whatever the router sent there before."""
    rows = [
        {"at_us": n * 10 * SECOND, "ids": ids, "prompt_tokens": 65}
        for n, ids in enumerate(([1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [1, 2, 3, 4]))
    ]
    log = make_log(rows)
    known = _branches(log, _scenario(routing, exact, cache='capacity = "5 blocks"'))
    believed = _branches(log, _scenario(routing, "approximate", cache='capacity = "5 blocks"'))
    assert known == ["least_loaded", "least_loaded", "least_loaded", "affinity"]
    assert believed == ["least_loaded", "least_loaded", "affinity", "affinity"]


def test_told_routers_know_of_output_and_of_resets():
    """What was generated is held too; a restart forgets it, and a router that only knows what it sent does not hear of it."""
    rows = [
        {"at_us": 0, "ids": [1], "prompt_tokens": 16, "output_tokens": 40, "session_id": "a"},
        {"at_us": 10 * SECOND, "ids": [1, 2, 3, 4], "prompt_tokens": 65, "session_id": "a"},
        {"at_us": 30 * SECOND, "ids": [1, 2, 3, 4], "prompt_tokens": 65, "session_id": "a"},
    ]
    log = make_log(rows)
    decoded = "[in_flight]\noutput = 'at_release'\nprefill_ms_per_token = 1\ndecode_ms_per_token = 1\n"
    restart = "[[event]]\nat = 1970-01-01T00:00:20Z\nkind = 'restart'\nreplica = 'r0'\n"
    for output, first_hits in ((decoded, 3), (decoded.replace("at_release", "ignore"), 1)):
        scenario = _scenario("kv-aware", "exact", output + restart)
        (pool,) = make_plan(log, scenario, name_events(scenario, ())).pools
        run = run_pool(pool, log, build_chains(log.forest.parent))
        assert run.hit_blocks.tolist() == [0, first_hits, 0]
        assert [BRANCHES[branch] for branch in pool.branch] == ["least_loaded", "affinity", "least_loaded"]


@pytest.mark.parametrize(
    ("lag", "second"), [("0s", "affinity"), ("1s", "affinity"), ("1001ms", "least_loaded")]
)
def test_events_take_their_time(lag, second):
    """A prompt comes again after a second: the router has heard of the first where its events take no longer."""
    log = make_log([{"at_us": n * SECOND, "ids": [1, 2], "prompt_tokens": 33} for n in range(2)])
    scenario = _scenario("kv-aware", "exact", options=f"event_lag = '{lag}'")
    assert _branches(log, scenario) == ["least_loaded", second]
    with pytest.raises(UsageError, match="must not be for ever"):
        _scenario("kv-aware", "exact", options="event_lag = 'none'")


@pytest.mark.parametrize(
    ("cache", "more", "why"),
    [
        ("profile = 'sglang'", RATES, "not 'sglang'"),
        ("profile = 'textbook'", RATES, "not 'textbook'"),
        ("", "[tier]\ncapacity = '9 blocks'\n" + RATES, "lower tier"),
    ],
)
@pytest.mark.parametrize(("routing", "exact"), [("kv-aware", "exact"), ("llm-d-prefix", "precise")])
def test_caches_that_cannot_be_followed_are_refused(cache, more, why, routing, exact):
    """Exit 2 where the router was told to go by them; where it may choose it says what it goes by instead."""
    log = make_log([{"at_us": n * SECOND, "ids": [1, n]} for n in range(4)])
    with pytest.raises(UsageError, match="cannot go by what the caches hold") as refused:
        make_plan(log, _scenario(routing, exact, more, cache=cache), [])
    assert refused.value.exit_code == 2
    assert why in refused.value.message
    assert 'mode = "approximate"' in str(refused.value.hint)
    if routing == "kv-aware":
        notes = make_plan(log, _scenario(routing, "auto", more, cache=cache), []).notes
        assert any("goes by what it sent" in note and why in note for note in notes)


def _busy_rows(count=120):
    """Return growing conversations of 9 sessions that overlap, wait and evict; some are admitted after others that came later."""
    rng = random.Random(5)
    history = {session: [session % 2] for session in range(9)}
    rows, at = [], 0
    for _ in range(count):
        at += rng.randrange(SECOND)
        session = rng.randrange(9)
        ids = history[session] = [
            *history[session],
            *(rng.randrange(10**6) for _ in range(rng.randint(1, 3))),
        ]
        if len(ids) > 14:
            history[session] = [session % 2]
        queued = at + rng.choice([0, 0, rng.randrange(3 * SECOND)])
        first = queued + rng.randrange(SECOND)
        rows.append(
            {
                "at_us": at,
                "ids": ids,
                "prompt_tokens": 16 * len(ids) + rng.choice([0, 5]),
                "output_tokens": rng.randint(1, 40),
                "session_id": str(session),
                "admitted_at": queued,
                "first_token_at": first,
                "finished_at": first + rng.randrange(6 * SECOND),
            }
        )
    return rows


@pytest.mark.parametrize(("routing", "exact"), [("kv-aware", "exact"), ("llm-d-prefix", "precise")])
@pytest.mark.parametrize("residence", ["none", "logged", "estimated"])
def test_what_a_told_router_did_can_be_replayed_as_logged(routing, exact, residence):
    """With its decisions as the replicas of the log every lookup hits as much, and is admitted when it was."""
    rows = _busy_rows()
    rates = f"[in_flight]\nresidence = '{residence}'\noutput = 'as_decoded'\nprefill_ms_per_token = 5\ndecode_ms_per_token = 50\n"
    cache = 'capacity = "40 blocks"'
    log = make_log(rows)
    chains = build_chains(log.forest.parent)
    (routed,) = make_plan(log, _scenario(routing, exact, rates, cache=cache, replicas=3), []).pools
    found = run_pool(routed, log, chains)
    placed = [{**row, "replica": f"r{chosen}"} for row, chosen in zip(rows, routed.replica, strict=True)]
    as_logged = make_log(placed)
    (logged,) = make_plan(as_logged, parse_scenario(f"[cache]\n{cache}\n{rates}"), []).pools
    again = run_pool(logged, as_logged, chains)
    assert len(set(routed.replica.tolist())) == 3
    assert found.hit_blocks.sum() > 100
    assert np.array_equal(found.hit_blocks, again.hit_blocks)
    assert np.array_equal(found.log.admitted_us, again.log.admitted_us)
    assert np.array_equal(found.lookup, again.lookup)


@pytest.mark.parametrize("capacity", [20, 40, 400])
def test_what_a_router_was_told_of_its_choice_is_what_the_lookup_hits(monkeypatch, capacity):
    """With no time in flight nothing comes between: what is held at the arrival, up to the last token, is hit."""
    told = []
    match = KvEvents.match

    def noted(self, lookup, now_us):
        told.append(match(self, lookup, now_us))
        return told[-1]

    monkeypatch.setattr(KvEvents, "match", noted)
    rows = _busy_rows()
    log = make_log(rows)
    none = RATES + "output = 'at_release'\n"
    scenario = _scenario("kv-aware", "exact", none, cache=f'capacity = "{capacity} blocks"', replicas=3)
    (pool,) = make_plan(log, scenario, []).pools
    run = run_pool(pool, log, build_chains(log.forest.parent))
    held = [each[chosen] for each, chosen in zip(told, pool.replica.tolist(), strict=True)]
    cap = [(row["prompt_tokens"] - 1) // 16 for row in rows]
    assert run.lookup.tolist() == list(range(len(rows)))
    assert run.hit_blocks.tolist() == [min(pair) for pair in zip(held, cap, strict=True)]
    assert run.hit_blocks.sum() > 100
