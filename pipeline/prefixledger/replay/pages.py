"""A log seen by a cache whose pages are larger than the blocks of the log: a page is a block that ends at a whole page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.errors import UsageError
from prefixledger.replay.chains import build_chains
from prefixledger.replay.pools import assign_pools, pool_block_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.lookups import Log

_BLOCK_NUMBERS = {
    "facts.parquet": ("last_block",),
    "lookup_facts.parquet": ("last_block",),
    "removals.parquet": ("last_block",),
    "shared.parquet": ("node", "parent_node"),
    "lookup_shared.parquet": ("node",),
}
"""The columns of a replay that hold block numbers of the index."""


@dataclass(frozen=True, slots=True)
class Paged:
    """A log whose blocks are the pages of a cache.

    Attributes:
        log: What is replayed.
        number: int64[pages], the block of the index that ends each page, ascending; None where pages are blocks.
    """

    log: Log
    number: NDArray[np.int64] | None = None

    def as_logged(self, files: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Return the tables of a replay with block numbers of the index in place of those of pages."""
        if self.number is None:
            return dict(files)
        return {name: self._renumbered(table, _BLOCK_NUMBERS.get(name, ())) for name, table in files.items()}

    def _renumbered(self, table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
        for column in columns:
            at = table.schema.get_field_index(column)
            field = table.schema.field(at)
            numbers = pa.array(self.number).take(table[column].combine_chunks()).cast(field.type)
            table = table.set_column(at, field, numbers)
        return table


def in_pages(log: Log, scenario: Scenario) -> Paged:
    """Cut a log into the pages that its pools ask for; keys and prompts are truncated to whole pages.

    Two prompts share a page if they share every block of it (SGLang 0.5.23: a child is looked up by its first page of tokens),
    so pages form a forest as blocks do: those blocks that end a page, each under the one that ends the page before.

    Args:
        log: All lookups and blocks.
        scenario: ``page_size`` of its pools.

    Raises:
        UsageError: A page is not made of whole blocks, or not all lookups are in pages of the same number of blocks.
    """
    if not len(log.lookups) or all(pool.cache.page_size is None for pool in scenario.pool):
        return Paged(log)
    blocks = _blocks_a_page(log, scenario)
    return Paged(log) if blocks == 1 else _paged(log, blocks)


def in_pages_of(log: Log, blocks: int) -> Log:
    """Cut a log into pages of so many blocks each; see ``in_pages``."""
    return _paged(log, blocks).log


def _paged(log: Log, blocks: int) -> Paged:
    forest, known = log.forest, log.lookups
    chains = build_chains(forest.parent)
    depth = chains.chain_depth[chains.chain].astype(np.int64) + chains.position
    number = np.flatnonzero((depth + 1) % blocks == 0)
    page = np.full(depth.size + 1, -1, np.int64)
    page[number] = np.arange(number.size)
    up = np.append(forest.parent, -1)  # above a root, and above nothing, is nothing
    above = number
    for _ in range(blocks):
        above = up[above]
    last = known.last_block
    for step in range(1, blocks):
        last = np.where(known.n_blocks % blocks >= step, up[last], last)
    pages = replace(
        forest,
        parent=page[above],
        key=forest.key[number],
        namespace=forest.namespace[number],
        first_seen_us=forest.first_seen_us[number],
    )
    lookups = replace(
        known,
        block_size=known.block_size * blocks,
        n_blocks=known.n_blocks // blocks,
        last_block=page[last],
    )
    return Paged(replace(log, forest=pages, lookups=lookups), number)


def _blocks_a_page(log: Log, scenario: Scenario) -> int:
    assigned = assign_pools(log.rows, scenario)[log.lookups.request_row]
    found: dict[int, str | None] = {}
    for number in np.unique(assigned[assigned >= 0]).tolist():
        pool, mine = scenario.pool[number], np.flatnonzero(assigned == number)
        block_size = pool_block_size(pool, log.rows, log.lookups, mine)
        page = block_size if pool.cache.page_size is None else pool.cache.page_size
        if page % block_size:
            raise UsageError(
                f"pool {pool.name!r}: page_size = {page}, but the log knows prompts in blocks of {block_size} tokens",
                hint=f"give a multiple of {block_size}; logs of text or token ids can be cut finer, with --block-size",
            )
        found[page // block_size] = pool.name
    if len(found) > 1:
        names = ", ".join(f"{blocks} in {name!r}" for blocks, name in sorted(found.items()))
        raise UsageError(
            f"pages of different numbers of blocks cannot be replayed side by side: {names}",
            hint="give the pools a scenario each, with the others left out by their match",
        )
    return next(iter(found), 1)
