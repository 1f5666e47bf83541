"""One colour and one pattern for each cause, the same in every chart of every report.

The colours were searched for: in both modes any two of them differ by at least 8 (100 x OKLab distance) under
normal sight and under simulated protanopia, deuteranopia and tritanopia, and stand out 3:1 from the page.
"""

from __future__ import annotations

from dataclasses import dataclass

from prefixledger.schema import CAUSES


@dataclass(frozen=True, slots=True)
class Ink:
    """A colour of the page.

    Attributes:
        light: Hex colour on the light page.
        dark: Hex colour on the dark page.
        strokes: SVG path on a tile of 6 by 6 pixels that tells it apart without colour; empty for none.
    """

    light: str
    dark: str
    strokes: str = ""


PAGE = Ink("#fcfbf8", "#15181b")
HATCH_MARK = "/"
"""Any matplotlib hatch: it only marks that a fill is one of ``hatch_patterns``, matplotlib's own take 60 KB each."""

SERIES: dict[str, Ink] = {
    "hit": Ink("#3a5293", "#979ee0"),
    "uncacheable": Ink("#82868b", "#7b8085", "M1 1h1M4 4h1"),
    "in_flight": Ink("#238148", "#3db76e", "M0 3h6"),
    "invalidated": Ink("#990a65", "#a93096"),
    "expired": Ink("#bb8a00", "#dcc348", "M-1 1l2-2M0 6l6-6M5 7l2-2"),
    "evicted": Ink("#c4460b", "#e15310"),
    "misrouted": Ink("#7745d7", "#ae6ef6", "M3 0v6"),
    "key_changed": Ink("#fc48b4", "#ff97ac", "M-1 5l2 2M0 0l6 6M5-1l2 2"),
    "cold": Ink("#349ad8", "#8fc8fe"),
    "unexplained": Ink("#272b2f", "#e7eaed", "M0 0l6 6M0 6l6-6"),
}

CHROME: dict[str, Ink] = {
    "ink": Ink("#1c2024", "#eceae4"),
    "muted": Ink("#5a6169", "#a7aeb5"),
    "rule": Ink("#d9d5cb", "#343a40"),
    "page": PAGE,
}

INKS: dict[str, Ink] = {**CHROME, **{name.replace("_", "-"): ink for name, ink in SERIES.items()}}
"""Every colour by the name of its CSS variable."""

assert tuple(SERIES) == ("hit", *CAUSES), "every cause has its colour"


def sentinel(name: str) -> str:
    """Return the stand-in colour that a chart is drawn with, swapped for ``var(--name)`` afterwards."""
    return f"#fe{list(INKS).index(name):02x}01"


def series(name: str) -> str:
    """Return the stand-in colour of ``hit`` or of a cause."""
    return sentinel(name.replace("_", "-"))


def hatch_id(name: str) -> str:
    """Return the id of a pattern; all charts and keys of a page share it."""
    return f"hatch-{name.replace('_', '-')}"


def fill(name: str) -> str:
    """Return the CSS fill of ``hit`` or of a cause, pattern included."""
    return f"url(#{hatch_id(name)})" if SERIES[name].strokes else f"var(--{name.replace('_', '-')})"


def hatch_patterns() -> str:
    """Return the patterns as one invisible SVG element, to stand once on the page."""
    patterns = "".join(
        f'<pattern id="{hatch_id(name)}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="M0 0h6v6H0z" style="fill:var(--{name.replace("_", "-")})"/>'
        f'<path d="{ink.strokes}" style="stroke:var(--page);stroke-opacity:.45;stroke-width:1.1;fill:none"/></pattern>'
        for name, ink in SERIES.items()
        if ink.strokes
    )
    return f'<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>{patterns}</defs></svg>'


def css_variables() -> str:
    """Return the declarations of every colour; browsers without ``light-dark()`` keep the light page."""
    light = "".join(f"--{name}:{ink.light};" for name, ink in INKS.items())
    both = "".join(f"--{name}:light-dark({ink.light},{ink.dark});" for name, ink in INKS.items())
    return f":root{{{light}}}@supports (color:light-dark(#000,#fff)){{:root{{{both}}}}}"
