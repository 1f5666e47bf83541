"""Findings and advice in ``report.json``."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from prefixledger.report.document.scalars import Count, Moment, one_of

_Found = TypedDict("_Found", {"from": Moment | None, "to": Moment | None})
_Judged = TypedDict("_Judged", {"from": Moment, "to": Moment})


class Finding(_Found):
    """One thing that the log shows."""

    kind: str
    title: str
    tokens: Count
    cost: float | None
    currency: str | None
    where: str | None
    evidence: list[str]
    """Ids of requests, shortened unless asked for whole."""
    action: str | None


class Effect(_Judged):
    """What a change comes to in a stretch of the log."""

    prompt_tokens: Count
    tokens: int
    tokens_low: int
    tokens_high: int
    before: float | None
    """What the input of the stretch costs today."""
    saved: float | None
    saved_low: float | None
    saved_high: float | None
    currency: str | None
    gpu_s: float | None
    certain: bool
    """Whether the ends are known."""


class Recommendation(Effect):
    """A change that was replayed on this log and saves more than chance could take away.

    tokens, saved and their ends are those of the stretch that judges; cost repeats saved.
    """

    kind: str
    action: str
    where: str | None
    cost: float | None
    predicted: float | None
    """What the days that chose it had promised."""
    as_predicted: bool | None
    in_full: Effect
    """Over the whole log."""
    shown_by: str
    side_effects: list[str]
    confidence: Annotated[str, one_of("high", "medium", "low")]
    because: str
    verify: str
    scenario: str | None


class Decision(TypedDict):
    """What to do about one shared prefix of a hosted cache."""

    prefix: str
    name: str
    pool: str
    tokens: Count
    requests: Count
    today: str
    decision: str
    because: str
    hit_share: float | None
    break_even: float | None
    reads_per_write: float | None
    saved: float | None
    loss: float | None
    currency: str


class Advice(TypedDict):
    """What belongs to no single recommendation."""

    tried: Count
    """Changes that were replayed."""
    fitted_to: Moment | None
    together: Effect | None
    """All recommendations at once, by one replay."""
    decisions: list[Decision]
    notes: list[str]
