"""Who uses a hosted cache: the values of one column, the head that the prompts of each share, and how often it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.replay.block_numbers import ancestors, number_blocks
from prefixledger.replay.chains import build_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground

FIELDS = ("tenant", "client", "model")
"""Columns by which traffic can be given a policy of its own, the finest first."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Unit:
    """The lookups of a pool that have one value of the column.

    Attributes:
        value: The value; ``all`` where no column tells any apart.
        lookups: int64[n], by arrival.
        gaps_us: int64[n - 1], from the start of one to the start of the next.
        head_blocks: Blocks that at least half of its prompts begin with, 0 for none.
        head_block: The last of them, -1 for none.
        head_lookup: A lookup that has them.
        block_size: Tokens per block.
    """

    value: str
    lookups: NDArray[np.int64]
    gaps_us: NDArray[np.int64]
    head_blocks: int
    head_block: int
    head_lookup: int
    block_size: int

    @property
    def head_tokens(self) -> int:
        """Tokens of its head."""
        return self.head_blocks * self.block_size


@dataclass(frozen=True, slots=True)
class Units:
    """All who use a pool.

    Attributes:
        field: The column; empty where there is one unit.
        code: int64[m], unit of each lookup of the log, -1 for those of other pools and of no value.
        units: Each of them, by name.
    """

    field: str
    code: NDArray[np.int64]
    units: tuple[Unit, ...]

    def sums(self, amount: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return float64[u], an amount summed over the chosen lookups of each unit."""
        mine = chosen & (self.code >= 0)
        return np.bincount(self.code[mine], amount[mine], len(self.units)).astype(np.float64)


def find_units(ground: Ground, mine: NDArray[np.bool_], block_size: int) -> Units:
    """Tell the users of a pool apart.

    Args:
        ground: The log.
        mine: bool[m], its lookups.
        block_size: Tokens per block.
    """
    table = ground.log.rows.table
    rows = pa.array(ground.log.lookups.request_row[mine])
    code = np.full(mine.size, -1, np.int64)
    for field in FIELDS:
        if field not in table.column_names:
            continue
        column = table[field].take(rows).combine_chunks().dictionary_encode()
        if len(column.dictionary) < 2:  # noqa: PLR2004
            continue
        names = column.dictionary.to_pylist()
        order = sorted(range(len(names)), key=lambda number: str(names[number]))
        rank = np.empty(len(names), np.int64)
        rank[order] = np.arange(len(names))
        found = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        code[mine] = np.where(found >= 0, rank[found], -1)
        values = [str(names[number]) for number in order]
        break
    else:
        field, values = "", [ALL]
        code[mine] = 0
    places = [np.flatnonzero(code == number) for number in range(len(values))]
    return Units(
        field,
        code,
        tuple(
            _unit(ground, value, lookups, block_size) for value, lookups in zip(values, places, strict=True)
        ),
    )


def _unit(ground: Ground, value: str, lookups: NDArray[np.int64], block_size: int) -> Unit:
    known, chains = ground.log.lookups, ground.trials.prepared.chains
    paths = build_paths(chains, known.last_block[lookups])
    passing = np.bincount(paths.chain, minlength=chains.chain_length.size)
    shared = np.flatnonzero(2 * passing >= max(lookups.size, 2))
    blocks, block, example = 0, -1, -1
    if shared.size:
        deepest = int(shared[np.argmax(chains.chain_depth[shared])])
        entry = np.flatnonzero(paths.chain == deepest)
        owner = np.searchsorted(paths.offset, entry, side="right") - 1
        end = int(chains.chain_depth[deepest]) + int(chains.chain_length[deepest])
        # A chain that all leave before its end is shared as far as half of them go.
        blocks = min(end, int(np.median(known.n_blocks[lookups[owner]])))
        longest = owner[np.argmax(known.n_blocks[lookups[owner]])]
        example = int(lookups[longest])
        block = int(
            ancestors(
                chains,
                number_blocks(chains),
                known.last_block[example : example + 1],
                np.array([blocks]),
            )[0]
        )
    return Unit(value, lookups, np.diff(known.started_us[lookups]), blocks, block, example, block_size)
