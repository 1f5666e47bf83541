"""Routers in a replay: what they refuse, the load that they see, and how their decisions reach the books."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from prefixledger import attribute
from prefixledger.config.scenario import dump, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay.named_events import name_events
from prefixledger.replay.plan import make_plan
from prefixledger.replay.routers.base import BRANCHES
from prefixledger.replay.routers.times import flight_times
from prefixledger.replay.stage import replay_log
from replayed import booked
from stage_support import SECOND, make_log


def _rows(count=6, **fields):
    return [{"at_us": n * SECOND, "ids": [1, 2, n], **fields} for n in range(count)]


def _scenario(routing, more="", replicas=3):
    return parse_scenario(f'[fleet]\nrouting = "{routing}"\nreplicas = {replicas}\n{more}')


RATES = "[in_flight]\nresidence = 'none'\nprefill_ms_per_token = 10\ndecode_ms_per_token = 0\n"


@pytest.mark.parametrize(
    "routing",
    [
        "least-loaded",
        "consistent-hash",
        "cache-aware",
        "kv-aware",
        "llm-d-prefix",
        "aibrix-prefix",
        "ray-prefix",
    ],
)
def test_a_router_that_goes_by_load_needs_one(routing):
    """Without ends in the log and without rates: exit 2, with what to give. With rates it works under residence none."""
    log = make_log(_rows())
    with pytest.raises(UsageError, match="nothing says how long one lasts") as refused:
        make_plan(log, _scenario(routing), [])
    assert refused.value.exit_code == 2
    assert "prefill_ms_per_token" in str(refused.value.hint)
    plan = make_plan(log, _scenario(routing, RATES), [])
    assert plan.pools[0].residence.mode == "none"
    assert any("estimated end" in note for note in plan.notes)


def test_session_routing_needs_sessions():
    """A log without session ids is refused; rows without one are counted and told."""
    with pytest.raises(UsageError, match="goes by session ids"):
        make_plan(make_log(_rows()), _scenario("session"), [])
    some = [*_rows(4, session_id="a"), {"at_us": 9 * SECOND, "ids": [5]}]
    plan = make_plan(make_log(some), _scenario("session"), [])
    assert len(set(plan.pools[0].replica[:4].tolist())) == 1
    assert any("1 lookups have no session id" in note for note in plan.notes)


def test_flight_times_are_logged_ends_then_rates():
    """A logged end counts from arrival, queueing included; a row without one is estimated, or no load without rates."""
    rows = [
        {"at_us": 0, "ids": [1], "finished_at": 7 * SECOND, "first_token_at": 2 * SECOND},
        {"at_us": SECOND, "ids": [2], "prompt_tokens": 20, "output_tokens": 3},
    ]
    log = make_log(rows)
    mine = log.lookups.request_row
    bare = flight_times(_scenario("cache-aware").pool[0], log.lookups, mine)
    assert bare.source == "logged"
    assert bare.end_us.tolist() == [7 * SECOND, SECOND]
    assert bare.first_token_us.tolist() == [2 * SECOND, SECOND]
    assert "1 lookups have no logged end and are no load" in bare.notes[1]
    rates = "[in_flight]\nprefill_ms_per_token = 100\ndecode_ms_per_token = 1000\n"
    rated = flight_times(_scenario("cache-aware", rates).pool[0], log.lookups, mine)
    assert rated.end_us.tolist() == [7 * SECOND, SECOND + 5 * SECOND]
    assert rated.first_token_us.tolist() == [2 * SECOND, 3 * SECOND]
    estimated = rates.replace("[in_flight]", "[in_flight]\nresidence = 'estimated'")
    assert flight_times(_scenario("cache-aware", estimated).pool[0], log.lookups, mine).end_us[0] == 1_700_000


def test_options_of_another_router_are_refused_and_defaults_are_printed():
    """Nothing falls back: an unknown option names those that exist; a dump reads back as it was."""
    with pytest.raises(UsageError, match="routing 'cache-aware' has no option 'cache_treshold'") as wrong:
        _scenario("cache-aware", "[fleet.router]\ncache_treshold = 0.4\n")
    assert "did you mean 'cache_threshold'" in str(wrong.value.hint)
    with pytest.raises(UsageError, match="routing 'random' has no option"):
        _scenario("random", "[fleet.router]\nvnodes = 3\n")
    with pytest.raises(UsageError, match="there is no mode 'precise'") as wrong:
        _scenario("kv-aware", "[fleet.router]\nmode = 'precise'\n")
    assert "modes that exist: auto, exact, approximate" in str(wrong.value.hint)
    text = dump(_scenario("consistent-hash", "[fleet.router]\nform = 'sglang'\nfactor = 2\n"))
    for line in ("vnodes = 150", "factor = 2.0", 'overflow = "least-loaded"', 'exhausted = "owner"'):
        assert line in text
    assert dump(parse_scenario(text)) == text


def test_a_copy_with_another_routing_gets_the_defaults_of_that():
    """What-ifs change the routing of parts that were read before."""
    fleet = _scenario("cache-aware", "[fleet.router]\ncache_threshold = 0.9\n").pool[0].fleet
    assert fleet.options.cache_threshold == 0.9
    assert fleet.model_copy(update={"routing": "kv-aware"}).options.ttl == "120s"
    assert (
        fleet.model_copy(update={"routing": "random"}).options == type(fleet).model_fields["router"].default
    )


def test_the_branch_reaches_lookups_and_misses(tmp_path):
    """A misrouted miss says where the prefix is and which rule of the router sent the request elsewhere."""
    rows = [
        {"at_us": n * SECOND, "ids": [1, 2, 3], "prompt_tokens": 49, "finished_at": (100 + n) * SECOND}
        for n in range(4)
    ]
    scenario = (
        'name = "as-is"\n[fleet]\nrouting = "cache-aware"\nreplicas = 2\n'
        "[fleet.router]\nbalance_abs_threshold = 2\nbalance_rel_threshold = 1.0\n"
        '[in_flight]\nresidence = "none"\n'
    )
    workspace = booked(tmp_path, rows, 16, scenario)
    lookups = pq.read_table(workspace.replay("as-is") / "lookups.parquet").to_pylist()
    assert [row["route_branch"] for row in lookups] == ["least_loaded", "affinity", "affinity", "imbalance"]
    misses = pq.read_table(workspace.replay("as-is") / "misses.parquet").to_pylist()
    (lost,) = (row for row in misses if row["cause"] == "misrouted")
    assert (lost["replica"], lost["detail"], lost["route_branch"]) == ("r1", "r0", "imbalance")
    marts = attribute.marts(workspace, "as-is", attribute.default_window(workspace))
    told = {row["route_branch"]: row["miss_misrouted_tokens"] for row in marts.by_branch.to_pylist()}
    assert told == {"affinity": 0, "imbalance": 48, "least_loaded": 0}
    (balance,) = marts.balance.to_pylist()
    assert (balance["n_replicas"], balance["imbalance_requests"]) == (2, 1.5)
    assert balance["peak_in_flight"] is None


def test_waiting_and_peaks_are_those_of_the_simulation(tmp_path):
    """Three prompts that fill the cache queue up on one replica: one runs, and the others wait their turn."""
    rows = [
        {
            "at_us": n * SECOND,
            "ids": [10 * n, 10 * n + 1],
            "prompt_tokens": 33,
            "finished_at": (10 + n) * SECOND,
        }
        for n in range(3)
    ]
    scenario = (
        'name = "as-is"\n[cache]\ncapacity = "3 blocks"\n[fleet]\nrouting = "random"\nreplicas = 1\n'
        '[in_flight]\noutput = "ignore"\n'
    )
    workspace = booked(tmp_path, rows, 16, scenario)
    marts = attribute.marts(workspace, "as-is", attribute.default_window(workspace))
    (replica,) = marts.by_replica.to_pylist()
    assert replica["peak_in_flight"] == 1
    assert replica["waited_us"] == (0 + 9 + 18) * SECOND
    assert replica["longest_wait_us"] == 18 * SECOND


def test_the_unit_of_a_memory_is_told():
    """llm-d's 64 tokens are 4 blocks of this log; a character is less than one."""
    log = make_log(_rows())
    for routing, tokens in (("llm-d-prefix", 64), ("production-stack-prefix", 32), ("ray-prefix", 16)):
        plan = make_plan(log, _scenario(routing, RATES), [])
        assert any(f"in full blocks of {tokens} tokens" in note for note in plan.notes)
    assert not any(
        "full blocks of" in note for note in make_plan(log, _scenario("kv-aware", RATES), []).notes
    )


@pytest.mark.parametrize(
    ("routing", "least", "most"), [("consistent-hash", 0.1, 0.35), ("prefix-hash", 0.7, 0.9)]
)
def test_adding_a_replica_moves_few_keys_on_a_ring_and_most_by_modulo(routing, least, most):
    """200 prefixes before and after a fifth replica: a ring moves about 1 in 5 of them, modulo 4 in 5.

    Whoever moved finds its prefix on the old replica and misses it on the new one.
    """
    rows = [{"at_us": n * SECOND, "ids": [n % 200, 1000 + n % 200], "prompt_tokens": 33} for n in range(400)]
    options = "[pool.fleet.router]\nfactor = 0\n" if routing == "consistent-hash" else ""
    scenario = parse_scenario(
        "[[event]]\nat = 1970-01-01T00:03:20Z\nkind = 'scale'\nreplicas = 5\n"
        f"[[pool]]\n[pool.fleet]\nrouting = '{routing}'\nreplicas = 4\nprefix_tokens = 32\n{options}"
    )
    log = make_log(rows)
    spread = log.forest.key * np.uint64(0x9E3779B97F4A7C15)  # keys of a real log are hashes
    log = replace(log, forest=replace(log.forest, key=spread))
    files, _ = replay_log(log, scenario, name_events(scenario, ()))
    facts = files["lookup_facts.parquet"].to_pylist()
    moved = [new["replica"] != old["replica"] for old, new in zip(facts[:200], facts[200:], strict=True)]
    assert least < sum(moved) / 200 < most
    assert [row["hit_blocks"] for row in facts[200:]] == [0 if gone else 2 for gone in moved]
    if routing == "consistent-hash":
        assert {new["replica"] for new, gone in zip(facts[200:], moved, strict=True) if gone} == {4}


def test_as_logged_has_no_branch():
    """The log chose, and nothing says why."""
    log = make_log(_rows(replica="a"))
    files, _ = replay_log(log, parse_scenario(""), [])
    assert files["lookup_facts.parquet"]["route_branch"].null_count == 6
    placed, _ = replay_log(log, _scenario("round-robin"), [])
    assert set(placed["lookup_facts.parquet"]["route_branch"].to_pylist()) == {"turn"}
    assert "turn" in BRANCHES
