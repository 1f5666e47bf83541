"""The exact vLLM replay of one pool: allocates what the kernel needs and hands back what it found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay import extent_moves_kernel as moves
from prefixledger.replay import extents_kernel as kernel
from prefixledger.replay.extent_tables import (
    FIRST_ROWS,
    check_inputs,
    lay_out,
    make_rules,
    new_found,
    new_scratch,
)

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    from prefixledger.replay.extent_tables import Inputs, Rules


@dataclass(frozen=True, slots=True)
class Traffic:
    """The lookups of one pool, in order of arrival.

    Attributes:
        arrival_us: int64[n], not falling within a replica.
        replica: int32[n], index of the replica that is asked.
        prompt_tokens: int64[n], at least 1.
        keyed_blocks: int64[n], full blocks of the prompt whose keys are known: ``prompt_tokens // block_size``, fewer
            where only the head of a prompt was logged. Full blocks without a known key only take room.
        path_offset: int64[n + 1], row i walks ``path_chain[path_offset[i]:path_offset[i + 1]]`` from the root.
        path_chain: int32[e]; a path covers at least the keyed blocks, those of the output included.
        reach_blocks: int64[n], blocks of the prompt that are looked up at all, 0 where the request skips the lookup; None: all
            that may hit.
        hold_us: int64[n], residence from admission to release without a hit; None: one request at a time.
        prefill_us: int64[n], the part of ``hold_us`` before the first output token; None: 0.
    """

    arrival_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    prompt_tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    path_offset: NDArray[np.int64]
    path_chain: NDArray[np.int32]
    hold_us: NDArray[np.int64] | None = None
    prefill_us: NDArray[np.int64] | None = None
    reach_blocks: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What the generated tokens do to the cache.

    Attributes:
        mode: ``at_release``: slots and keys of the whole output just before the release, or nothing where it finds no
            room. ``as_decoded``: token by token, evenly from the end of the prefill to the release; where there is no
            room, the request that was admitted last is preempted and prefilled anew when it fits again.
        tokens: int64[n]; the last token of an output never has KV.
        keyed_blocks: int64[n], full blocks of prompt + output whose keys are known, from ``Traffic.keyed_blocks`` to
            ``(prompt_tokens + tokens - 1) // block_size``; the others only take room.
    """

    mode: Literal["at_release", "as_decoded"]
    tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Resets:
    """Moments at which a replica loses all its blocks, in any order.

    Attributes:
        at_us: int64[k].
        replica: int32[k].
        force: bool[k], true for restarts and forced flushes; false: ignored while a request runs on the replica.
    """

    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    force: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Removals:
    """What left a cache, by replica and time; blocks without a known key are not listed.

    The list goes on to the last release of a replica and, with a TTL, until nothing is left that can expire.

    Attributes:
        lookup: int32[k], the row whose blocks took the place; -1 where they expired.
        at_us: int64[k]; of expired blocks the last moment at which they were valid.
        replica: int32[k].
        chain: int32[k].
        lo: int32[k], first block of the chain that was removed.
        hi: int32[k], end of what was removed, exclusive.
        resident: int32[k], up to where in ``[lo, hi)`` a younger copy has stepped in: keys are gone from
            ``max(lo, resident)`` on, none where that is ``hi``.
        expired: bool[k], false: evicted.
        after: int32[k], the row that was admitted last before it on this replica, -1 for none; None: not written down.
        admits: bool[k], whether an admission took the room, be it of a preempted row again; None: not written down.
    """

    lookup: NDArray[np.int32]
    at_us: NDArray[np.int64]
    replica: NDArray[np.int32]
    chain: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    resident: NDArray[np.int32]
    expired: NDArray[np.bool_]
    after: NDArray[np.int32] | None = None
    admits: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the cache did.

    Attributes:
        hit_blocks: int32[n].
        admitted_us: int64[n]; of a refused row the moment at which its turn came.
        finished_us: int64[n].
        refused: bool[n], larger than the whole cache.
        reset_ignored: bool[k], in the order of ``Resets``.
        first_eviction_us: int64[replicas], -1 where none occurred.
        removals: None unless asked for.
        preempted: int32[n], how often it had to make room for the output of others, or its own.
        recompute_tokens: int64[n], tokens of prompt and output that were computed again after that; they stand outside
            the books, as do the hits of the lookups that a resumed request makes.
        stored_blocks: int64[n], full blocks of prompt and output that each had keyed up to its release, 0 where it was
            refused; None unless removals are asked for.
    """

    hit_blocks: NDArray[np.int32]
    admitted_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    refused: NDArray[np.bool_]
    reset_ignored: NDArray[np.bool_]
    first_eviction_us: NDArray[np.int64]
    preempted: NDArray[np.int32]
    recompute_tokens: NDArray[np.int64]
    removals: Removals | None
    stored_blocks: NDArray[np.int64] | None = None


def replay_extents(
    traffic: Traffic,
    chain_length: NDArray[np.int32],
    *,
    block_size: int,
    replicas: int,
    capacity_blocks: int | None = None,
    ttl_us: int | None = None,
    output: Output | None = None,
    resets: Resets | None = None,
    hit_saves_us: float = 0.0,
    unhashed_in_line: bool = False,
    log_removals: bool = False,
    most_running: int | None = None,
) -> Replayed:
    """Replay one pool under profile ``vllm``.

    Args:
        traffic: The lookups.
        chain_length: int32[c], blocks of each chain.
        block_size: Tokens per block.
        replicas: Number of replicas.
        capacity_blocks: Usable blocks per replica; None: unlimited.
        ttl_us: Longest gap between two uses that still hits; None: none.
        output: None: ignored.
        resets: None: none.
        hit_saves_us: Microseconds of prefill that a hit block saves.
        unhashed_in_line: Whether freed slots without a key, a prompt's partial tail above all, wait behind all others, as
            in vLLM up to 0.22; else they are used first, as from 0.24 on.
        log_removals: Whether to list what left the cache.
        most_running: Requests that may run on a replica at a time; None: as many as fit.

    Raises:
        InternalError: A replica's lookups are out of order, a residence is negative or shorter than its prefill, or a
            path is shorter than its keyed blocks.
    """
    resets = resets or Resets(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.bool_))
    reset_order = np.lexsort((resets.at_us, resets.replica))
    inputs = lay_out(traffic, chain_length, replicas, output, resets, reset_order)
    check_inputs(inputs, block_size, replicas)
    rules = make_rules(
        block_size,
        capacity_blocks,
        ttl_us,
        output,
        hit_saves_us,
        unhashed_in_line,
        log_removals,
        most_running,
    )
    found = _run(inputs, rules, replicas)
    ignored = np.empty_like(found.reset_ignored)
    ignored[reset_order] = found.reset_ignored
    return replace(found, reset_ignored=ignored)


def _run(inputs: Inputs, rules: Rules, replicas: int) -> Replayed:
    """Run the kernel, again with four times the rows wherever a table was too small."""
    n, n_chains = len(inputs.arrival_us), len(inputs.chain_length)
    rows = {
        moves.EXTENTS_FULL: FIRST_ROWS + 2 * n_chains,
        moves.CELLS_FULL: FIRST_ROWS + 2 * n_chains,
        moves.REMOVALS_FULL: FIRST_ROWS + 4 * n if rules.log else 0,
    }
    row_end = read_only(inputs.row_start[1:], np.int64)
    while True:
        scratch, found = new_scratch(inputs, rules, rows, replicas, 1), new_found(inputs, replicas)
        arguments = (*inputs, row_end, *rules, *scratch, *found)  # mypy loses count of several tuples
        status = kernel.replay_extents(*arguments)
        if status >= 0:
            break
        rows[status] *= 4
    if not rules.log:
        return Replayed(*found, removals=None)
    return Replayed(
        *found,
        removals=_removals(scratch.removals[:status], scratch.removal_at_us[:status]),
        stored_blocks=_stored_blocks(inputs, scratch.requests, found.refused),
    )


def _stored_blocks(
    inputs: Inputs, requests: NDArray[np.int32], refused: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return how far down its path each request has keyed blocks."""
    covered = np.concatenate(([0], np.cumsum(inputs.chain_length[inputs.path_chain], dtype=np.int64)))
    entry = np.where(refused, inputs.path_offset[:-1], requests[:, moves.ENTRY])
    position = np.where(refused, 0, requests[:, moves.POSITION])
    stored: NDArray[np.int64] = covered[entry] - covered[inputs.path_offset[:-1]] + position
    return stored


def _removals(table: NDArray[np.int32], at_us: NDArray[np.int64]) -> Removals:
    columns = np.ascontiguousarray(table.T)
    return Removals(
        lookup=columns[moves.R_LOOKUP],
        at_us=at_us.copy(),  # the rest of the table is not kept
        replica=columns[moves.R_REPLICA],
        chain=columns[moves.R_CHAIN],
        lo=columns[moves.R_LO],
        hi=columns[moves.R_HI],
        resident=columns[moves.R_RESIDENT],
        expired=columns[moves.R_EXPIRED].astype(np.bool_),
        after=columns[moves.R_AFTER],
        admits=columns[moves.R_ADMITS].astype(np.bool_),
    )
