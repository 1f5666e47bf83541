"""Routers that draw are replayed under several seeds: each draw is that of a replay under its seed, and the books say so."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from prefixledger.attribute.marts import marts
from prefixledger.attribute.spread import spread_of
from prefixledger.attribute.window import Window
from prefixledger.config.registry import ROUTINGS
from prefixledger.config.scenario import dump, parse_scenario
from prefixledger.errors import InternalError
from prefixledger.replay.plan import make_plan, placed_anew
from prefixledger.replay.routing import draws
from prefixledger.replay.stage import replay_log
from replayed import booked
from stage_support import SECOND, make_log

DRAWS = (
    "random",
    "least-loaded",
    "kv-aware",
    "llm-d-prefix",
    "production-stack-prefix",
    "aibrix-prefix",
    "ray-prefix",
)
"""Of routers with nothing else to go by, or with ties: each by its source."""


def _rows(count=60, **fields):
    """Return requests of 7 prefixes of 3 blocks, each with a tail of its own, two of them always at the same time."""
    return [
        {
            "at_us": n // 2 * SECOND,
            "ids": [100 * (n % 7) + k for k in range(3)] + [10_000 + n],
            "prompt_tokens": 70,
            "finished_at": (n // 2 + 1) * SECOND,
            "session_id": f"s{n % 11}",
            **fields,
        }
        for n in range(count)
    ]


def _text(routing, more="", replicas=3):
    return f'{more}\n[cache]\ncapacity = "24 blocks"\n[fleet]\nrouting = "{routing}"\nreplicas = {replicas}\n'


def _scenario(routing, more="", replicas=3):
    return parse_scenario(_text(routing, more, replicas))


@pytest.mark.parametrize("routing", [name for name in ROUTINGS if name != "as-logged"])
def test_a_router_draws_or_places_the_same_under_every_seed(routing):
    """What is said not to draw never changes with the seed; what is said to draw does for some seed."""
    log = make_log(_rows())
    (plan,) = make_plan(log, _scenario(routing), []).pools
    others = [placed_anew(plan, log, seed).replica for seed in range(1, 5)]
    changed = [not np.array_equal(plan.replica, other) for other in others]
    assert draws(routing, plan.branch) == (routing in DRAWS)
    assert any(changed) == (routing in DRAWS)


def test_hash_routers_draw_for_prompts_below_one_block():
    """No key to hash: such a prompt goes anywhere, so the pool has a spread."""
    log = make_log([*_rows(), {"at_us": 99 * SECOND, "ids": [], "prompt_tokens": 5}])
    for routing in ("prefix-hash", "consistent-hash"):
        (plan,) = make_plan(log, _scenario(routing, '[in_flight]\nresidence = "none"'), []).pools
        assert draws(routing, plan.branch)


def test_each_draw_is_the_replay_under_that_seed():
    """Hits of draw n, request by request, are those of a scenario whose seed is n more."""
    log = make_log(_rows())
    files, found = replay_log(log, _scenario("random", "seed = 7\nseeds = 3"), [])
    rows = files["draws.parquet"].to_pydict()
    hits = {}
    for draw, lookup, tokens in zip(rows["draw"], rows["lookup"], rows["hit_tokens"], strict=True):
        hits.setdefault(draw, {})[lookup] = tokens
    assert sorted(hits) == [0, 1, 2]
    for draw, of_lookup in hits.items():
        alone, its = replay_log(log, _scenario("random", f"seed = {7 + draw}\nseeds = 1"), [])
        facts = alone["lookup_facts.parquet"].to_pydict()
        row_of = dict(zip(facts["request_row"], facts["hit_blocks"], strict=True))
        here = files["lookup_facts.parquet"].to_pydict()
        assert [of_lookup[n] for n in here["lookup"]] == [16 * row_of[row] for row in here["request_row"]]
        assert found.pools[0].drawn_hit_tokens[draw] == its.hit_tokens
        assert its.pools[0].drawn_hit_tokens == ()
        assert alone["draws.parquet"].num_rows == 0
    assert len(set(found.drawn_hit_rates)) > 1
    assert found.drawn_hit_rates[0] == found.token_hit_rate
    assert "seeds = 3" in dump(_scenario("random", "seeds = 3"))


def test_the_spread_of_a_window_is_in_the_marts_and_closes(tmp_path):
    """Draw 0 is the book itself in any window; a draw that says otherwise stops the report."""
    workspace = booked(tmp_path, _rows(), 16, _text("random"))
    whole, half = Window(0, 10**12), Window(5 * SECOND, 20 * SECOND)
    for window in (whole, half):
        found = marts(workspace, "as-is", window)
        (total,) = [row for row in found.totals.to_pylist() if row["basis"] == "all"]
        rows = found.by_draw.to_pylist()
        (balance,) = found.balance.to_pylist()
        assert [row["draw"] for row in rows] == [0, 1, 2, 3, 4]
        assert rows[0]["hit_tokens"] == total["hit_tokens"]
        assert rows[0]["imbalance_prefill"] == pytest.approx(balance["imbalance_prefill"])
        assert {row["prompt_tokens"] for row in rows} == {total["prompt_tokens"]}
        spread = spread_of(found.by_draw, total["hit_tokens"], total["prompt_tokens"])
        rates = [row["hit_tokens"] / total["prompt_tokens"] for row in rows]
        assert (spread.seeds, spread.low, spread.high) == (5, min(rates), max(rates))
    path = workspace.replay("as-is") / "draws.parquet"
    table = pq.read_table(path)
    hits = table["hit_tokens"].to_numpy().copy()
    hits[3] += 16
    pq.write_table(table.set_column(4, table.schema.field(4), [hits]), path)
    with pytest.raises(InternalError, match="draws_close"):
        marts(workspace, "as-is", whole)
