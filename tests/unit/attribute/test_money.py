"""From a log to money: hand sums for every provider, who pays, what was written for nothing, and days as people count them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from prefixledger import attribute
from prefixledger.attribute.shared_costs import moved_costs, share
from prefixledger.attribute.window import Window, days
from prefixledger.config.scenario import parse_scenario
from prefixledger.config.units import datetime_us
from prefixledger.replay import run
from stage_support import MINUTE, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.attribute import Marts

NOON = datetime_us(datetime(2026, 11, 24, 12, tzinfo=UTC))
BY_MODEL = 'name = "money"\n[pricing]\nrates = "by-model"\n'

# (provider, model, uncached, read, written for 5 minutes, for an hour, for another time, output, tier, millionths of a dollar)
INVOICE = (
    # 1000 · 4 + 2000 · 0.2 + 300 · 5 + 400 · 8 + 50 · 20
    ("anthropic", "claude-opus-5-5", 1000, 2000, 300, 400, None, 50, None, "10100"),
    # Half of all: 2000 + 200 + 750 + 1600 + 500
    ("anthropic", "claude-opus-5-5", 1000, 2000, 300, 400, None, 50, "batch", "5050"),
    # All of it computed in the United States, as the service says: 10100 · 1.1
    ("anthropic", "claude-opus-5-5", 1000, 2000, 300, 400, None, 50, "us", "11110"),
    # At 100,000 tokens the cheap price holds, one more makes every token five times as dear, read ones too.
    ("anthropic", "claude-haiku-5-5", 1, 99_999, None, None, None, 0, None, "1000.09"),
    ("anthropic", "claude-haiku-5-5", 1, 100_000, None, None, None, 0, None, "5000.5"),
    # 1000 · 2 + 2000 · 0.1 + 300 · 2.5 + 50 · 10, and half of it in a batch
    ("openai", "gpt-6.1-sol", 1000, 2000, None, None, 300, 50, None, "3450"),
    ("openai", "gpt-6.1-sol", 1000, 2000, None, None, 300, 50, "batch", "1725"),
    # 1000 · 0.75 + 2000 · 0.075 + 50 · 3.75
    ("google", "gemini-3.8-flash", 1000, 2000, None, None, None, 50, None, "1087.5"),
    # A regional endpoint: 1000 · 4.4 + 2000 · 0.22 + 300 · 5.5 + 400 · 8.8 + 50 · 22
    ("aws", "us.anthropic.claude-opus-5-5", 1000, 2000, 300, 400, None, 50, None, "11110"),
    # 1000 · 0.8 + 2000 · 0.2 + 50 · 3.2
    ("aws", "amazon.nova-pro-v1:0", 1000, 2000, None, None, None, 50, None, "1360"),
    ("azure", "gpt-4.1", 1000, 2000, None, None, None, 50, None, "3400"),  # 2, 0.5, 8
    ("deepseek", "deepseek-flash", 1000, 2000, None, None, None, 50, None, "186"),  # off-peak: 0.15, 0.003, 0.6
    ("x-ai", "grok-4.5", 1000, 2000, None, None, None, 50, None, "2900"),  # 2, 0.3, 6
    ("mistral", "mistral-large-latest", 1000, 2000, None, None, None, 50, None, "6300"),  # 2 for all input, 6
    ("moonshotai", "kimi-k3", 1000, 2000, 300, 400, None, 50, None, "7650"),  # 3, 0.3, 3, 6, 15
    ("groq", "openai/gpt-oss-120b", 1000, 2000, None, None, None, 50, None, "330"),  # 0.15, 0.075, 0.6
    ("fireworks", "accounts/fireworks/models/kimi-k2p6", 1000, 2000, None, None, None, 50, None, "1470"),
    ("openrouter", "anthropic/claude-opus-4.5", 1000, 2000, 300, None, None, 50, None, "9125"),  # 5, 0.5, 6.25, 25
    ("zai", "glm-4.6", 1000, 2000, None, None, None, 50, None, "930"),  # 0.6, 0.11, 2.2
    ("minimax", "minimax-m2", 1000, 2000, 300, None, None, 50, None, "532.5"),  # 0.3, 0.03, 0.375, 1.2
    ("cohere", "command-r", 1000, 2000, None, None, None, 50, None, "480"),  # 0.15 for all input, 0.6
)  # fmt: skip


def usage(
    at_us: int, uncached: int, read: int, short: int | None, hour: int | None, other: int | None, output: int
) -> dict[str, Any]:
    """Return a row with usage and no keys."""
    return {
        "at_us": at_us, "keyed": False, "block_size": 0, "n_blocks": 0, "usage_state": "present", "output_tokens": output,
        "prompt_tokens": uncached + read + (short or 0) + (hour or 0) + (other or 0), "cached_tokens_observed": read,
        "cache_write_5m_tokens_observed": short, "cache_write_1h_tokens_observed": hour,
        "cache_write_other_tokens_observed": other,
    }  # fmt: skip


def marts_of(root: Path, rows: list[dict[str, Any]], scenario: str = BY_MODEL) -> Marts:
    """Replay, attribute and aggregate a whole log."""
    asked = parse_scenario(scenario)
    workspace = write_workspace(root, rows)
    run(workspace, asked)
    attribute.run(workspace, asked.name)
    times = [row["at_us"] for row in rows]
    return attribute.marts(workspace, asked.name, Window(min(times), max(times) + 1))


def money(marts: Marts, field: str, column: str = "actual_cost") -> dict[str | None, Decimal]:
    """Return one column of the cuts by a field, in millionths."""
    rows = (row for row in marts.spend.to_pylist() if row["field"] == field)
    return {row["value"]: (row[column] * 1_000_000).normalize() for row in rows}


def test_the_bill_of_a_log_is_the_hand_sum(tmp_path: Path) -> None:
    """By provider and in all, in the cuts, in the bill of the books and in that of the usage alone."""
    rows = [
        {
            **usage(NOON + n * MINUTE, *parts),
            "provider": provider,
            "model": model,
            "service_tier": tier,
            "inference_geo": "us" if tier == "us" else "not_available",
        }
        for n, (provider, model, *parts, tier, _) in enumerate(INVOICE)
    ]
    marts = marts_of(tmp_path, rows)
    expected: dict[str, Decimal] = {}
    for provider, *_, amount in INVOICE:
        expected[provider] = expected.get(provider, Decimal(0)) + Decimal(amount)
    assert money(marts, "provider") == {name: sum_.normalize() for name, sum_ in expected.items()}
    whole = sum(expected.values())
    assert money(marts, "all") == {"all": whole}
    assert [bill.actual * 1_000_000 for bill in (*marts.bills, *marts.observed_bills)] == [whole, whole]
    # Written for 30 minutes or for 12 hours, in a batch or not, and where only a total is told, 5 minutes or an hour:
    # 300 · 2.5 + 300 · 1.25, and 300 · (10 - 6.25) where OpenRouter passes Claude's prices on; the others charge one price.
    assert {name: more * 1_000_000 for name, more in marts.open_costs.items()} == {"USD": Decimal(2250)}


def test_a_cache_may_cost_more_than_it_saves(tmp_path: Path) -> None:
    """300 summaries that nobody reads again: a quarter of what they wrote is thrown away, and the saving is negative."""
    claude = {"provider": "anthropic", "model": "claude-opus-5-5"}
    once = [
        {
            **usage(NOON + n * MINUTE, 0, 0, 8_000, 0, None, 100),
            **claude,
            "tenant": "summaries",
            "session_id": f"s{n}",
        }
        for n in range(300)
    ]
    chat = [
        {**usage(NOON + n * MINUTE, 0, 0 if n == 0 else 8_000, 0 if n else 8_000, 0, None, 0), **claude, "tenant": "chat",
         "session_id": "c"}
        for n in range(2)
    ]  # fmt: skip
    marts = marts_of(tmp_path, [*once, *chat])
    assert money(marts, "tenant", "saved_cost") == {
        "summaries": Decimal(-300 * 8_000).normalize(),
        # 2 · 8000 · 4 - 8000 · 5 - 8000 · 0.2
        "chat": Decimal(22_400).normalize(),
    }
    assert money(marts, "tenant", "wasted_cost") == {"summaries": Decimal(2_400_000).normalize(), "chat": 0}
    (row,) = (row for row in marts.spend.to_pylist() if row["value"] == "summaries")
    assert (row["unread_tokens"], row["output_tokens"]) == (2_400_000, 30_000)


@pytest.mark.parametrize(
    ("read", "short", "hour", "other", "saved", "open_cost"),
    [
        # Reads save 1000 · 0.9, the writes cost 20,000 · 0.25 more than no cache: a loss of 4100 · 3
        (1_000, 20_000, 0, None, -12_300, 0),
        # Written for an hour: twice the price, whatever the total field says
        (0, 0, 100_000, None, -300_000, 0),
        # The log has a total alone: at least a quarter more, at most twice
        (0, None, None, 100_000, -75_000, 100_000 * 0.75 * 3),
    ],
    ids=["a premium is no saving", "an hour", "a total alone"],
)
def test_savings_are_net_of_what_writing_costs(
    tmp_path: Path,
    read: int,
    short: int | None,
    hour: int | None,
    other: int | None,
    saved: int,
    open_cost: float,
) -> None:
    """Against no cache at all, each write at the price of its lifetime; where that is not told, a range."""
    row = {
        **usage(NOON, 0, read, short, hour, other, 0),
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
    }
    marts = marts_of(tmp_path, [row])
    assert money(marts, "all", "saved_cost") == {"all": Decimal(saved).normalize()}
    assert sum(marts.open_costs.values()) * 1_000_000 == int(open_cost)


def test_what_the_replay_wrote_is_read_or_not(tmp_path: Path) -> None:
    """Blocks 1 to 3 are written and 1 and 2 read; the last three are written and never read."""
    rows = [
        {"at_us": n * MINUTE, "ids": ids, "prompt_tokens": 16 * len(ids) + 1}
        for n, ids in enumerate(([1, 2, 3], [1, 2, 4], [1, 2], [5]))
    ]
    rates = '[pricing]\nrates = { base = 1000000, write = 1.25, read = 0.1, output = 0 }\nshared_writes = "first"\n'
    marts = marts_of(tmp_path, rows, f'name = "money"\n{rates}')
    (whole,) = (row for row in marts.spend.to_pylist() if row["field"] == "all")
    assert (whole["written_tokens"], whole["unread_tokens"]) == (16 * 5, 16 * 3)
    assert whole["wasted_cost"] == 12


def test_shared_writes_are_paid_by_the_first_or_by_all(tmp_path: Path) -> None:
    """One writes ten blocks that both use: 160 · 1.25 and 160 · 0.1, or half of the sum each; the whole stays the same.

    So it is in the prefixes: what each tenant's own prefix of two blocks bears is its own 40 + 3.2 and its part of the head.
    """
    rows = [
        {
            "at_us": n * MINUTE,
            "ids": [*range(10), 100 + n % 2, 200 + n % 2],
            "prompt_tokens": 193,
            "tenant": "ab"[n % 2],
        }
        for n in range(4)
    ]
    paid, borne = {}, {}
    for rule in ("first", "per-read"):
        rates = f'[pricing]\nrates = {{ base = 1, write = 1.25, read = 0.1, output = 0 }}\nshared_writes = "{rule}"\n'
        marts = marts_of(tmp_path / rule, rows, f'name = "money"\n{rates}')
        paid[rule] = money(marts, "tenant", "input_cost")
        prefixes = marts.prefixes.to_pylist()
        borne[rule] = {row["tenant"]: row["borne_cost"] * 1_000_000 for row in prefixes if row["level"] == 1}
        assert sum(row["borne_cost"] for row in prefixes) == sum(row["paid_cost"] for row in prefixes)
        assert {row["depth_tokens"]: row["written_tokens"] for row in prefixes if row["level"] == 0} == {
            160: 160
        }
        assert (
            sum(paid[rule].values())
            == money(marts, "all", "input_cost")["all"]
            == sum(bill.input * 1_000_000 for bill in marts.bills) * 1
        )
    # Head: 200 once and 16 three times. Own: 32 · (1.25 + 0.1) = 43.2. One token behind the blocks, twice.
    assert paid["first"] == {"a": Decimal("261.2"), "b": Decimal("77.2")}
    assert paid["per-read"] == {"a": Decimal("169.2"), "b": Decimal("169.2")}
    assert borne["first"] == {"a": Decimal("259.2"), "b": Decimal("75.2")}
    assert borne["per-read"] == {"a": Decimal("167.2"), "b": Decimal("167.2")}


def test_shares_that_do_not_divide_still_sum() -> None:
    """A third of a cent three times is a cent: the last payer has what rounding left."""
    amount, third = pa.decimal128(38, 18), Decimal("0.333333333333333333")
    names = ("field", "value", "currency", "input_cost", "actual_cost", "saved_cost")
    spend = pa.table(
        [["tenant"] * 3, list("abc"), ["USD"] * 3, *(pa.array([Decimal(n == 0) for n in range(3)], amount),) * 3], names
    )  # fmt: skip
    touches = pa.table(
        {
            "node": [1] * 3, "currency": ["USD"] * 3, "field": ["tenant"] * 3, "value": list("abc"), "tokens": [5] * 3,
            "paid_cost": pa.array([Decimal(n == 0) for n in range(3)], amount),
        }
    )  # fmt: skip
    costs = share(spend, moved_costs(touches))["actual_cost"].to_pylist()
    assert costs == [third, third, 1 - 2 * third]


def test_days_are_those_of_the_zone() -> None:
    """In the week in which the clocks go back, Sunday in New York has 25 hours and begins four hours after UTC's."""
    begin, end = (datetime_us(datetime(2026, 11, day, 5, tzinfo=UTC)) for day in (1, 3))
    found = days(Window(begin, end, "America/New_York")).to_pylist()
    assert [row["day"] for row in found] == ["2026-11-01", "2026-11-02", "2026-11-03"][: len(found)]
    assert found[1]["from_us"] - found[0]["from_us"] == 25 * 60 * MINUTE
    assert found[0]["from_us"] == datetime_us(datetime(2026, 11, 1, 4, tzinfo=UTC))
