"""A part of a log that hits as the whole does: some subtrees below what is shared, with everything above them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.index.partition_kernel import cut_subtrees, subtree_blocks
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.chains import build_chains
from prefixledger.replay.lookups import Log, Lookups

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARED_BY = 0.01
"""A block that more of the lookups share than this is kept whatever is drawn."""
_SURE = 1.96
"""Standard errors to either side that hold 95 of 100 draws."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was drawn.

    Attributes:
        share: Lookups that were drawn over all of them.
        shared_blocks: Blocks that more than ``SHARED_BY`` of the lookups share; all of them are kept.
        unit: int64[m], number of the drawn subtree that each lookup lies in, by arrival; -1 for one that was not drawn, of which
            only what is shared is looked up.
        units: How many there are to draw from.
        lookups: Lookups of the whole log.
    """

    share: float
    shared_blocks: int
    unit: NDArray[np.int64]
    units: int
    lookups: int

    def capacity_blocks(self, blocks: int) -> int:
        """Return what a cache of so many blocks has for the sample: what is shared whole, of the rest its share."""
        rest = max(blocks - self.shared_blocks, 0)
        return blocks - rest + round(rest * self.share)

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """bool[m]: lookups that count."""
        return self.unit >= 0

    def error_pp(self, hit: NDArray[np.int64], prompt: NDArray[np.int64]) -> float:
        """Return how far the hit rate of 95 of 100 samples lies from that of all, in percentage points, at most.

        The standard error of a ratio over units that were drawn without putting back. It knows nothing of what the smaller
        cache itself does otherwise.

        Args:
            hit: int64[m], hit tokens of each lookup, by arrival.
            prompt: int64[m], prompt tokens.
        """
        unit = self.unit[self.drawn]
        asked, found = (np.bincount(unit, part[self.drawn]) for part in (prompt, hit))
        drawn = np.bincount(unit) > 0
        count, total = int(drawn.sum()), float(asked.sum())
        if count < 2 or not total:  # noqa: PLR2004  # one unit has no spread
            return 100.0
        off = found[drawn] - asked[drawn] * (float(found.sum()) / total)
        variance = float((off**2).sum()) * count / (count - 1) * max(1 - count / self.units, 0.0)
        return float(100 * _SURE * np.sqrt(variance) / total)


def sampled(log: Log, share: float, seed: int) -> tuple[Log, Sample]:
    """Keep so large a share of the subtrees that hang below the deepest block that many lookups share.

    A lookup is kept with its whole prompt, and with every other lookup that goes on below the same block; of all others what
    is shared is looked up, so that it is used as often as in the whole log. So a drawn lookup hits what it hits there, but
    for what a smaller cache does otherwise. Subtrees are drawn in order of their lookups, every so many-th, so that large and
    small ones are there in the proportion of the log. A lookup that goes no further than what is shared is a subtree of its
    own.

    Args:
        log: All of it.
        share: Above 0, below 1.
        seed: Where the drawing begins.

    Raises:
        UsageError: Nothing, or everything, would be kept.
    """
    unit, above, shared_blocks = _units(log)
    requests = np.bincount(unit)
    order = np.argsort(-requests, kind="stable")
    begin = float(np.random.default_rng(seed).random())
    steps = np.floor((np.arange(order.size) + 1) * share + begin) - np.floor(
        np.arange(order.size) * share + begin
    )
    drawn = np.zeros(order.size, np.bool_)
    drawn[order] = steps > 0
    kept = drawn[unit]
    if not kept.any() or kept.all():
        raise UsageError(
            f"a sample of {100 * share:g} % keeps {'every' if kept.any() else 'no'} lookup: below what is shared the log has "
            f"{order.size:,} subtrees",
            hint="give another share, or leave --sample out",
        )
    taken = np.flatnonzero(kept | (above >= 0))
    sample = Sample(
        share=float(kept.mean()),
        shared_blocks=shared_blocks,
        unit=np.where(kept, unit, -1)[taken],
        units=int(order.size),
        lookups=len(log.lookups),
    )
    return replace(log, lookups=_cut_short(log, taken, kept[taken], above[taken])), sample


def _cut_short(
    log: Log, taken: NDArray[np.int64], kept: NDArray[np.bool_], above: NDArray[np.int64]
) -> Lookups:
    """Return some lookups, those that are not kept as if their prompts ended one token behind what is shared."""
    known = log.lookups
    lookups = Lookups(**{name: getattr(known, name)[taken] for name in Lookups.__dataclass_fields__})
    chains = build_chains(log.forest.parent)
    last = np.maximum(above, 0)
    blocks = chains.chain_depth[chains.chain[last]].astype(np.int64) + chains.position[last] + 1
    return replace(
        lookups,
        last_block=np.where(kept, lookups.last_block, above),
        n_blocks=np.where(kept, lookups.n_blocks, blocks),
        prompt_tokens=np.where(kept, lookups.prompt_tokens, blocks * lookups.block_size + 1),
        output_tokens=np.where(kept, lookups.output_tokens, np.minimum(lookups.output_tokens, 0)),
    )


def _units(log: Log) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return where lookups part.

    Returns:
        int64[m], number of the subtree of each; int64[m], deepest shared block of each, -1 for none; and how many blocks are
        shared.
    """
    last, blocks = log.lookups.last_block, len(log.forest.parent)
    asked = np.bincount(last[last >= 0], minlength=blocks).astype(np.int64)
    parent, top = read_only(log.forest.parent, np.int64), np.empty(blocks, np.int64)
    subtree_blocks(parent, asked)
    cut_subtrees(parent, asked, int(SHARED_BY * len(log.lookups)), top)
    first = np.append(top, -1)[last]
    above = np.where(first >= 0, log.forest.parent[np.maximum(first, 0)], last)
    alone = np.flatnonzero(first < 0)
    first[alone] = blocks + np.arange(alone.size)
    _, unit = np.unique(first, return_inverse=True)
    return unit.astype(np.int64), np.maximum(above, -1), int((top < 0).sum())
