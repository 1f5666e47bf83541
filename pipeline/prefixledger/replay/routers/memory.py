"""The memory of a router: which prefixes it sent to which replica, and what it forgets of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from prefixledger.replay.chains import build_chains, build_paths
from prefixledger.replay.routers import memory_kernel as kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains, Paths

_NO_LIMIT = 1 << 60
_FIRST_PIECES = 4096


@dataclass(frozen=True, slots=True)
class RouterBlocks:
    """Prompts in the blocks of a router, which may be several blocks of the log.

    Attributes:
        chains: The forest of its blocks.
        paths: The chains of each request.
        blocks: int64[k], its full blocks in each request.
        tokens: Tokens per block.
    """

    chains: Chains
    paths: Paths
    blocks: NDArray[np.int64]
    tokens: int

    def cut(self, most_blocks: int) -> RouterBlocks:
        """Return prompts of which only the first blocks are looked at."""
        return replace(self, blocks=np.minimum(self.blocks, most_blocks))


def router_blocks(
    parent: NDArray[np.int64], last_block: NDArray[np.int64], block_size: int, unit_tokens: int
) -> RouterBlocks:
    """Cut prompts into the blocks of a router.

    A log of keys tells two prompts apart at the ends of its own blocks only, so a shorter unit becomes one block of the
    log, and a longer one the least number of blocks that holds it.

    Args:
        parent: int64[n], parent of each block of the log.
        last_block: int64[k], last full block of each request, -1 below one block.
        block_size: Tokens per block of the log.
        unit_tokens: Tokens per block of the router.
    """
    every = max(1, -(-unit_tokens // block_size))
    thin, node, depth = kernel.thin_forest(parent, every)
    last = np.where(last_block >= 0, node[last_block], -1) if parent.size else last_block
    blocks = np.where(last_block >= 0, depth[last_block] // every, 0) if parent.size else last_block * 0
    chains = build_chains(thin)
    return RouterBlocks(chains, build_paths(chains, last), blocks, every * block_size)


class PrefixMemory:
    """Which blocks each owner was sent, and by which request last.

    Attributes:
        matched: int64[owners], what ``match`` counted last.
        sender: int64[owners], the request that last sent the deepest block counted, -1 for none.
    """

    def __init__(
        self,
        known: RouterBlocks,
        owners: int,
        *,
        ageing: Literal["each", "together", "blocks"] = "each",
        head_first: bool = False,
    ) -> None:
        """Start with nothing.

        Args:
            known: The prompts.
            owners: Replicas that requests can go to.
            ageing: ``each``: every owner forgets for itself. ``together``: one list ages what all owners were sent, a
                block once for each. ``blocks``: one list ages blocks, and one that falls out is lost for every owner.
            head_first: Whether the head of a prompt is forgotten before its tail.
        """
        self._owners = owners
        self._ageing = ageing
        self._head_first = head_first
        rows = owners + (ageing == "blocks")
        self._first = np.full((rows, known.chains.chain_length.size), -1, np.int32)
        self._stores = np.tile(np.asarray([-1, -1, 0], np.int64), (rows, 1))
        self._pieces = np.empty((_FIRST_PIECES, kernel.PIECE_COLUMNS), np.int64)
        self._use = np.asarray([0, -1, 0], np.int64)
        self._walk = (
            known.paths.offset,
            known.paths.chain,
            known.chains.chain_length,
            known.chains.chain_depth,
        )
        self._owned = self._first[:owners]
        self._blocks: list[int] = known.blocks.tolist()
        self.matched = np.zeros(owners, np.int64)
        self.sender = np.full(owners, -1, np.int64)

    def match(self, row: int, *, holes: bool = False) -> NDArray[np.int64]:
        """Count, for each owner, the blocks of a request that it was sent before.

        Args:
            row: The request.
            holes: Count what lies behind a block that the owner lacks too, as long as somebody has each block.

        Returns:
            int64[owners], overwritten by the next call.
        """
        kernel.match(
            self._pieces,
            self._owned,
            *self._walk,
            row,
            self._blocks[row],
            holes,
            self.matched,
            self.sender,
        )
        return self.matched

    def remember(self, row: int, owner: int) -> None:
        """Note that a request went to an owner."""
        self._note(row, owner, 0 if self._ageing == "together" else owner)
        if self._ageing == "blocks":
            self._note(row, self._owners, self._owners)

    def held(self, owner: int) -> int:
        """Return the blocks that one list holds: that of an owner, or number 0 where all age together."""
        return int(self._stores[owner, kernel.HELD])

    def forget(
        self, *, owner: int = 0, most_blocks: int | None = None, before_row: int = 0, whole: bool = False
    ) -> None:
        """Drop what is oldest.

        Args:
            owner: Whose; without a meaning where there is one list for all.
            most_blocks: Blocks that may stay; None: any number.
            before_row: What no request from this one on was sent goes.
            whole: Pieces go whole, as leaves of a tree, or block by block.
        """
        store = {"each": owner, "together": 0, "blocks": self._owners}[self._ageing]
        while (
            kernel.forget(
                self._pieces,
                self._first,
                self._stores,
                self._use,
                store,
                _NO_LIMIT if most_blocks is None else most_blocks,
                before_row,
                whole,
                self._head_first,
                self._owners if self._ageing == "blocks" else 0,
            )
            == kernel.FULL
        ):
            self._grow()

    def _note(self, row: int, owner: int, store: int) -> None:
        while (
            kernel.remember(
                self._pieces,
                self._first,
                self._stores,
                self._use,
                *self._walk,
                row,
                self._blocks[row],
                owner,
                store,
                row,
                self._head_first,
            )
            == kernel.FULL
        ):
            self._grow()

    def _grow(self) -> None:
        self._pieces = np.concatenate([self._pieces, np.empty_like(self._pieces)])
