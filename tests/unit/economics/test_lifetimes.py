"""The arithmetic of lifetimes gives the figures that were worked out by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from prefixledger.economics import formulas, lifetimes

W5, W1H, W12H = Decimal("1.25"), Decimal(2), Decimal("2.5")
READS = (Decimal("0.1"), Decimal("0.05"), Decimal("0.025"))


def _rounded(value: Decimal | None, digits: int) -> str:
    assert value is not None
    return f"{value:.{digits}f}"


@pytest.mark.parametrize(
    ("w", "rates"),
    [
        (W5, "21.74 20.83 20.41"),
        (W1H, "52.63 51.28 50.63"),
        (W12H, "62.50 61.22 60.61"),
        (Decimal(1), "0.00 0.00 0.00"),
    ],
)
def test_break_even_hit_rates(w: Decimal, rates: str) -> None:
    """By price of writes, at reads of 0.1, 0.05 and 0.025."""
    found = [formulas.break_even_hit_rate(w=w, r=r) for r in READS]
    assert " ".join(_rounded(None if rate is None else 100 * rate, 2) for rate in found) == rates


@pytest.mark.parametrize(("w", "reads"), [(Decimal(1), 0), (W5, 1), (W1H, 2), (W12H, 2)])
def test_reads_that_pay_for_a_write(w: Decimal, reads: int) -> None:
    """One read pays for 5 or 30 minutes, two for an hour, two for twelve."""
    uses = formulas.break_even_uses(w=w, r=READS[0])
    assert uses is not None
    assert uses - 1 == reads


@pytest.mark.parametrize(
    ("ttl_s", "w", "minutes"),
    [
        (300, W5, "20.4 21.4 21.9"),
        (1_800, W5, "122 128"),
        (3_600, W1H, "80.3 83.4 85.0"),
        (43_200, W12H, "734 760"),
    ],
)
def test_longest_mean_gaps(ttl_s: int, w: Decimal, minutes: str) -> None:
    """Independent uses with gaps of up to so many minutes in the mean are worth caching at all."""
    for r, told in zip(READS, minutes.split(), strict=False):
        even = formulas.break_even_hit_rate(w=w, r=r)
        assert even is not None
        gap_s = lifetimes.longest_mean_gap_s(even, ttl_s)
        assert _rounded(None if gap_s is None else gap_s / 60, len(told.partition(".")[2])) == told
    assert lifetimes.longest_mean_gap_s(Decimal(0), ttl_s) is None


@pytest.mark.parametrize(
    ("w_short", "w_long", "shares"),
    [(W5, W1H, "39.5 38.5 38.0"), (Decimal(1), W1H, "52.6"), (W5, W12H, "52.1 51.0")],
    ids=["claude", "kimi", "gpt"],
)
def test_when_a_long_lifetime_pays(w_short: Decimal, w_long: Decimal, shares: str) -> None:
    """Of the gaps that outlive the short one, so many percent must end within the long one."""
    for r, told in zip(READS, shares.split(), strict=False):
        share = lifetimes.long_ttl_share(w_short=w_short, w_long=w_long, r=r)
        assert _rounded(None if share is None else 100 * share, 1) == told
    assert lifetimes.long_ttl_share(w_short=W5, w_long=W5, r=READS[0]) is None


@pytest.mark.parametrize(("gap_s", "uses"), [(30, "14366"), (60, "98"), (120, "8.9"), (300, "2.8")])
def test_fast_loops_stay_on_the_short_lifetime(gap_s: int, uses: str) -> None:
    """The dearer first write of an hour is made up for after so many uses, and never where uses lie days apart."""
    found = lifetimes.uses_for_a_long_ttl(Decimal(gap_s), (300, W5), (3_600, W1H), r=READS[0])
    assert _rounded(found, len(uses.partition(".")[2])) == uses
    assert lifetimes.uses_for_a_long_ttl(Decimal(86_400), (300, W5), (3_600, W1H), r=READS[0]) is None


@pytest.mark.parametrize(
    ("w", "ttl_s", "pings", "minutes", "chances"),
    [
        (W5, 300, (11, 23, 48), (60, 120, 245), "8.7 4.2 2.0"),
        (W1H, 3_600, (18, 38, 78), (19 * 60, 39 * 60, 79 * 60), "5.3 2.6 1.3"),
        (W5, 1_800, (11, 23, 48), (6 * 60, 12 * 60, 1_470), "8.7 4.2 2.0"),
    ],
    ids=["5m", "1h", "30m"],
)
def test_keeping_alive(
    w: Decimal, ttl_s: int, pings: tuple[int, ...], minutes: tuple[int, ...], chances: str
) -> None:
    """So many pings cost less than a write and bridge so long; each pays from such a chance on that somebody comes back."""
    found = [lifetimes.most_pings(w=w, r=r) for r in READS]
    assert tuple(found) == pings
    assert tuple(lifetimes.bridged_s(n or 0, ttl_s) / 60 for n in found) == minutes
    back = [lifetimes.least_chance_of_return(w=w, r=r) for r in READS]
    assert " ".join(_rounded(None if one is None else 100 * one, 1) for one in back) == chances
    assert lifetimes.most_pings(w=w, r=Decimal(0)) is None
    assert lifetimes.least_chance_of_return(w=w, r=w) is None


@pytest.mark.parametrize(
    ("r", "short", "hourly", "longest_h", "new_pays"),
    [(READS[0], "9.6", "0.8", "11.5", False), (READS[1], "4.8", "0.4", "24.0", True)],
)
def test_a_night_without_uses(r: Decimal, short: str, hourly: str, longest_h: str, new_pays: bool) -> None:
    """Eight hours: reads each 5 minutes never pay, hourly ones do, and with the dearer write of the hour at one price only."""
    night_s = Decimal(8 * 3_600)
    costs = [lifetimes.keeping_cost(night_s, ttl_s, r=r) for ttl_s in (300, 3_600)]
    lapse = W5 - r
    assert costs == [Decimal(short), Decimal(hourly)]
    assert costs[0] > lapse > costs[1]
    pause_s = lifetimes.longest_pause_s(3_600, w_again=W5, r=r)
    assert _rounded(None if pause_s is None else pause_s / 3_600, 1) == longest_h
    new_s = lifetimes.longest_pause_s(3_600, w_again=W5, r=r, more=W1H - W5)
    assert new_s is not None
    assert (night_s < new_s) is (costs[1] + W1H - W5 < lapse) is new_pays
    assert lifetimes.longest_pause_s(3_600, w_again=W5, r=Decimal(0)) is None


def test_a_conversation_that_grows() -> None:
    """89.5 million tokens spared against 14.7 million written for longer: far ahead; a loop of seconds only pays more."""
    prices = {"w_short": W5, "w_long": W1H, "r": READS[0]}
    saved = lifetimes.long_ttl_saving(89_500_000, 0, 14_700_000, **prices)
    assert saved == Decimal(91900000)  # 89.5 · 1.15 - 14.7 · 0.75
    # Gaps of seconds: nothing is ever written again, so that an hour costs 60 % more on everything that is written.
    loss = lifetimes.long_ttl_saving(0, 0, 1_000_000, **prices)
    assert -loss / (1_000_000 * W5) == Decimal("0.6")
    # A context of 10,000 tokens that outlives both lifetimes loses by the longer one.
    assert lifetimes.long_ttl_saving(10_000, 10_000, 0, **prices) == -7_500


def test_padding() -> None:
    """With ten uses a prompt of 221 tokens is worth padding to 1,024, and with any number none of 102 (51 at half the price)."""
    ten = lifetimes.padding_pays_above_tokens(1_024, 10, w=W5, r=READS[0])
    assert 220 < ten < 221
    many = [lifetimes.padding_pays_above_tokens(1_024, 10**9, w=W5, r=r) for r in READS[:2]]
    assert [_rounded(limit, 1) for limit in many] == ["102.4", "51.2"]


def test_bursts() -> None:
    """Four of five gaps 30 s and one 40 minutes in the mean: 0.303 with 5 minutes, 0.185 with an hour."""
    costs = []
    for ttl_s, w in ((300, W5), (3_600, W1H)):
        outlived = Decimal("0.8") * lifetimes.poisson_outlived(Decimal(30), ttl_s)
        outlived += Decimal("0.2") * lifetimes.poisson_outlived(Decimal(2_400), ttl_s)
        costs.append(_rounded(lifetimes.cost_of_use(outlived, w=w, r=READS[0]), 3))
    assert costs == ["0.303", "0.185"]


@pytest.mark.parametrize(
    ("rent", "base", "reads"),
    [
        ("4.5", "1.25", "4.0"),
        ("1", "0.3", "3.7"),
        ("1", "0.1", "11.1"),
        ("4.5", "2", "2.5"),
        ("0.5", "0.75", "0.74"),
    ],
)
def test_reads_that_pay_the_rent(rent: str, base: str, reads: str) -> None:
    """Gemini 2.5 Pro, Flash and Flash-Lite, 3.1 Pro and 3.8 Flash."""
    found = lifetimes.reads_that_pay_rent(Decimal(rent), Decimal(base), r=READS[0])
    assert _rounded(found, len(reads.partition(".")[2])) == reads
    assert lifetimes.reads_that_pay_rent(Decimal(1), Decimal(1), r=Decimal(1)) is None


def test_fixed_timers_and_prewarming() -> None:
    """Three uses in a lifetime hit three times of four; writing ahead pays from two simultaneous first uses on."""
    assert lifetimes.fixed_timer_hit_rate(Decimal(3)) == Decimal("0.75")
    assert [lifetimes.prewarm_saving(n, w=W5, r=READS[0]) > 0 for n in (1, 2)] == [False, True]
    assert lifetimes.prewarm_saving(1, w=W5, r=READS[0]) == -READS[0]
    assert lifetimes.least_uses_at_once(w=W5, r=READS[0]) == 2
    # A leader before its followers saves what all but he would have paid more: N · w - (w + (N - 1) · r).
    saved = 5 * W5 - formulas.uses_cost(5, w=W5, r=READS[0])
    assert saved == 4 * (W5 - READS[0]) == lifetimes.prewarm_saving(5, w=W5, r=READS[0]) + READS[0]
