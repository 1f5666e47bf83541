"""Where and when a cause struck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prefixledger.report.concentration import place, stretch
from prefixledger.report.parts import Breakdown, Bucket, Group, Timeline

HOUR_US = 3_600_000_000


def timeline(tokens: list[int]) -> Timeline:
    """Hourly slices with so many evicted tokens each."""
    return Timeline(3600, tuple(Bucket(i * HOUR_US, 1, 100, 0, {"evicted": n}) for i, n in enumerate(tokens)))


def group(value: str, prompt: int, lost: int) -> Group:
    """A tenant with so many tokens, of which so many were evicted."""
    return Group(value, 1, prompt, prompt - lost, {"evicted": lost})


def test_a_burst_is_found_from_its_first_to_its_last_hour() -> None:
    """The stretch covers the whole burst, not just the shortest half of it."""
    found = stretch(timeline([1] * 20 + [50] * 6 + [1] * 40), "evicted")
    assert found is not None
    assert (found.from_us, found.to_us) == (20 * HOUR_US, 26 * HOUR_US)
    assert found.share > 0.8


def test_what_is_everywhere_has_no_time() -> None:
    """An even loss, no loss and a handful of slices name no stretch."""
    assert stretch(timeline([5] * 48), "evicted") is None
    assert stretch(timeline([0] * 48), "evicted") is None
    assert stretch(timeline([0, 9, 0]), "evicted") is None


@given(st.lists(st.integers(0, 1000), min_size=8, max_size=80))
def test_a_stretch_holds_what_it_says(tokens: list[int]) -> None:
    """Its share is the share of the slices inside, at least half, in a quarter of the window at most."""
    found = stretch(timeline(tokens), "evicted")
    if found is not None:
        begin, end = found.from_us // HOUR_US, found.to_us // HOUR_US
        assert found.share == sum(tokens[begin:end]) / sum(tokens)
        assert found.share >= 0.5
        assert end - begin <= len(tokens) / 4


def test_a_tenant_is_named_only_beyond_its_share() -> None:
    """Half of the loss is not enough for one that asks half of the tokens."""
    lopsided = (Breakdown("tenant", (group("a", 100, 30), group("b", 300, 10))),)
    found = place(lopsided, "evicted")
    assert found is not None
    assert (found[0], found[1].value, found[2]) == ("tenant", "a", 0.75)
    assert place((Breakdown("tenant", (group("a", 300, 30), group("b", 100, 10))),), "evicted") is None
    assert place((Breakdown("tenant", (group("a", 100, 30),)),), "evicted") is None
    assert place(lopsided, "expired") is None
