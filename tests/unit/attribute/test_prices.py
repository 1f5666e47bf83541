"""Rate cards as tables: which card applies when, and what a write costs under the TTL of a pool."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from prefixledger.attribute.prices import price_tables
from prefixledger.config.scenario import parse_scenario
from prefixledger.economics.rates import SLOT_US

SCHEMA = pa.schema(
    [
        ("pool", pa.int32()),
        ("provider", pa.string()),
        ("model", pa.string()),
        ("service_tier", pa.string()),
        ("inference_geo", pa.string()),
        ("slot", pa.int64()),
        ("basis", pa.string()),
    ]
)
NOW = 1_795_000_000_000_000 // SLOT_US  # November 2026


def _uses(*rows: tuple) -> pa.Table:
    named = [(*row[:3], None, None, *row[3:]) for row in rows]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in named], schema=SCHEMA)


def test_a_write_is_priced_under_the_ttl_of_its_pool() -> None:
    """A pool with a 1-hour TTL pays the 1-hour price, one with 5 minutes the short one."""
    scenario = parse_scenario(
        """
        [[pool]]
        match = { model = "a" }
        [pool.cache]
        ttl = "1h"
        [[pool]]
        [pool.cache]
        ttl = "5m"
        [pricing]
        rates = "claude-opus-5-5"
        """
    )
    tables = price_tables(_uses((0, None, "a", NOW, "simulated"), (1, None, "b", NOW, "simulated")), scenario)
    assert [row["write_price"] * 1_000_000 for row in tables.cards.to_pylist()] == [8, 5]
    assert [row["card"] for row in tables.prices.to_pylist()] == [0, 1]
    assert tables.used[0].card == tables.used[1].card


def test_equal_cards_are_one() -> None:
    """Engine rows of all models and times share one card."""
    uses = _uses((0, None, "a", NOW, "simulated"), (0, "vllm", "b", NOW + 1, "simulated"))
    tables = price_tables(uses, parse_scenario(""))
    assert len(tables.used) == 1
    assert [row["card"] for row in tables.prices.to_pylist()] == [0, 0]
    assert tables.cards.to_pylist()[0]["base_price"] == 1


def test_tiers_meet_without_gap() -> None:
    """Each length of prompt falls into exactly one tier."""
    scenario = parse_scenario('[pricing]\nrates = "claude-haiku-5-5"')
    rows = price_tables(_uses((0, None, "a", NOW, "simulated")), scenario).prices.to_pylist()
    assert [(row["above_tokens"], row["upto_tokens"]) for row in rows] == [(-1, 100_000), (100_000, 2**62)]


@pytest.mark.parametrize(
    ("provider", "basis", "currency"),
    [
        ("anthropic", "observed", "USD"),
        ("anthropic", "simulated", "prefill tokens"),
        ("vllm", "observed", "prefill tokens"),
        (None, "observed", "prefill tokens"),
    ],
)
def test_only_hosted_usage_pays_by_model_by_default(provider: str | None, basis: str, currency: str) -> None:
    """An engine that was named for hosted rows keeps its default, and so does usage of an engine."""
    tables = price_tables(_uses((0, provider, "claude-opus-5-5", NOW, basis)), parse_scenario(""))
    assert tables.cards["currency"].to_pylist() == [currency]


def test_given_rates_are_kept_for_hosted_usage() -> None:
    """Rates of the scenario come before any default; a row that no pool takes has them too."""
    scenario = parse_scenario("[pricing]\nrates = { base = 1.0, write = 1.0, read = 0.5, output = 0.0 }")
    tables = price_tables(_uses((None, "anthropic", None, NOW, "observed")), scenario)
    assert tables.cards["read_price"].to_pylist() == [Decimal("0.0000005")]
