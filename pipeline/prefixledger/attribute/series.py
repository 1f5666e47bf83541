"""Holds rates of hits and of causes by slice of time, for the whole log and for each tenant, prefix, model, release and replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.attribute.change_points import ENOUGH_SLICES, Step, step_at, steps, told
from prefixledger.attribute.investigated import Move

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

WHOLE = ("all", "all")
HIT = "hit"
_STEPS_S = (60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
_MOST_SLICES = 200
_REQUESTS_A_SLICE = 10
_DAY_S = 86_400
_LEAST_SHARE = 0.002
"""A cause that takes less than this of the prompts of a series is not looked through."""


@dataclass(frozen=True, slots=True)
class Series:
    """The slices of one value of one field.

    Attributes:
        field: all, tenant, prefix, model, release or replica.
        value: Which one.
        slices: int64[n], rising.
        requests: int64[n], lookups.
        prompt: float64[n], prompt tokens.
        rates: float64[n] by measure: ``hit`` or a cause, as shares of the prompt tokens.
    """

    field: str
    value: str
    slices: NDArray[np.int64]
    requests: NDArray[np.int64]
    prompt: NDArray[np.float64]
    rates: dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Found:
    """A step of one measure of one series.

    Attributes:
        step: The step.
        move: The same as it is told.
        tokens: Prompt tokens of a slice of the series, times the change: how much it weighs.
    """

    step: Step
    move: Move
    tokens: float


def slice_us(from_us: int, to_us: int, requests: int) -> int:
    """Return the width of a slice: an hour where that leaves enough slices and requests in each, else a round length."""
    length_s = (to_us - from_us) / 1e6
    for step_s in _STEPS_S:
        slices = length_s / step_s
        if slices <= _MOST_SLICES and requests >= _REQUESTS_A_SLICE * slices:
            return step_s * 1_000_000
    return _STEPS_S[-1] * 1_000_000


def reach_slices(width_us: int) -> int:
    """Return how many slices on either side of a moment that was asked for are held against each other: six hours, six at least."""
    return max(6, round(6 * 3_600e6 / width_us))


def read_series(table: pa.Table) -> list[Series]:
    """Return the series of ``85_investigate/slices``, the whole first."""
    found: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(table["field"].to_pylist(), table["value"].to_pylist(), strict=True)):
        found.setdefault(key, []).append(row)
    names = [name for name in table.column_names if name.startswith("miss_")]
    columns = {
        name: table[name].to_numpy() for name in ("slice", "requests", "prompt_tokens", "hit_tokens", *names)
    }
    out = []
    for (field, value), rows in sorted(found.items(), key=lambda item: (item[0] != WHOLE, item[0])):
        mine = np.array(rows)
        mine = mine[columns["prompt_tokens"][mine] > 0]
        prompt = columns["prompt_tokens"][mine].astype(np.float64)
        rates = {HIT: columns["hit_tokens"][mine] / prompt}
        for name in names:
            rates[name.removeprefix("miss_").removesuffix("_tokens")] = columns[name][mine] / prompt
        out.append(
            Series(
                field,
                value,
                columns["slice"][mine].astype(np.int64),
                columns["requests"][mine],
                prompt,
                rates,
            )
        )
    return out


def find_steps(series: list[Series], width_us: int, at_slice: int | None = None) -> tuple[list[Found], int]:
    """Look for steps in every measure of every series.

    Args:
        series: From ``read_series``.
        width_us: Width of a slice.
        at_slice: Look only there; None looks everywhere.

    Returns:
        The steps that are sure and large enough, and how many series were looked through.
    """
    day_slices = round(_DAY_S * 1e6 / width_us) if width_us < _DAY_S * 1_000_000 else 0
    seen: list[tuple[Series, str, Step]] = []
    tested = 0
    for each in series:
        if each.slices.size < ENOUGH_SLICES:
            continue
        for measure, rates in each.rates.items():
            if measure != HIT and np.average(rates, weights=each.prompt) < _LEAST_SHARE:
                continue
            tested += 1
            if at_slice is None:
                found = steps(each.slices, rates, each.prompt, day_slices=day_slices)
            else:
                one = step_at(each.slices, rates, each.prompt, at_slice, reach_slices(width_us))
                found = [] if one is None else [one]
            seen += [(each, measure, step) for step in found]
    sure = told([step for _, _, step in seen])
    return [_found(*one) for one, keep in zip(seen, sure, strict=True) if keep], tested


def _found(series: Series, measure: str, step: Step) -> Found:
    move = Move(measure, series.field, series.value, step.before, step.after, step.low, step.high, step.p)
    return Found(step, move, abs(step.change) * float(series.prompt.mean()))
