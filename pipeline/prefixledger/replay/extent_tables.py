"""What the extents kernel reads, goes by, works with and finds, in the order of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prefixledger.errors import InternalError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay import extent_lists_kernel as lists
from prefixledger.replay import extent_moves_kernel as moves
from prefixledger.replay import extents_kernel as kernel
from prefixledger.replay.extent_pool_kernel import POOL_ENTRIES
from prefixledger.replay.extent_preempt_kernel import DECODE_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.extents import Output, Resets, Traffic

UNLIMITED_BLOCKS = 1 << 60
"""A capacity that nothing fills."""

FIRST_ROWS = 4096
"""Rows that each table of the kernel starts with, beside what the size of the pool asks for."""


class Inputs(NamedTuple):
    """What the kernel reads, in the order of its arguments."""

    rows: NDArray[np.int32]
    row_start: NDArray[np.int64]
    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    reach_blocks: NDArray[np.int64]
    hold_us: NDArray[np.int64]
    prefill_us: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    output_keyed_blocks: NDArray[np.int64]
    path_offset: NDArray[np.int64]
    path_chain: NDArray[np.int32]
    chain_length: NDArray[np.int32]
    reset_start: NDArray[np.int64]
    reset_at_us: NDArray[np.int64]
    reset_force: NDArray[np.bool_]


class Rules(NamedTuple):
    """What the kernel goes by, in the order of its arguments."""

    block_size: int
    capacity: int
    most_running: int
    ttl_us: int
    output: int
    hit_saves_us: float
    in_line: bool
    log: bool
    until_us: int


class Scratch(NamedTuple):
    """What the kernel works with, in the order of its arguments."""

    chains: NDArray[np.int32]
    extents: NDArray[np.int32]
    cells: NDArray[np.int32]
    requests: NDArray[np.int32]
    heap_at: NDArray[np.int64]
    heap_what: NDArray[np.int64]
    user_first: NDArray[np.int32]
    decode: NDArray[np.int64]
    pools: NDArray[np.int64]
    removals: NDArray[np.int32]
    removal_at_us: NDArray[np.int64]


class Found(NamedTuple):
    """What the kernel finds, in the order of its arguments."""

    hit_blocks: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    refused: NDArray[np.bool_]
    reset_ignored: NDArray[np.bool_]
    first_eviction_us: NDArray[np.int64]
    preempted: NDArray[np.int32]
    recompute_tokens: NDArray[np.int64]


def make_rules(
    block_size: int,
    capacity_blocks: int | None,
    ttl_us: int | None,
    output: Output | None,
    hit_saves_us: float,
    unhashed_in_line: bool,
    log_removals: bool,
    most_running: int | None = None,
) -> Rules:
    """Bring the rules of one pool into the shape that the kernel reads, to be replayed to the end."""
    modes = {"at_release": kernel.AT_RELEASE, "as_decoded": kernel.AS_DECODED}
    return Rules(
        block_size=int(block_size),
        capacity=UNLIMITED_BLOCKS if capacity_blocks is None else int(capacity_blocks),
        most_running=UNLIMITED_BLOCKS if most_running is None else int(most_running),
        ttl_us=-1 if ttl_us is None else int(ttl_us),
        output=kernel.IGNORE if output is None else modes[output.mode],
        hit_saves_us=float(hit_saves_us),
        in_line=bool(unhashed_in_line),
        log=bool(log_removals),
        until_us=kernel.NEVER,
    )


def lay_out(
    traffic: Traffic,
    chain_length: NDArray[np.int32],
    replicas: int,
    output: Output | None,
    resets: Resets,
    reset_order: NDArray[np.int64],
) -> Inputs:
    """Bring the lookups of one pool into the shape that kernels read; resets in ``reset_order``."""
    n = len(traffic.arrival_us)
    zeros = np.zeros(n, np.int64)
    rows = np.argsort(traffic.replica, kind="stable") if replicas > 1 else np.arange(n)
    row_start = np.concatenate(([0], np.cumsum(np.bincount(traffic.replica, minlength=replicas))))
    reset_start = np.searchsorted(resets.replica[reset_order], np.arange(replicas + 1))
    return Inputs(
        rows=read_only(rows, np.int32),
        row_start=read_only(row_start, np.int64),
        arrival_us=read_only(traffic.arrival_us, np.int64),
        prompt_tokens=read_only(traffic.prompt_tokens, np.int64),
        keyed_blocks=read_only(traffic.keyed_blocks, np.int64),
        reach_blocks=reach(traffic),
        hold_us=read_only(zeros if traffic.hold_us is None else traffic.hold_us, np.int64),
        prefill_us=read_only(zeros if traffic.prefill_us is None else traffic.prefill_us, np.int64),
        output_tokens=read_only(zeros if output is None else output.tokens, np.int64),
        output_keyed_blocks=read_only(
            traffic.keyed_blocks if output is None else output.keyed_blocks, np.int64
        ),
        path_offset=read_only(traffic.path_offset, np.int64),
        path_chain=read_only(traffic.path_chain, np.int32),
        chain_length=read_only(chain_length, np.int32),
        reset_start=read_only(reset_start, np.int64),
        reset_at_us=read_only(resets.at_us[reset_order], np.int64),
        reset_force=read_only(resets.force[reset_order], np.bool_),
    )


def reach(traffic: Traffic) -> NDArray[np.int64]:
    """Return how many blocks of each prompt are looked up at all, as kernels read it."""
    if traffic.reach_blocks is None:
        return np.full(len(traffic.arrival_us), UNLIMITED_BLOCKS, np.int64)
    return read_only(traffic.reach_blocks, np.int64)


def check_inputs(inputs: Inputs, block_size: int, replicas: int) -> None:
    """Refuse what would make the kernel read outside its arrays or run back in time: it checks nothing."""
    if len(inputs.row_start) != replicas + 1:
        raise InternalError("a lookup asks a replica that the pool lacks")
    if (inputs.prefill_us < 0).any() or (inputs.hold_us < inputs.prefill_us).any():
        raise InternalError("a lookup ends before its prefill does")
    arrival_us = inputs.arrival_us[inputs.rows]
    falling = np.flatnonzero(arrival_us[1:] < arrival_us[:-1]) + 1
    if not np.isin(falling, inputs.row_start).all():
        raise InternalError("the lookups of a replica are not in order of arrival")
    covered = np.concatenate(([0], np.cumsum(inputs.chain_length[inputs.path_chain], dtype=np.int64)))
    deepest = covered[inputs.path_offset[1:]] - covered[inputs.path_offset[:-1]]
    last_tokens = inputs.prompt_tokens + np.maximum(inputs.output_tokens - 1, 0)
    if (
        (inputs.keyed_blocks > inputs.prompt_tokens // block_size).any()
        or (inputs.output_keyed_blocks < inputs.keyed_blocks).any()
        or (inputs.output_keyed_blocks > last_tokens // block_size).any()
        or (inputs.output_keyed_blocks > deepest).any()
    ):
        raise InternalError("a lookup claims more keyed blocks than its tokens or its path have")


def new_scratch(inputs: Inputs, rules: Rules, rows: dict[int, int], replicas: int, tables: int) -> Scratch:
    """Allocate what the kernel works with.

    Args:
        inputs: What it reads.
        rules: What it goes by.
        rows: Rows of the tables that may turn out too small, by the status that says so.
        replicas: Number of replicas.
        tables: One for each replica, or 1 where they are replayed to the end one after the other.
    """
    n, n_chains = len(inputs.arrival_us), len(inputs.chain_length)
    removals = np.empty((rows[moves.REMOVALS_FULL], moves.REMOVAL_COLUMNS), np.int32)
    return Scratch(
        chains=np.zeros((tables, n_chains, lists.CHAIN_COLUMNS), np.int32),
        extents=np.empty((tables, rows[moves.EXTENTS_FULL], lists.EXTENT_COLUMNS), np.int32),
        cells=np.empty((tables, rows[moves.CELLS_FULL], lists.CELL_COLUMNS), np.int32),
        requests=np.empty((n, moves.REQUEST_COLUMNS), np.int32),
        heap_at=np.empty((tables, 2 * n), np.int64),
        heap_what=np.empty((tables, 2 * n), np.int64),
        user_first=np.zeros(n, np.int32),
        decode=np.empty((n if rules.output == kernel.AS_DECODED else 1, DECODE_COLUMNS), np.int64),
        pools=np.zeros((replicas, POOL_ENTRIES), np.int64),
        removals=removals,
        removal_at_us=np.empty(len(removals), np.int64),
    )


def new_found(inputs: Inputs, replicas: int) -> Found:
    """Allocate what the kernel finds."""
    n = len(inputs.arrival_us)
    return Found(
        hit_blocks=np.zeros(n, np.int32),
        admitted_us=np.empty(n, np.int64),
        finished_us=np.empty(n, np.int64),
        refused=np.zeros(n, np.bool_),
        reset_ignored=np.zeros(len(inputs.reset_at_us), np.bool_),
        first_eviction_us=np.full(replicas, -1, np.int64),
        preempted=np.zeros(n, np.int32),
        recompute_tokens=np.zeros(n, np.int64),
    )
