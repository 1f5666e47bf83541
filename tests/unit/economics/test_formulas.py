"""The arithmetic of a prefix cache, held against every given figure."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.economics import formulas
from prefixledger.errors import UsageError

SHORT_W, LONG_W, FREE_W, R = Decimal("1.25"), Decimal(2), Decimal(1), Decimal("0.1")
FIVE_MINUTES_S, HOUR_S = 300, 3600
USES_PER_HOUR = [Decimal(rate) for rate in (1, 6, 12, 60, 600)]


def _percent(value: Decimal, digits: int = 0) -> str:
    return f"{value * 100:.{digits}f}"


@pytest.mark.parametrize(("w", "percent"), [(SHORT_W, "21.7"), (LONG_W, "52.6"), (FREE_W, "0.0")])
def test_break_even_hit_rates(w: Decimal, percent: str) -> None:
    """Caching pays from 21.7 %, 52.6 % and 0.0 % hits on at the three prices of writes."""
    rate = formulas.break_even_hit_rate(w=w, r=R)
    assert rate is not None
    assert _percent(rate, 1) == percent
    assert formulas.prefix_multiplier(rate, w=w, r=R) == pytest.approx(Decimal(1))


@pytest.mark.parametrize(
    ("w", "ttl_s", "hits", "multipliers"),
    [
        (SHORT_W, FIVE_MINUTES_S, "8 39 63 99 100", "1.16 0.80 0.52 0.11 0.10"),
        (LONG_W, HOUR_S, "63 100 100 100 100", "0.80 0.10 0.10 0.10 0.10"),
        (FREE_W, FIVE_MINUTES_S, "8 39 63 99 100", "0.93 0.65 0.43 0.11 0.10"),
    ],
)
def test_poisson_table(w: Decimal, ttl_s: int, hits: str, multipliers: str) -> None:
    """Independent uses give the hit rates and multipliers of the published table."""
    rows = formulas.poisson_table(USES_PER_HOUR, ttl_s, w=w, r=R)
    assert " ".join(_percent(row.hit_rate) for row in rows) == hits
    assert " ".join(f"{row.multiplier:.2f}" for row in rows) == multipliers


def test_design_scenario_per_day() -> None:
    """200 prefixes of 10,000 tokens used 50,000 times a day at $3 per million cost the known sums."""
    uses_per_day, prefixes, tokens, price = 50_000, 200, 10_000, Decimal(3) / 1_000_000
    uncached = uses_per_day * tokens * price
    per_hour = Decimal(uses_per_day) / prefixes / 24
    costs = {}
    for name, w, ttl_s in (
        ("5m", SHORT_W, FIVE_MINUTES_S),
        ("1h", LONG_W, HOUR_S),
        ("free", FREE_W, FIVE_MINUTES_S),
    ):
        (row,) = formulas.poisson_table([per_hour], ttl_s, w=w, r=R)
        costs[name] = uncached * row.multiplier
        if name == "5m":
            assert _percent(row.hit_rate) == "58"
    assert uncached == 1500
    assert {name: f"{cost:.0f}" for name, cost in costs.items()} == {"5m": "874", "1h": "150", "free": "717"}


def test_one_prefix_of_8000_tokens() -> None:
    """A long prefix and a short question: first and later requests, twenty of them, and the steady state."""
    first = formulas.effective_tokens(60, 0, 8_000, w=SHORT_W, r=R)
    later = formulas.effective_tokens(60, 8_000, 0, w=SHORT_W, r=R)
    twenty = first + 19 * later
    assert (first, later, twenty) == (10_060, 860, 26_400)
    assert 20 * 8_060 == 161_200
    assert _percent(formulas.saved_share(twenty, Decimal(161_200))) == "84"
    assert _percent(formulas.saved_share(later, Decimal(8_060))) == "89"
    beside = formulas.effective_tokens(4_060, 8_000, 0, w=SHORT_W, r=R)
    assert _percent(formulas.saved_share(beside, Decimal(12_060)), 1) == "59.7"


@pytest.mark.parametrize(
    ("w", "uses", "cost", "ahead"),
    [
        (SHORT_W, 2, "1.35", True),
        (SHORT_W, 10, "2.15", True),
        (LONG_W, 2, "2.1", False),
        (LONG_W, 3, "2.2", True),
    ],
)
def test_uses_of_one_entry(w: Decimal, uses: int, cost: str, ahead: bool) -> None:
    """Two uses cost 1.35 or 2.1 against 2.0, three cost 2.2 against 3.0, ten 2.15."""
    assert formulas.uses_cost(uses, w=w, r=R) == Decimal(cost)
    assert (formulas.uses_cost(uses, w=w, r=R) < uses) is ahead


@pytest.mark.parametrize(("w", "uses"), [(FREE_W, 1), (SHORT_W, 2), (LONG_W, 3)])
def test_break_even_uses(w: Decimal, uses: int) -> None:
    """A free write is never behind, a 5-minute write from 2 uses on not, a 1-hour write from 3 on not."""
    assert formulas.break_even_uses(w=w, r=R) == uses


def test_reads_that_save_nothing_never_pay() -> None:
    """Where a read costs as much as uncached input there is no break-even."""
    assert formulas.break_even_hit_rate(w=SHORT_W, r=Decimal(1)) is None
    assert formulas.break_even_uses(w=SHORT_W, r=Decimal(1)) is None


def test_shared_tokens_in_blocks() -> None:
    """4,096 shared tokens are 256 blocks of 16."""
    assert 4_096 // 16 == 256


@given(
    uncached=st.integers(0, 10**9),
    read=st.integers(0, 10**9),
    written=st.integers(0, 10**9),
    w=st.decimals(0, 3, places=3),
    r=st.decimals(0, 1, places=3),
)
def test_multiplier_lies_between_the_prices(
    uncached: int, read: int, written: int, w: Decimal, r: Decimal
) -> None:
    """A bill is a mean of the three prices, and without tokens there is no multiplier."""
    multiplier = formulas.cost_multiplier(uncached, read, written, w=w, r=r)
    if uncached + read + written == 0:
        assert multiplier is None
    else:
        assert multiplier is not None
        assert min(Decimal(1), w, r) <= multiplier <= max(Decimal(1), w, r)


@given(h=st.decimals(0, 1, places=4))
def test_a_fully_cacheable_prefix(h: Decimal) -> None:
    """The multiplier of tokens and the one of a hit rate agree."""
    hits = int(h * 10_000)
    tokens = formulas.cost_multiplier(0, hits, 10_000 - hits, w=SHORT_W, r=R)
    assert tokens == pytest.approx(formulas.prefix_multiplier(h, w=SHORT_W, r=R))


def test_prefill_gpu_hours() -> None:
    """72 million tokens at 10,000 a second take a GPU 2 hours; no speed is an error."""
    assert formulas.prefill_gpu_hours(72_000_000, 10_000) == 2
    with pytest.raises(UsageError, match="above 0"):
        formulas.prefill_gpu_hours(1, 0)


@pytest.mark.parametrize(
    ("amount", "printed"),
    [
        ("1234.56789", 1234.57),
        ("0.000123456789", 0.000123457),
        ("-0", 0.0),
        ("1500", 1500.0),
        ("2.5e7", 2.5e7),
    ],
)
def test_six_significant_digits(amount: str, printed: float) -> None:
    """Money is printed to 6 significant digits, and nothing is never minus nothing."""
    assert str(formulas.six_digits(Decimal(amount))) == str(printed)
