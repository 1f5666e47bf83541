"""Judges whether the ids of an input fit its block size, and which sizes would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from prefixledger.errors import Place
    from prefixledger.ingest.batch import Fit
    from prefixledger.ingest.reader import Context

_CANDIDATES: Final = np.array(sorted({*(1 << k for k in range(13)), *range(16, 4_097, 16)}), np.int64)
_NAMED: Final = 5


def check_fit(fit: Fit, context: Context, sizes: set[int], place: Place) -> None:
    """Refuse an input of which less than half fits.

    Args:
        fit: How its block ids fit.
        context: The input.
        sizes: Block sizes that its rows were read with.
        place: Where the message points.

    Raises:
        UsageError: Under half of the rows with block ids fit; the sizes that fit are named.
    """
    total = fit.either + fit.floor + fit.ceil + fit.neither
    if total == 0:
        return
    if 2 * (total - fit.neither) < total:
        size = context.block_size or (min(sizes) if sizes else context.fallback_block_size)
        fitting = fitting_sizes(fit)
        hint = f"--block-size {fitting[0]}" if fitting else "are these block ids at all?"
        named = ", ".join(map(str, fitting)) or "none that is common"
        raise UsageError(
            f"block size {size} fits {total - fit.neither} of {total} rows; sizes that fit: {named}",
            place=place,
            hint=hint,
        )
    if context.block_ids is not None:
        other = "ceil" if context.block_ids == "floor" else "floor"
        fits = fit.either + getattr(fit, context.block_ids)
        if 2 * fits < total:
            raise UsageError(
                f"block ids by {context.block_ids} fit {fits} of {total} rows, by {other} {fit.either + getattr(fit, other)}",
                place=place,
                hint=f"leave the rule out, or say {other}",
            )


def fitting_sizes(fit: Fit) -> list[int]:
    """Return the block sizes that fit at least half of the first 10,000 rows: the best first, powers of two before others."""
    pairs = np.array(fit.samples, np.int64).reshape(-1, 2)
    tokens, n_ids = pairs[:, :1], pairs[:, 1:]
    by_floor = tokens // _CANDIDATES == n_ids
    by_ceil = -(-tokens // _CANDIDATES) == n_ids
    share = np.maximum(by_floor.mean(axis=0), by_ceil.mean(axis=0))
    power = (_CANDIDATES & (_CANDIDATES - 1)) == 0
    order = np.lexsort((_CANDIDATES, ~power, -share))
    return [int(_CANDIDATES[at]) for at in order if 2 * share[at] >= 1][:_NAMED]


def rule_of(fit: Fit) -> str | None:
    """Return ``floor`` or ``ceil``, whichever more rows follow, ``exact`` where no row tells, None without ids."""
    if fit.either + fit.floor + fit.ceil == 0:
        return None
    if fit.floor + fit.ceil == 0:
        return "exact"
    return "floor" if fit.floor > fit.ceil else "ceil"
