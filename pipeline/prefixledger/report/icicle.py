"""The picture of the prefix tree: as wide as its tokens, the stronger the colour the more of them were hits."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.books import rate
from prefixledger.report.numbers import amount, clean, money_compact, percent, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prefixledger.report.parts import Prefix
    from prefixledger.report.view import ReportView

WIDTH_PX = 880
ROW_PX = 34
LEVELS = 6
"""Rows below the first; what lies deeper shows when its branch is opened."""

BRANCHES = 8
"""Branches that have a picture of their own."""

_LEAST_PX = 2.5
_CHARACTER_PX = 7.2
"""A character of 12 pixels is at most so wide."""

STRONGEST = 0.44
"""So that letters stand out 4.5:1 from every shade, light and dark."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch with a picture of its own.

    Attributes:
        anchor: Its id on the page.
        name: Its name.
        svg: The picture.
    """

    anchor: str
    name: str
    svg: str


@dataclass(frozen=True, slots=True)
class Icicle:
    """The tree, and its branches.

    Attributes:
        svg: The whole; empty where there is no shared prefix.
        branches: Opened by the links of the whole.
    """

    svg: str = ""
    branches: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """One rectangle: a prefix and where it lies, in shares of the width."""

    prefix: Prefix
    row: int
    left: float
    width: float


def icicle(view: ReportView) -> Icicle:
    """Draw the shared prefixes of a report, and again each branch that has branches."""
    tree, asked = view.prefixes.tree, view.result.total.prompt_tokens
    if not tree or not asked:
        return Icicle()
    children = _under(view)
    forked = [p for p in tree if p.key in children][:BRANCHES]
    links: dict[str | None, str] = {p.key: f"branch-{p.key}" for p in forked}
    rows: dict[str | None, str] = {p.key: f"prefix-{p.key}" for p in view.prefixes.shown if p.key}
    whole = Branch("icicle", "all prompts", "")
    return Icicle(
        _svg(boxes(view), whole, {**rows, **links}, f"all prompts, {amount(asked)} tokens"),
        tuple(
            Branch(
                links[p.key],
                p.name,
                _svg(
                    list(layout(children, p.key, p.below_tokens)),
                    Branch(links[p.key], p.name, ""),
                    {**rows, **{key: link for key, link in links.items() if key != p.key}},
                    _label(p),
                ),
            )
            for p in forked
        ),
    )


def boxes(view: ReportView) -> tuple[Box, ...]:
    """Return the boxes of the whole tree."""
    return tuple(layout(_under(view), None, view.result.total.prompt_tokens))


def _under(view: ReportView) -> dict[str | None, list[Prefix]]:
    """Return the nodes by parent, what no prefix shares last of those below the root."""
    return _children((*view.prefixes.tree, *(p for p in view.prefixes.shown if not p.key)))


def layout(children: Mapping[str | None, Sequence[Prefix]], top: str | None, asked: int) -> Iterator[Box]:
    """Yield the boxes under a node, the widest first, each as wide as the tokens of its branch.

    Args:
        children: Nodes by the key of their parent.
        top: Key of the node; None is the root.
        asked: Tokens that the whole width stands for.
    """
    waiting: list[tuple[str | None, int, float]] = [(top, 1, 0.0)]
    while waiting:
        above, row, left = waiting.pop(0)
        for prefix in children.get(above, ()):
            width = prefix.below_tokens / asked
            if width * WIDTH_PX >= _LEAST_PX and row <= LEVELS:
                yield Box(prefix, row, left, width)
                if prefix.key is not None:
                    waiting.append((prefix.key, row + 1, left))
            left += width


def shade(prefix: Prefix) -> float:
    """Return how strong the colour of a node is: the hit rate of its own tokens, of its branch where it has none."""
    own = rate(prefix.own_hit_tokens, prefix.own_tokens)
    found = own if own is not None else rate(prefix.below_hit_tokens, prefix.below_tokens)
    # The square, for most prefixes hit more than half and would look alike.
    return STRONGEST * (found or 0.0) ** 2


def _children(tree: Sequence[Prefix]) -> dict[str | None, list[Prefix]]:
    """Return the nodes by parent; one whose parent is not drawn hangs from the root, which cannot occur."""
    keys = {p.key for p in tree}
    found: dict[str | None, list[Prefix]] = {}
    for prefix in tree:
        found.setdefault(prefix.parent if prefix.parent in keys else None, []).append(prefix)
    return found


def _label(prefix: Prefix) -> str:
    """Return what a box says to those who do not see it; it begins with what is written on it."""
    cost = prefix.below_excess_cost
    lost = f", excess cost {money_compact(cost, prefix.currency)}" if cost else ""
    own = percent(rate(prefix.own_hit_tokens, prefix.own_tokens))
    branch = percent(rate(prefix.below_hit_tokens, prefix.below_tokens))
    return (
        f"{clean(prefix.name, 40)}, {own} of its own tokens hit; with its branch "
        f"{amount(prefix.below_tokens)} tokens, {branch} hit{lost}"
    )


def _svg(found: Sequence[Box], branch: Branch, links: Mapping[str | None, str], root: str) -> str:
    height = ROW_PX * (1 + max((box.row for box in found), default=0))
    anchor = branch.anchor
    parts = [
        f'<svg viewBox="0 0 {WIDTH_PX} {height}" role="group" aria-labelledby="{anchor}-title">',
        f'<title id="{anchor}-title">{html.escape(quiet(f"Shared prefixes of {clean(branch.name, 40)}"))}</title>',
        f'<rect width="{WIDTH_PX - 1}" height="{ROW_PX - 2}" class="root"/>',
        f'<text x="6" y="{ROW_PX / 2 + 3:.0f}">{html.escape(root)}</text>',
    ]
    parts += [_box(box, links) for box in found]
    return "".join((*parts, "</svg>"))


def _box(box: Box, links: Mapping[str | None, str]) -> str:
    prefix, strength = box.prefix, shade(box.prefix)
    x, y = box.left * WIDTH_PX, box.row * ROW_PX
    width = max(box.width * WIDTH_PX - 1, 1.0)
    label = html.escape(_label(prefix))
    text = label_of(prefix, width)
    drawn = (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW_PX - 2}"/>'
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW_PX - 2}" class="own" fill-opacity="{strength:.2f}"/>'
        f"<title>{label}</title>"
    )
    if text:
        drawn += f'<text x="{x + 6:.1f}" y="{y + ROW_PX / 2 + 3:.0f}">{html.escape(text)}</text>'
    link = links.get(prefix.key)
    if link is None:
        return f"<g>{drawn}</g>"
    return f'<a href="#{link}" aria-label="{label}">{drawn}</a>'


def label_of(prefix: Prefix, width_px: float) -> str:
    """Return as much of the label as has room: name and hit rate, the hit rate, or nothing."""
    told = percent(rate(prefix.own_hit_tokens, prefix.own_tokens))
    for text in (f"{clean(prefix.name, 40)}, {told}", told):
        if len(text) * _CHARACTER_PX + 8 <= width_px:
            return text
    return ""
