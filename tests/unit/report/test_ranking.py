"""Routings compared in words: why one hits more, and what that does to the busiest replica."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema

import report_data
from prefixledger.attribute.cell import Cell
from prefixledger.config.grid import axes_of
from prefixledger.config.scenario import parse_scenario
from prefixledger.report.load_parts import RoutingOption
from prefixledger.report.ranking import melting, options_of, ranking
from prefixledger.report.render import html
from prefixledger.report.tables import tables
from prefixledger.report.twin import twin
from prefixledger.resources import read_text

RANDOM = RoutingOption(
    "random", 2000, 1_000_000, 610_000, 0.26, 4, "a", misses={"misrouted": 300_000, "cold": 90_000},
    busiest_prefill_tokens=101_000, imbalance_requests=1.04, imbalance_prefill=1.04,
    seeds=5, rate_low=0.608, rate_high=0.612,
)  # fmt: skip
HASH = RoutingOption(
    "prefix-hash", 2000, 1_000_000, 900_000, 0.51, 4, "b", misses={"evicted": 10_000, "cold": 90_000},
    busiest_prefill_tokens=55_000, imbalance_requests=2.04, imbalance_prefill=2.2,
)  # fmt: skip
EVEN = RoutingOption(
    "cache-aware", 2000, 1_000_000, 880_000, 0.3, 4, "c", misses={"misrouted": 30_000, "cold": 90_000},
    busiest_prefill_tokens=33_000, imbalance_requests=1.2, imbalance_prefill=1.1, peak_in_flight=9, waited_us=2_500_000,
)  # fmt: skip


def test_the_ranking_says_why_and_at_what_price() -> None:
    """Best first; causes by what they moved against random; who melts a replica is named, and who is best without."""
    told = ranking((RANDOM, EVEN, HASH))
    assert told[0] == (
        "1. prefix-hash hits 90.0 %, 29.0 points more than random, because it takes away 30.0 points of misrouted misses "
        "but adds 1.0 points of evicted misses, at the price of an uneven load: its busiest replica has 2.04 times the mean "
        "of the requests and 2.20 times the mean of the prefill; it melts a replica."
    )
    assert told[1].startswith(
        "2. cache-aware hits 88.0 %, 27.0 points more than random, because it takes away 27.0 points"
    )
    assert "with an even load" in told[1]
    assert told[2].startswith("3. random hits 61.0 % (60.8\N{EN DASH}61.2 % over 5 seeds)")
    assert told[3].startswith(
        "The best hit rate comes from melting a replica: under prefix-hash one of 4 replicas is asked 51.0 % of the requests"
    )
    assert "though it computes 55,000 tokens, fewer than the 101,000 of the busiest under random" in told[3]
    assert told[4] == (
        "Of those that melt none, cache-aware hits most: 88.0 %, 2.0 points less than prefix-hash."
    )
    assert len(told) == 5


def test_more_work_on_the_busiest_replica_is_said_whatever_the_fleet_hits() -> None:
    """A winner whose busiest replica computes more than any other's is full first."""
    heavy = replace(HASH, busiest_prefill_tokens=202_000)
    (text,) = [t for t in ranking((RANDOM, heavy)) if t.startswith("The best")]
    assert "2.00 times as many as the busiest under random: that replica is full first" in text


def test_nobody_melts_where_no_routing_spreads_the_load_better() -> None:
    """A giant request mix is not the router's fault; pools are not each other's measure."""
    assert melting((RANDOM, HASH)) == (False, True)
    assert melting((HASH, replace(HASH, routing="session"))) == (False, False)
    assert melting((RANDOM, replace(HASH, pool="other"))) == (False, False)
    assert ranking((HASH,)) == ()
    assert ranking((RANDOM, replace(RANDOM, prompt_tokens=0))) == ()


def test_what_seeds_cannot_tell_apart_is_said() -> None:
    """Two routings whose ranges overlap are not ranked by an accident."""
    near = replace(RANDOM, routing="least-loaded", hit_tokens=609_000, rate_low=0.606, rate_high=0.609)
    assert any("random and least-loaded cannot be told apart" in text for text in ranking((RANDOM, near)))
    far = replace(near, rate_high=0.607)
    assert not any("cannot be told apart" in text for text in ranking((RANDOM, far)))


def test_page_twin_and_csv_have_the_table() -> None:
    """One row per routing with range, causes and load; the words below it; the schema holds."""
    view = report_data.week(routing=(RANDOM, EVEN, HASH))
    value = json.loads(json.dumps(twin(view), allow_nan=False))
    jsonschema.validate(value, json.loads(read_text("reports", "schema/report.schema.json")))
    rows = {row["routing"]: row for row in value["routing"]}
    assert (rows["random"]["seeds"], rows["random"]["token_hit_rate_low"]) == (5, 0.608)
    assert [rows[name]["melts_a_replica"] for name in ("random", "cache-aware", "prefix-hash")] == [
        False,
        False,
        True,
    ]
    assert rows["prefix-hash"]["by_cause"] == {"evicted": 10_000, "cold": 90_000}
    assert rows["cache-aware"]["waited_s"] == 2.5
    assert value["ranking"] == list(ranking(view.routing))
    page = html(view)
    assert "60.8\N{EN DASH}61.2 % over 5 seeds" in page
    assert page.count("melts a replica") == 2
    (table,) = [t for t in tables(value) if t.name == "routing.csv"]
    assert "miss_misrouted_tokens" in table.columns
    assert len(table.rows) == 3


def test_a_cell_is_judged_by_the_replicas_that_share_a_load() -> None:
    """A hosted cache beside the fleet has no routing and no share of its load."""
    rows = [(0, "r0", 30), (0, "r1", 10), (1, "(all)", 60)]
    cell = Cell(
        axes={"routing": "random"},
        totals={
            "requests": 100, "prompt_tokens": 1000, "hit_tokens": 500, "token_hit_rate": 0.5, "seeds": 1,
            "token_hit_rate_low": 0.5, "token_hit_rate_high": 0.5, "imbalance_requests": 1.5, "imbalance_prefill": 1.0,
            "busiest_prefill_tokens": 100,
        },
        misses={"by_cause": {"cold": 500}},
        cost=None,
        costs=(),
        replicas=tuple({"pool": pool, "replica": name, "requests": n} for pool, name, n in rows),
    )  # fmt: skip
    (option,) = options_of([cell])
    assert (option.replicas, option.largest_share, option.spread) == (2, 0.75, None)
    scenario = parse_scenario(
        "[[pool]]\nmatch = { provider = 'vllm' }\n[pool.fleet]\nrouting = 'random'\nreplicas = 8\n"
        "[[pool]]\n[pool.cache]\nprofile = 'anthropic'\n"
    )
    axes = axes_of(scenario, (0, 1))
    assert (axes["routing"], axes["replicas"], axes["capacity"]) == ("random", 8, "unlimited")
    assert axes["ttl"] == "none / 5m"
