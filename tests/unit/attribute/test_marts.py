"""The marts of a window: money, prefixes, resets and everything that must close."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from facts import NAME, Facts, at, key
from prefixledger import attribute
from prefixledger.attribute import inputs
from prefixledger.errors import UsageError
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from pathlib import Path

RATES = """
name = "as-is"
[pricing]
rates = {{ base = 3.0, write = {write}, read = 0.1, output = 15.0 }}
"""


def _marts(log: Facts, root: Path, monkeypatch: pytest.MonkeyPatch, **window: int) -> attribute.Marts:
    monkeypatch.setattr(inputs, "load", log.load)
    workspace = log.write(root)
    attribute.run(workspace, NAME)
    return attribute.marts(workspace, NAME, attribute.default_window(workspace, **window))


def _tree(scenario: str = f'name = "{NAME}"\n', **columns: object) -> Facts:
    """Three lookups that share 2 blocks, two of them 2 more; the second hits 1, and a row has usage only."""
    log = Facts(replicas=("r0", "r1"), scenario=scenario)
    lookups = [log.lookup(n, 45, replica=n % 2, output_tokens=7, **columns) for n in range(3)]
    log.piece(lookups[1], 0, 1, hit=True, own_previous=0)
    log.piece(lookups[1], 1, 3, resident_replica=0, else_previous=0)
    log.request(
        4,
        100,
        keyed=False,
        block_size=0,
        usage_state="present",
        cached_tokens_observed=60,
        cache_write_5m_tokens_observed=20,
        cache_write_1h_tokens_observed=10,
        output_tokens=5,
        **columns,
    )
    log.add("shared", node=101, depth_blocks=2, key=key(101), namespace="n")
    log.add("shared", node=103, parent_node=101, depth_blocks=4, key=key(103), namespace="n")
    for lookup in lookups:
        log.add("lookup_shared", lookup=lookup, node=101, first_block=0, n_blocks=2)
        log.add("lookup_shared", lookup=lookup, node=103 if lookup else None, first_block=2, n_blocks=2)
    return log


def test_prefixes_close_and_form_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own tokens sum to the window, sums below a node hold its children, the rest is unshared."""
    marts = _marts(_tree(), tmp_path, monkeypatch)
    rows = {row["key"]: row for row in marts.prefixes.to_pylist()}
    head, branch, rest = rows[key(101).hex()], rows[key(103).hex()], rows[None]
    assert branch["parent_key"] == key(101).hex()
    assert (head["requests"], branch["requests"], rest["requests"]) == (3, 2, 4)
    assert (head["prompt_tokens"], branch["prompt_tokens"]) == (60, 40)
    assert head["below_prompt_tokens"] == 100
    assert (head["hit_tokens"], head["below_hit_tokens"]) == (10, 10)
    assert (head["replicas"], rest["replicas"]) == (["r0", "r1"], ["(all)", "r0", "r1"])
    assert sum(row["prompt_tokens"] for row in rows.values()) == 3 * 45 + 100


@pytest.mark.parametrize("write", ["1.25", "2.0"])
def test_money_is_the_same_by_cause_and_by_prefix(
    write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The excess of all prefixes is the excess of all causes, to the last digit, and so is what they paid."""
    marts = _marts(_tree(RATES.format(write=write)), tmp_path, monkeypatch)
    (bill,) = marts.bills
    assert bill.currency == "USD"
    assert sum(row["excess_cost"] for row in marts.prefixes.to_pylist()) == bill.excess
    assert sum(row["paid_cost"] for row in marts.prefixes.to_pylist()) == bill.input
    assert sum(row["uncached_cost"] for row in marts.prefixes.to_pylist()) == bill.uncached_input
    assert bill.uncached_input == Decimal("0.000003") * (3 * 45 + 100)
    assert bill.output == Decimal("0.000015") * (3 * 7 + 5)
    price = Decimal("0.000003")
    written = 40 + 30 + 40 + 30  # three prompts, and what the log says it wrote
    assert bill.input == price * (Decimal(write) * written + Decimal("0.1") * (10 + 60) + 15 + 10)


def test_engine_default_counts_prefill_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rates an engine's bill is what it computed, whatever the model is called."""
    marts = _marts(_tree(model="claude-opus-5-5"), tmp_path, monkeypatch)
    (bill,) = marts.bills
    assert bill.currency == "prefill tokens"
    assert bill.input == 3 * 45 + 100 - 10 - 60
    assert bill.by_cause["misrouted"] == 30


def test_observed_money_is_what_the_service_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The observed bill covers the rows with usage only."""
    marts = _marts(_tree(RATES.format(write="1.25")), tmp_path, monkeypatch)
    (bill,) = marts.observed_bills
    assert bill.input == Decimal("0.000003") * (6 + Decimal("1.25") * 30 + 10)
    books = marts.costs.to_pylist()
    assert [row["book"] for row in books] == ["simulated", "observed"]
    assert books[0]["excess_cold"] == marts.bills[0].by_cause["cold"]


def test_usage_of_a_hosted_provider_pays_its_models_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without keys that no engine replayed are charged by model: 5-minute and 1-hour writes apart."""
    log = Facts()
    log.lookup(0, 45)
    log.request(
        1,
        100,
        keyed=False,
        provider="anthropic",
        model="claude-opus-5-5",
        usage_state="present",
        cached_tokens_observed=60,
        cache_write_5m_tokens_observed=20,
        cache_write_1h_tokens_observed=10,
    )
    usd, prefill = _marts(log, tmp_path, monkeypatch).bills
    assert (usd.currency, prefill.currency) == ("USD", "prefill tokens")
    assert usd.input * 1_000_000 == 60 * Decimal("0.2") + 20 * 5 + 10 * 8 + 10 * 4


def test_a_model_without_a_rate_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices by model do not guess."""
    log = _tree('name = "as-is"\n[pricing]\nrates = "by-model"\n', model="llama-9000")
    with pytest.raises(UsageError, match="llama-9000"):
        _marts(log, tmp_path, monkeypatch)


def test_a_window_is_a_filter_on_arrivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only lookups that arrive in it count; the marts of an empty window are zeros."""
    log = _tree()
    log.request(5, 50, status="failed")
    log.request(6, 50, keyed=False)
    marts = _marts(log, tmp_path, monkeypatch, from_us=1_000_000, to_us=2_000_000)
    (total, *_) = marts.totals.to_pylist()
    assert (total["requests"], total["prompt_tokens"]) == (1, 45)
    assert marts.left_out.num_rows == 0
    whole = _marts(log, tmp_path, monkeypatch)
    assert {row["reason"]: row["requests"] for row in whole.left_out.to_pylist()} == {
        "failed": 1,
        "unmeasured": 1,
    }
    empty = _marts(log, tmp_path, monkeypatch, from_us=10_000_000, to_us=11_000_000)
    assert empty.totals.to_pylist()[0]["requests"] == 0
    assert empty.bills == ()
    assert empty.prefixes.num_rows == 0


def test_resets_and_their_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart lists what it took, the rates around it, and when the rate was back."""
    log = Facts()
    first = log.lookup(0, 45)
    for seconds in (3_500, 3_600, 3_660):
        lookup = log.lookup(seconds, 45)
        if seconds == 3_600:
            log.piece(lookup, 0, 4, own_previous=first, own_reset=0)
        else:
            log.piece(lookup, 0, 4, hit=True, own_previous=first)
    log.add("events", event=0, event_id="e1", at=at(3_550), kind="restart", pool=0, replica=0, note="oops")
    (reset,) = _marts(log, tmp_path, monkeypatch).resets.to_pylist()
    assert (reset["event_id"], reset["kind"], reset["replicas"]) == ("e1", "restart", ["r0"])
    assert (reset["lost_tokens"], reset["lost_requests"]) == (40, 1)
    assert (reset["rate_before"], reset["rate_after"]) == (40 / 90, 40 / 90)
    assert reset["recovery_s"] == 120


def test_marts_are_kept_beside_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is a file, and the window is written with them."""
    marts = _marts(_tree(), tmp_path, monkeypatch)
    folder = tmp_path / "replays" / NAME / "marts"
    kept = {field.name for field in fields(marts) if isinstance(getattr(marts, field.name), pa.Table)}
    assert {path.stem for path in folder.iterdir()} == {*kept, "window"}
    for name in kept:
        assert pq.read_table(folder / f"{name}.parquet").equals(getattr(marts, name))


def test_causes_are_always_all_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause that took nothing is shown with 0, in the order of the account."""
    marts = _marts(_tree(), tmp_path, monkeypatch)
    assert marts.causes["cause"].to_pylist() == list(CAUSES)
