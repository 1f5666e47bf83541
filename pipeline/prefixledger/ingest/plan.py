"""A map file made ready for use: which field becomes which column, in plain data that other processes can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import tzinfo

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
PathKind = Literal["token_ids", "block_ids", "text", "none"]


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """Where one column comes from.

    Attributes:
        source: Name of the field, or a dotted path into nested objects.
        steps: The dotted path, split; one element where the name has no dot.
        unit: Unit of a time or duration.
        zone: Zone of ISO times that name none.
        value: The same value for every row, in place of a field.
    """

    source: str
    steps: tuple[str, ...] = ()
    unit: TimeUnit = "iso"
    zone: tzinfo | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class MapPlan:
    """What a map file says of rows.

    Attributes:
        times: Fields for ``started_at``, ``admitted_at``, ``first_token_at``, ``finished_at``, by column.
        duration: Field for the time from start to end, in place of ``finished_at``.
        texts: Fields for names, by column.
        counts: Fields for numbers of tokens, by column.
        weight: Field for the number of requests that a row stands for.
        status: Field for ok, failed or cut.
        prompt_complete: Field for whether all of the prompt was logged.
        bypassed: Field for whether the engine was told not to read its cache.
        path_kind: What the prompt is given as.
        path: Field for it.
        images: Field for the images in the prompt.
        parts: Field for what the prompt is made of, beside its ids.
    """

    times: tuple[tuple[str, FieldPlan], ...]
    texts: tuple[tuple[str, FieldPlan], ...]
    counts: tuple[tuple[str, FieldPlan], ...]
    path_kind: PathKind = "none"
    path: FieldPlan | None = None
    duration: FieldPlan | None = None
    weight: FieldPlan | None = None
    status: FieldPlan | None = None
    prompt_complete: FieldPlan | None = None
    bypassed: FieldPlan | None = None
    images: FieldPlan | None = None
    parts: FieldPlan | None = None

    @property
    def columns(self) -> tuple[FieldPlan, ...]:
        """Every field that the map mentions."""
        single = (
            self.path,
            self.duration,
            self.weight,
            self.status,
            self.prompt_complete,
            self.bypassed,
            self.images,
            self.parts,
        )
        plans = [plan for _, plan in (*self.times, *self.texts, *self.counts)]
        return (*plans, *(plan for plan in single if plan is not None))

    @property
    def fields(self) -> frozenset[str]:
        """Every field name that the map mentions, each step of a path by itself."""
        return frozenset(name for plan in self.columns for name in (plan.source, *plan.steps) if name)
