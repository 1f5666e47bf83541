from __future__ import annotations

import numpy as np
import pytest

from prefixledger.config.scenario import Cache, Match, Pool, Scenario, default_scenario
from prefixledger.errors import InputError, UsageError
from prefixledger.replay.lookups import Log, read_lookups, read_rows
from prefixledger.replay.notes import unreplayed_notes
from prefixledger.replay.pools import assign_pools, pool_block_size, replayed_rows
from stage_support import make_rows, request_table


def test_the_first_pool_that_matches_takes_the_row():
    """Globs on several columns; null matches no glob."""
    scenario = Scenario(
        pool=(
            Pool(match=Match(replica=("h100-*",), model=("m1",))),
            Pool(match=Match(replica=("h100-*",))),
            Pool(),
        )
    )
    rows = make_rows(
        [
            {"replica": "h100-0", "model": "m1"},
            {"replica": "h100-0", "model": "m2"},
            {"replica": "h100-0"},
            {"replica": "a100-0", "model": "m1"},
            {},
        ]
    )

    assert assign_pools(rows, scenario).tolist() == [0, 1, 1, 2, 2]


def test_a_lookup_that_no_pool_takes_is_named():
    """Exit 2 with the request and its line; a row that asks no cache may stay without a pool."""
    scenario = Scenario(pool=(Pool(match=Match(model=("m1",))),))

    rows = make_rows([{"model": "m1"}, {"model": "m2", "status": "failed"}])
    assert assign_pools(rows, scenario).tolist() == [0, -1]

    with pytest.raises(UsageError, match=r"(?s)log.jsonl:2: request 'q2' matches no pool"):
        assign_pools(make_rows([{"model": "m1"}, {"model": "m2"}]), scenario)


def test_a_hosted_row_needs_a_pool_that_speaks_for_it():
    """A scenario without one is refused, with the profiles that exist; a pool that matches or names its profile takes it."""
    rows = make_rows([{"provider": "vllm"}, {"provider": "groq", "model": "llama"}])

    with pytest.raises(
        UsageError, match=r"(?s)'groq' as model 'llama'.*profiles that exist: .*vllm.*anthropic"
    ):
        assign_pools(rows, Scenario(pool=(Pool(cache=Cache(capacity="9 blocks")),)))

    named = Scenario(pool=(Pool(match=Match(provider=("groq",))), Pool()))
    assert assign_pools(rows, named).tolist() == [1, 0]
    assert assign_pools(rows, Scenario(pool=(Pool(cache=Cache(profile="vllm")),))).tolist() == [0, 0]


def test_a_hosted_row_with_usage_only_asks_no_cache():
    """It stands in the books as observed, so nothing has to be simulated for it."""
    rows = make_rows([{"provider": "vllm"}, {"provider": "cerebras", "keyed": False}])

    scenario = default_scenario()
    assert [scenario.pool[n].name for n in assign_pools(rows, scenario).tolist()] == ["engine", "observed"]


@pytest.mark.parametrize(
    ("provider", "model", "pool"),
    [
        ("anthropic", "claude-opus-5-5", "anthropic"),
        ("anthropic", None, "observed"),
        ("bedrock", "us.anthropic.claude-opus-4-7-v1:0", "anthropic-2"),
        ("vertex", "claude-sonnet-4-5@20250929", "anthropic-2"),
        ("openai", "gpt-6.1-sol", "openai"),
        ("azure", "gpt-5.6-terra", "openai"),
        ("vllm", "claude-like", "engine"),
    ],
)
def test_a_hosted_row_has_the_profile_of_its_provider(provider, model, pool):
    """No scenario: models are replayed by their own rules, wherever they are served; no model, no rules."""
    scenario = default_scenario()
    (number,) = assign_pools(make_rows([{"provider": provider, "model": model}]), scenario).tolist()
    assert scenario.pool[number].name == pool


def test_what_has_no_exact_rules_is_no_default():
    """A hosted cache that no profile follows is not replayed as something else: its rows are no lookups."""
    rows = make_rows([{"provider": "cerebras", "model": "glm"}, {"provider": "vllm"}])
    assert replayed_rows(rows, default_scenario()).is_lookup.tolist() == [False, True]
    told = [*unreplayed_notes(Log(replayed_rows(rows, default_scenario()), read_lookups(rows), None))]
    assert told
    assert told[0].startswith("1 requests to cerebras are not replayed")


def test_a_pool_has_one_block_size():
    """Two sizes: both are named, each with a request."""
    rows = make_rows([{"block_size": 16}, {"block_size": 64}, {"block_size": 16}])
    lookups = read_lookups(rows)
    pool = Pool(name="engine")

    assert pool_block_size(pool, rows, lookups, np.asarray([0, 2])) == 16
    with pytest.raises(UsageError, match=r"2 block sizes: 16 \(request 'q1'\), 64 \(request 'q2'\)"):
        pool_block_size(pool, rows, lookups, np.arange(3))


def test_a_log_of_lengths_cannot_be_replayed():
    """The reason is said: nothing tells which tokens two prompts share."""
    with pytest.raises(UsageError, match="no row carries block hashes, token ids or text"):
        make_rows([{"keyed": False}])


def test_an_empty_or_failed_log_is_an_input_error():
    """Exit 3: the question is right, the input has nothing."""
    with pytest.raises(InputError, match="no request"):
        read_rows(request_table([]))
    with pytest.raises(InputError, match="failed"):
        make_rows([{"status": "failed"}])
