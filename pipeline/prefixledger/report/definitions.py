"""What every figure of the report means: formula, weight, window and the rule for partial blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.glossary import CAUSE_TERMS
from prefixledger.report.numbers import duration

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView


@dataclass(frozen=True, slots=True)
class Definition:
    """One figure, explained once.

    Attributes:
        anchor: What links to it.
        term: Its name.
        formula: How it is computed.
        weight: What one unit of it is.
        window: Over which time.
        blocks: What happens to tokens outside full blocks.
    """

    anchor: str
    term: str
    formula: str
    weight: str
    window: str
    blocks: str


_WINDOW = "the whole window"
_PARTIAL = "counted as asked; a partial last block and the last token can never hit"


def definitions(view: ReportView) -> tuple[Definition, ...]:
    """Return the definitions that fit this report."""
    slices = f"the whole window; per {duration(view.timeline.width_s)} in the chart over time"
    return (
        Definition(
            "token-hit-rate",
            "Token hit rate",
            "hit tokens / prompt tokens, over all lookups (calls that failed before reaching a cache are no lookups)",
            "each prompt token counts once, so long prompts weigh more",
            slices,
            _PARTIAL,
        ),
        Definition(
            "request-hit-rate",
            "Request hit rate",
            "lookups with at least one hit block / lookups; high even where little is saved, so never read it alone",
            "each lookup counts once",
            _WINDOW,
            "a lookup without a full block cannot hit",
        ),
        Definition(
            "ideal-hit-rate",
            "Within reach (ideal hit rate)",
            "hit tokens / prompt tokens of one unlimited cache shared by all replicas, lookups in order of arrival",
            "each prompt token of the lookups with keys",
            "the cache has seen everything before the window that the log holds",
            _PARTIAL,
        ),
        Definition(
            "causes",
            "Tokens by cause",
            "each missed token has one cause: the first rule that its evidence in the log proves",
            "missed tokens",
            slices,
            "tokens outside full blocks are 'not cacheable'",
        ),
        Definition(
            "prefill",
            "Prefill tokens",
            "prompt tokens - hit tokens: what the engine computes",
            "each prompt token",
            _WINDOW,
            "included",
        ),
        Definition(
            "cost-multiplier",
            "Cost multiplier",
            "(uncached + r x read + w x written tokens) / prompt tokens, with r and w the price of a read and of a "
            "written token over an uncached one; 1.00 is the price without any cache",
            "each prompt token at its price",
            _WINDOW,
            "missed full blocks are written, the rest is uncached",
        ),
        Definition(
            "excess-cost",
            "Excess cost",
            "missed tokens x (price paid - price of a read): what a hit would have saved",
            "each missed token at its price",
            _WINDOW,
            "included",
        ),
        Definition(
            "agreement",
            "Agreement",
            "1 - sum over lookups of |simulated - observed hit tokens| / sum of prompt tokens",
            "each prompt token of the lookups that have both",
            _WINDOW,
            _PARTIAL,
        ),
        Definition(
            "own-tokens",
            "Own tokens of a prefix",
            "tokens after the shared prefix above it and up to it; 'incl. below' adds every prefix under it and is "
            "never summed over rows",
            "each asked token belongs to one prefix",
            _WINDOW,
            "tokens outside full blocks belong to (unshared)",
        ),
        Definition(
            "ttl",
            "Time to live",
            "a block hits if the time since its last use on this replica is at most the TTL; every use renews it",
            "each block",
            _WINDOW,
            "full blocks only",
        ),
    )


def cause_lines(view: ReportView) -> tuple[tuple[str, str, str], ...]:
    """Return (cause, label, gloss) of every cause; those without keys to prove anything only where they occur."""
    lost = view.result.total.misses
    shown = [c for c in CAUSE_TERMS if c != "unexplained" or lost.get(c) or view.result.observed is not None]
    return tuple((c, CAUSE_TERMS[c].name, CAUSE_TERMS[c].gloss) for c in shown)
