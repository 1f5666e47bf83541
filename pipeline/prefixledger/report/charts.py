"""The charts of amounts: the account, the replicas and the ladder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from prefixledger.report.canvas import INK, MUTED, RULE, WIDTH_PX, area, bar_style, heading, note, sheet
from prefixledger.report.glossary import RUNG_NAMES, cause_name
from prefixledger.report.load import peers
from prefixledger.report.numbers import amount, clean, percent
from prefixledger.report.palette import sentinel
from prefixledger.report.svg import STYLE, inline_svg
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from prefixledger.report.books import Book
    from prefixledger.report.view import ReportView

_CHARACTER_PX = 7.5
"""Width that a character of a label takes at most; a piece of a bar without that room goes without its label."""

_REPLICAS_DRAWN = 24
_RUNG_SERIES = {"per_replica": "misrouted", "resets": "invalidated", "ttl": "expired", "capacity": "evicted"}
_MINUS = "\N{MINUS SIGN}"


def account_bar(book: Book, chart_id: str) -> str:
    """Draw one bar: asked = hits + misses by cause."""
    pieces = [("hit", book.hit_tokens), *((c, book.misses.get(c, 0)) for c in CAUSES)]
    pieces = [(name, tokens) for name, tokens in pieces if tokens]
    with mpl.rc_context(STYLE):
        figure = sheet(62)
        axes = area(figure, 1, 22, 1, 1)
        axes.set_axis_off()
        axes.set_xlim(0, book.prompt_tokens)
        axes.set_ylim(0, 1)
        left = 0
        for name, tokens in pieces:
            axes.barh(0.5, tokens, left=left, height=1, **bar_style(name))
            share = tokens / book.prompt_tokens
            label = "hits" if name == "hit" else cause_name(name)
            if share * WIDTH_PX >= _CHARACTER_PX * len(label):
                note(axes, label, (left, 1), (1, 6), "left", "bottom", INK)
            left += tokens
        said = ", ".join(
            f"{'hits' if n == 'hit' else cause_name(n)} {percent(t / book.prompt_tokens)}" for n, t in pieces
        )
        return inline_svg(
            figure,
            chart_id=chart_id,
            title="Where the prompt tokens went",
            description=f"One bar of {amount(book.prompt_tokens)} prompt tokens: {said}.",
        )


def replica_load(view: ReportView, chart_id: str) -> str:
    """Draw for each replica its load beside its hit rate, pool by pool, busiest first."""
    rows = [(r, pool) for pool in peers(view) for r in pool][:_REPLICAS_DRAWN]
    shares = [r.prompt_tokens / sum(p.prompt_tokens for p in pool) for r, pool in rows]
    rates = [r.hit_tokens / r.prompt_tokens for r, _ in rows]
    at = range(len(rows))
    with mpl.rc_context(STYLE):
        figure = sheet(62 + 26 * len(rows))
        load = area(figure, 160, 36, 410, 24)
        rate = area(figure, 560, 36, 60, 24)
        end = max(*shares, *(1 / len(pool) for _, pool in rows))
        load.barh(at, shares, height=0.62, facecolor=sentinel("muted"), edgecolor="none")
        rate.barh(at, [1.0] * len(rows), height=0.62, facecolor=RULE, edgecolor="none")
        rate.barh(at, rates, height=0.62, **bar_style("hit") | {"linewidth": 0})
        for row, (_, pool) in enumerate(rows):
            note(load, percent(shares[row]), (end, row), (5, 0), "left", "center", INK)
            note(rate, percent(rates[row]), (1, row), (5, 0), "left", "center", INK)
            load.plot(
                [1 / len(pool)] * 2, [row - 0.5, row + 0.5], color=INK, linewidth=0.9, linestyle=(0, (2, 2))
            )
        load.set_xlim(0, end)
        load.set_yticks(at, [clean(r.name, 20) for r, _ in rows], color=INK)
        rate.set_yticks([])
        whole = "its pool's prompt tokens" if len({r.pool for r in view.replicas}) > 1 else "prompt tokens"
        for axes, title in ((load, f"Share of {whole}"), (rate, "Token hit rate")):
            axes.set_ylim(len(rows) - 0.4, -0.6)
            axes.set_xticks([])
            axes.spines["bottom"].set_visible(False)
            heading(axes, title)
        even = 1 / len(rows[-1][1])
        note(load, "even share", (even, len(rows) - 0.4), (0, -4), "center", "top", MUTED)
        said = "; ".join(
            f"{clean(r.name, 20)}: {percent(share)} of the tokens, hit rate {percent(hits)}"
            for (r, _), share, hits in list(zip(rows, shares, rates, strict=True))[:6]
        )
        return inline_svg(
            figure, chart_id=chart_id, title="Load beside hit rate, by replica", description=said + "."
        )


def ladder_waterfall(view: ReportView, chart_id: str) -> str:
    """Draw the ladder: what an ideal shared cache would hit, and what each limit takes away."""
    ladder = [
        r for r in view.result.ladder if r.rung != "observed"
    ]  # covers other lookups: not on this scale
    with mpl.rc_context(STYLE):
        figure = sheet(44 + 34 * len(ladder))
        axes = area(figure, 220, 32, 130, 12)
        for row, rung in enumerate(ladder):
            last = row in {0, len(ladder) - 1}
            axes.barh(
                row,
                rung.hit_tokens,
                height=0.66,
                alpha=1.0 if last else 0.35,
                **bar_style("hit") | {"linewidth": 0},
            )
            lost = rung.lost_tokens if row else 0
            if lost:
                axes.barh(row, lost, left=rung.hit_tokens, height=0.66, **bar_style(_RUNG_SERIES[rung.rung]))
            told = f"{_MINUS}{amount(lost)}" if lost else "nothing lost" if row else amount(rung.hit_tokens)
            note(axes, told, (rung.hit_tokens + lost, row), (6, 0), "left", "center", INK)
        axes.set_xlim(0, ladder[0].hit_tokens)
        axes.set_ylim(len(ladder) - 0.5, -0.5)
        axes.set_yticks(range(len(ladder)), [RUNG_NAMES[r.rung][0] for r in ladder], color=INK)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        heading(axes, "Hit tokens left after each limit, and what the limit took")
        said = "; ".join(f"{RUNG_NAMES[r.rung][0]}: {amount(r.hit_tokens)} hit tokens" for r in ladder)
        return inline_svg(
            figure, chart_id=chart_id, title="What each limit takes away", description=said + "."
        )
