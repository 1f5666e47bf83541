"""Reads by length of prompt: bands in which a service reads nothing stand out, and chance is not called a band."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prefixledger.report.length_parts import LengthRange, dead_bands
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from report_data import week

EDGES = (4096, 6144, 8192, 12_288, 16_384, 24_576)


def ranges(*reads: tuple[int, int]) -> tuple[LengthRange, ...]:
    """Return ranges with (requests, requests that read)."""
    return tuple(
        LengthRange("gemini-3.5-flash", low, high, asked, read, 10_000 * asked, 8_000 * read, 0, None)
        for low, high, (asked, read) in zip(EDGES, EDGES[1:], reads, strict=False)
    )


def test_a_dead_zone_is_found() -> None:
    """Prompts of 8 k and of 18 k tokens read, those of 10 k and 15 k never do."""
    (sentence,) = dead_bands(ranges((9, 1), (10, 6), (8, 0), (7, 0), (10, 5)))
    assert "15 prompts of 8,192 to 16,384 tokens" in sentence
    assert "60.0 % and 50.0 %" in sentence
    view = replace(week(), lengths=ranges((9, 1), (10, 6), (8, 0), (7, 0), (10, 5)))
    assert "8,192 to 16,384" in html(view)
    assert [row["observed_hit_rate"] for row in twin(view)["by_length"]][2:4] == [0, 0]


@pytest.mark.parametrize(
    "reads",
    [
        ((9, 0), (10, 0), (10, 5)),  # below a minimum nothing is read: that is no band
        ((10, 5), (4, 0), (10, 5)),  # four may miss by chance
        ((10, 1), (10, 0), (10, 1)),  # beside it hardly anything is read either
        ((10, 5), (10, 1), (10, 5)),
    ],
)
def test_what_is_no_band(reads: tuple[tuple[int, int], ...]) -> None:
    """Neither an end of the scale, nor a handful of requests, nor a service that reads rarely."""
    assert dead_bands(ranges(*reads)) == ()
