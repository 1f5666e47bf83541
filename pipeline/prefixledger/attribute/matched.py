"""Compares turns after gaps of the same length, with and without a change of process between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from prefixledger.attribute.investigated import Matched

if TYPE_CHECKING:
    from collections.abc import Sequence

GAPS_S = (0, 60, 300, 900, 3_600, 14_400)
LEAST_PAIRS = 8
"""Pairs on either side below which there is not enough data."""
_LEAST_VARIANCE = 1e-4
"""Of a share: one point squared, so that pairs that all are alike prove no more than that."""


def matched(rows: Sequence[dict[str, Any]]) -> tuple[Matched, ...]:
    """Return one comparison for each field and class of gaps in which some turn follows a change.

    Args:
        rows: Of ``85_investigate/pairs``.
    """
    cells = {(row["field"], row["gap_class"], row["changed"]): row for row in rows}
    asked = sorted({(field, gap) for field, gap, changed in cells if changed})
    found = [
        _compare(field, gap, cells.get((field, gap, True)), cells.get((field, gap, False)))
        for field, gap in asked
    ]
    tested = sum(each.p is not None for each in found)
    return tuple(_allowing(each, tested) for each in found)


def _compare(field: str, gap: int, changed: dict[str, Any] | None, same: dict[str, Any] | None) -> Matched:
    later = GAPS_S[GAPS_S.index(gap) + 1 :]
    low = high = p = None
    if changed and same and min(changed["pairs"], same["pairs"]) >= LEAST_PAIRS:
        sides = [
            (row["mean_share"], np.sqrt(max(row["share_variance"], _LEAST_VARIANCE)), row["pairs"])
            for row in (changed, same)
        ]
        test = scipy.stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False)
        p = float(test.pvalue)
        errors = [spread**2 / pairs for _, spread, pairs in sides]
        freedom = sum(errors) ** 2 / sum(
            error**2 / (side[2] - 1) for error, side in zip(errors, sides, strict=True)
        )
        reach = float(scipy.stats.t.ppf(0.975, freedom)) * float(np.sqrt(sum(errors)))
        low, high = (sides[0][0] - sides[1][0] + sign * reach for sign in (-1, 1))
    return Matched(
        field=field,
        gap_from_s=gap,
        gap_to_s=later[0] if later else None,
        changed_pairs=changed["pairs"] if changed else 0,
        same_pairs=same["pairs"] if same else 0,
        changed_share=changed["mean_share"] if changed else None,
        same_share=same["mean_share"] if same else None,
        low=low,
        high=high,
        p=p,
    )


def _allowing(one: Matched, tested: int) -> Matched:
    return one if one.p is None else replace(one, p=min(1.0, one.p * tested))
