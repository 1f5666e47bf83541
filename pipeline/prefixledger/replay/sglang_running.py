"""The replay of one pool on SGLang's classic radix tree while requests run: allocates what the kernel needs, hands back what it found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay import extents_kernel
from prefixledger.replay import sglang_nodes_kernel as tree
from prefixledger.replay import sglang_running_kernel as kernel
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS, Inputs, check_inputs, lay_out
from prefixledger.replay.extents import Resets
from prefixledger.replay.sglang import list_removals
from prefixledger.replay.sglang_tree_kernel import REMOVAL_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.extents import Output, Removals, Traffic

FIRST_ROWS = 4096
"""Rows that each table of the kernel starts with, beside what the size of the pool asks for."""

_WHOLE_PROMPT = 1 << 32
"""Blocks of a chunk that no prompt fills; in tokens it fits 64 bits."""


@dataclass(frozen=True, slots=True)
class RunningReplayed:
    """What the tree did.

    Attributes:
        hit_blocks: int32[n].
        admitted_us: int64[n]; of a refused row the moment at which its turn came.
        finished_us: int64[n].
        refused: bool[n], larger than the whole cache.
        reset_ignored: bool[k], in the order of ``Resets``.
        first_eviction_us: int64[replicas], -1 where none occurred.
        in_flight: int32[n], row that was running on the replica and computed what this one missed first, -1 for none; of
            several the one that computes most of it, then the earliest.
        in_flight_end: int32[n], blocks of the prompt up to which it did, 0 for none.
        stored_blocks: int64[n], blocks of prompt and output with a known key that each had inserted when it let go; -1 where a
            reset or the TTL overtook its first prefill, or it was refused.
        retracted: int32[n], how often it had to make room for the output of others.
        recompute_tokens: int64[n], tokens of prompt and output that were computed again after that; they stand outside the
            books, as do the hits of the matches that a retracted request makes.
        removals: None unless asked for.
    """

    hit_blocks: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    refused: NDArray[np.bool_]
    reset_ignored: NDArray[np.bool_]
    first_eviction_us: NDArray[np.int64]
    in_flight: NDArray[np.int32]
    in_flight_end: NDArray[np.int32]
    stored_blocks: NDArray[np.int64]
    retracted: NDArray[np.int32]
    recompute_tokens: NDArray[np.int64]
    removals: Removals | None


def replay_running(
    traffic: Traffic,
    chains: Chains,
    *,
    block_size: int,
    replicas: int,
    capacity_blocks: int | None = None,
    ttl_us: int | None = None,
    output: Output | None = None,
    resets: Resets | None = None,
    hit_saves_us: float = 0.0,
    chunk_tokens: int | None = None,
    log_removals: bool = False,
    most_running: int | None = None,
) -> RunningReplayed:
    """Replay one pool under profile ``sglang``, requests running side by side.

    Args:
        traffic: The lookups.
        chains: The forest, cut into chains.
        block_size: Tokens per block, and per page of the tree.
        replicas: Number of replicas.
        capacity_blocks: Usable blocks per replica; None: unlimited.
        ttl_us: Longest gap between two uses that still hits; None: none.
        output: None: ignored. Its blocks are in the tree from the release on, whatever the mode.
        resets: None: none.
        hit_saves_us: Microseconds of prefill that a hit block saves.
        chunk_tokens: Tokens of a prompt that are computed, and then shown, in one go, down to whole blocks and at least one;
            None: all of them.
        log_removals: Whether to list what left the tree.
        most_running: Requests that may run on a replica at a time; None: as many as fit.

    Raises:
        InternalError: A replica's lookups are out of order, a residence is negative or shorter than its prefill, or a
            path is shorter than its keyed blocks.
    """
    resets = resets or Resets(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.bool_))
    reset_order = np.lexsort((resets.at_us, resets.replica))
    inputs = lay_out(traffic, chains.chain_length, replicas, output, resets, reset_order)
    check_inputs(inputs, block_size, replicas)
    modes = {"at_release": extents_kernel.AT_RELEASE, "as_decoded": extents_kernel.AS_DECODED}
    rules = (
        int(block_size),
        UNLIMITED_BLOCKS if capacity_blocks is None else int(capacity_blocks),
        UNLIMITED_BLOCKS if most_running is None else int(most_running),
        -1 if ttl_us is None else int(ttl_us),
        extents_kernel.IGNORE if output is None else modes[output.mode],
        float(hit_saves_us),
        _WHOLE_PROMPT if chunk_tokens is None else max(int(chunk_tokens) // int(block_size), 1),
        bool(log_removals),
    )
    found = _run(inputs, chains, rules, replicas, log_removals=log_removals)
    ignored = np.empty_like(found.reset_ignored)
    ignored[reset_order] = found.reset_ignored
    return replace(found, reset_ignored=ignored)


def _run(
    inputs: Inputs,
    chains: Chains,
    rules: tuple[int, int, int, int, int, float, int, bool],
    replicas: int,
    *,
    log_removals: bool,
) -> RunningReplayed:
    """Run the kernel, again with four times the rows wherever a table was too small."""
    n, lengths = len(inputs.arrival_us), chains.chain_length.astype(np.int64)
    rows = {
        tree.NODES_FULL: FIRST_ROWS + n,
        tree.LEAVES_FULL: FIRST_ROWS + 2 * n,
        tree.REMOVALS_FULL: FIRST_ROWS + 4 * n if log_removals else 0,
    }
    while True:
        removals = np.empty((rows[tree.REMOVALS_FULL], REMOVAL_COLUMNS), np.int32)
        removal_at_us = np.empty(len(removals), np.int64)
        out = RunningReplayed(
            hit_blocks=np.empty(n, np.int32),
            admitted_us=np.empty(n, np.int64),
            finished_us=np.empty(n, np.int64),
            refused=np.zeros(n, np.bool_),
            reset_ignored=np.zeros(len(inputs.reset_at_us), np.bool_),
            first_eviction_us=np.full(replicas, -1, np.int64),
            in_flight=np.full(n, -1, np.int32),
            in_flight_end=np.zeros(n, np.int32),
            stored_blocks=np.full(n, -1, np.int64),
            retracted=np.zeros(n, np.int32),
            recompute_tokens=np.zeros(n, np.int64),
            removals=None,
        )
        status = kernel.replay_running(
            *inputs,
            *rules,
            read_only(chains.chain_depth, np.int32),
            read_only(np.cumsum(lengths) - lengths, np.int64),
            np.empty((rows[tree.NODES_FULL], tree.NODE_COLUMNS), np.int64),
            np.zeros(int(lengths.sum()), np.int32),
            np.zeros((n, tree.REQUEST_COLUMNS), np.int64),
            np.empty(3 * n, np.int64),
            np.empty(3 * n, np.int64),
            np.empty(rows[tree.LEAVES_FULL], np.int64),
            np.empty(rows[tree.LEAVES_FULL], np.int64),
            np.empty(tree.POOL_ENTRIES, np.int64),
            removals,
            removal_at_us,
            out.hit_blocks,
            out.admitted_us,
            out.finished_us,
            out.refused,
            out.reset_ignored,
            out.first_eviction_us,
            out.in_flight,
            out.in_flight_end,
            out.stored_blocks,
            out.retracted,
            out.recompute_tokens,
        )
        if status >= 0:
            break
        rows[status] *= 4
    listed = list_removals(removals[:status], removal_at_us[:status]) if log_removals else None
    return replace(out, removals=listed)
