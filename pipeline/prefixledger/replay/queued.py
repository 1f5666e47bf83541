"""The lookups of a pool in the order in which they ask to be admitted, and what their output adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.replay.chains import build_paths
from prefixledger.replay.extent_tables import UNLIMITED_BLOCKS
from prefixledger.replay.extents import Output, Traffic
from prefixledger.replay.outputs import find_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.residence import Residence


@dataclass(frozen=True, slots=True)
class Queued:
    """What a kernel replays.

    Attributes:
        queue: int64[k], place of each among the lookups of the pool in order of arrival.
        traffic: The lookups.
        output: None where it is ignored.
        path_end: int64[k], block number of the last keyed block of each, output included; -1 for none.
    """

    queue: NDArray[np.int64]
    traffic: Traffic
    output: Output | None
    path_end: NDArray[np.int64]


def queue_up(
    log: Log,
    chains: Chains,
    mine: NDArray[np.int64],
    replica: NDArray[np.int64],
    block_size: int,
    residence: Residence,
) -> Queued:
    """Put the lookups of a pool in the order in which they ask to be admitted, equal times in order of arrival.

    Args:
        log: All lookups.
        chains: The forest, cut into chains.
        mine: int64[k], those of the pool, in order of arrival.
        replica: int64[k], whom each asks.
        block_size: Tokens per block.
        residence: How long they hold their blocks.
    """
    known = log.lookups
    queue = np.argsort(residence.queued_us, kind="stable")
    asked = mine[queue]
    output, path_end = None, known.last_block[asked]
    if residence.output != "ignore":
        found = find_outputs(log, mine, chains, block_size)
        output = Output(residence.output, found.tokens[queue], found.keyed_blocks[queue])
        path_end = found.last_block[queue]
    paths = build_paths(chains, path_end)
    traffic = Traffic(
        arrival_us=residence.queued_us[queue],
        replica=replica[queue].astype(np.int32),
        prompt_tokens=np.maximum(known.prompt_tokens[asked], 1),
        keyed_blocks=known.n_blocks[asked],
        path_offset=paths.offset,
        path_chain=paths.chain,
        hold_us=residence.hold_us[queue],
        prefill_us=residence.prefill_us[queue],
        reach_blocks=reach_blocks(log, asked),
    )
    return Queued(queue, traffic, output, path_end)


def reach_blocks(log: Log, mine: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return how many blocks each lookup looks up at all; None where all of them do what is usual."""
    skips = log.lookups.bypassed[mine]
    return np.where(skips, 0, UNLIMITED_BLOCKS) if skips.any() else None
