"""One colour and one pattern per cause, readable for everybody in both modes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from prefixledger.report.palette import CHROME, INKS, PAGE, SERIES, css_variables, hatch_patterns, sentinel
from prefixledger.schema import CAUSES

# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
LAB = [
    [0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
]


def linear(hex_colour: str) -> np.ndarray:
    """Decode sRGB."""
    c = np.array([int(hex_colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def difference(one: str, other: str) -> float:
    """Smallest OKLab distance over all kinds of sight, times 100."""

    def oklab(colour: str, sight: object) -> np.ndarray:
        seen = np.clip(np.asarray(sight) @ linear(colour), 0, 1)
        return np.asarray(LAB) @ np.cbrt(np.asarray(LMS) @ seen)

    return min(100 * float(np.linalg.norm(oklab(one, s) - oklab(other, s))) for s in SIGHT.values())


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_series_differ_under_every_sight(mode: str) -> None:
    """Any two of the ten differ by 8, neighbours in the account by 9, and all stand out from the page."""
    colours = [getattr(ink, mode) for ink in SERIES.values()]
    assert min(difference(a, b) for a, b in itertools.combinations(colours, 2)) >= 8
    assert min(difference(a, b) for a, b in itertools.pairwise(colours)) >= 9
    assert min(contrast(c, getattr(PAGE, mode)) for c in colours) >= 3


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_passes_aa(mode: str) -> None:
    """Ink and muted ink have 4.5:1 on the page."""
    for name in ("ink", "muted"):
        assert contrast(getattr(CHROME[name], mode), getattr(PAGE, mode)) >= 4.5


def test_every_cause_has_its_own_look() -> None:
    """Colours are not shared, stand-ins are not shared, and look-alikes carry a pattern."""
    assert tuple(SERIES) == ("hit", *CAUSES)
    assert len({ink.light for ink in INKS.values()}) == len(INKS)
    assert len({sentinel(name) for name in INKS}) == len(INKS)
    assert sum(1 for ink in SERIES.values() if ink.strokes) == hatch_patterns().count("<pattern")


def test_css_has_a_plain_fallback() -> None:
    """Browsers without light-dark() still get every colour."""
    plain, modern = css_variables().split("@supports")
    assert plain.count("--") == modern.count("--") == len(INKS)
