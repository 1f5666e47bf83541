"""The caches of a pool while its requests are still being placed: what each replica holds when the next one arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay import extent_moves_kernel as moves
from prefixledger.replay import extents_kernel as kernel
from prefixledger.replay.extent_pool_kernel import HEAD, count_resident
from prefixledger.replay.extent_tables import (
    FIRST_ROWS,
    check_inputs,
    lay_out,
    make_rules,
    new_found,
    new_scratch,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.extent_tables import Found
    from prefixledger.replay.extents import Output, Resets, Traffic


class LiveCaches:
    """Profile ``vllm`` on all replicas side by side, up to a moment that only goes forward.

    Rows are placed in the order in which they are routed, which may differ from that in which they ask to be admitted. A
    replica that has its rows does what ``replay_extents`` does with them, so what was placed here can be replayed there.

    Attributes:
        found: What happened so far, rows in the order of ``traffic``.
    """

    found: Found

    def __init__(
        self,
        traffic: Traffic,
        chain_length: NDArray[np.int32],
        *,
        block_size: int,
        replicas: int,
        capacity_blocks: int | None = None,
        ttl_us: int | None = None,
        output: Output | None = None,
        resets: Resets,
        hit_saves_us: float = 0.0,
        unhashed_in_line: bool = False,
        most_running: int | None = None,
    ) -> None:
        """Start with empty caches and nobody placed.

        Args:
            traffic: The lookups in the order in which they ask to be admitted; ``replica`` says nothing, but is 0.
            chain_length: int32[c], blocks of each chain.
            block_size: Tokens per block.
            replicas: Number of replicas.
            capacity_blocks: Usable blocks per replica; None: unlimited.
            ttl_us: Longest gap between two uses that still hits; None: none.
            output: None: ignored.
            resets: Moments at which a replica loses all its blocks.
            hit_saves_us: Microseconds of prefill that a hit block saves.
            unhashed_in_line: Whether freed slots without a key wait behind all others.
            most_running: Requests that may run on a replica at a time; None: as many as fit.

        Raises:
            InternalError: See ``replay_extents``.
        """
        order = np.lexsort((resets.at_us, resets.replica))
        inputs = lay_out(traffic, chain_length, replicas, output, resets, order)
        check_inputs(inputs, block_size, replicas)
        n = len(inputs.arrival_us)
        first = np.arange(replicas + 1) * n
        self._queues = np.empty(replicas * n, np.int32)
        self._first: list[int] = first.tolist()
        self._end = first[:-1].copy()
        self._inputs = inputs._replace(
            rows=read_only(self._queues, np.int32), row_start=read_only(first, np.int64)
        )
        self._rules = make_rules(
            block_size, capacity_blocks, ttl_us, output, hit_saves_us, unhashed_in_line, False, most_running
        )
        # A replica sees its share of the chains; where it sees more the tables grow.
        share = 2 * len(chain_length) // replicas
        self._rows = {
            moves.EXTENTS_FULL: FIRST_ROWS + share,
            moves.CELLS_FULL: FIRST_ROWS + share,
            moves.REMOVALS_FULL: 0,
        }
        self._resident = np.zeros(replicas, np.int64)
        self._keyed: list[int] = inputs.keyed_blocks.tolist()
        self._restart()

    def advance(self, now_us: int) -> None:
        """Let everything happen that happens up to a moment, admissions of placed rows at that moment included."""
        arguments = (*self._reads, now_us, *self._works)
        while (status := kernel.replay_extents(*arguments)) < 0:
            self._rows[status] *= 4
            self._restart()
            arguments = (*self._reads, now_us, *self._works)

    def resident(self, row: int) -> NDArray[np.int64]:
        """Count the keyed blocks at the head of a row's prompt that each replica holds now.

        Returns:
            int64[replicas], overwritten by the next call.
        """
        count_resident(*self._walks, row, self._keyed[row], self._resident)
        return self._resident

    def place(self, row: int, replica: int) -> None:
        """Put a row into the queue of a replica; it asks to be admitted at the present moment or later."""
        first, end = self._first[replica], int(self._end[replica])
        queue, at = self._queues, end
        if end > first and queue[end - 1] > row:  # routed later, but it asks to be admitted earlier
            head = max(first, int(self._pools[replica, HEAD]))
            at = head + int(np.searchsorted(queue[head:end], row))
            queue[at + 1 : end + 1] = queue[at:end].copy()
        queue[at] = row
        self._end[replica] = end + 1

    def _restart(self) -> None:
        """Begin anew with the tables as large as they have to be: whoever was placed goes through again."""
        replicas = self._resident.size
        scratch = new_scratch(self._inputs, self._rules, self._rows, replicas, replicas)
        self.found = new_found(self._inputs, replicas)
        row_end = read_only(self._end, np.int64)
        inputs = self._inputs
        self._pools = scratch.pools
        self._reads = (*inputs, row_end, *self._rules[:-1])
        self._works = (*scratch, *self.found)
        self._walks = (
            inputs.path_offset,
            inputs.path_chain,
            inputs.chain_length,
            scratch.chains,
            scratch.pools,
        )
