"""Which blocks the output of each request fills, as far as their keys are known from its next turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.block_numbers import ancestors, number_blocks
from prefixledger.replay.chains import build_paths
from prefixledger.replay.lookups import NO_TIME
from prefixledger.replay.outputs_kernel import next_turns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.lookups import Log, Lookups


@dataclass(frozen=True, slots=True)
class KeyedOutput:
    """The output of the lookups of one pool, in order of arrival.

    Attributes:
        tokens: int64[k], generated tokens, 0 where the log has none.
        keyed_blocks: int64[k], full blocks of prompt + output with a known key, at least those of the prompt.
        last_block: int64[k], block number of the last of them, -1 for none.
        known: int64, lookups whose next turn was found.
    """

    tokens: NDArray[np.int64]
    keyed_blocks: NDArray[np.int64]
    last_block: NDArray[np.int64]
    known: int


def find_outputs(log: Log, mine: NDArray[np.int64], chains: Chains, block_size: int) -> KeyedOutput:
    """Take the keys of output from the next turn that contains it; they are never guessed.

    The next turn is the next prompt of the session that passes the last full block of this prompt, is at least as
    long as prompt and output together, and comes after its end. Without a session it is the next such prompt at all,
    but only of a prompt that ends with a block: the tokens behind the last full block are not in the log, so that
    another prompt goes on with them would be a guess. (Of 1,518 such guesses on the conversation trace 477 rested on
    the one block that all prompts share, and against vLLM's scheduler they put 317 of 6,000 rows off.)

    Args:
        log: All lookups.
        mine: int64[k], those of the pool, in order of arrival.
        chains: The forest, cut into chains.
        block_size: Tokens per block.
    """
    known = log.lookups
    tokens = np.maximum(known.output_tokens[mine], 0)
    prompt_tokens, prompt_blocks, last_block = (
        known.prompt_tokens[mine],
        known.n_blocks[mine],
        known.last_block[mine],
    )
    # The last token of an output has no KV.
    full = np.maximum((prompt_tokens + tokens - 1) // block_size, prompt_blocks)
    # A prompt without a full block, or known by its head alone, says nothing about what follows it.
    asks = (full > prompt_blocks) & (prompt_blocks > 0) & (prompt_blocks == prompt_tokens // block_size)
    session = _sessions(log, mine)
    asks &= (session >= 0) | (prompt_tokens % block_size == 0)
    paths = build_paths(chains, last_block)
    turn = next_turns(
        read_only(known.started_us[mine], np.int64),
        read_only(_ready_us(known, mine), np.int64),
        read_only(session, np.int64),
        read_only(prompt_tokens, np.int64),
        read_only(np.where(asks, prompt_tokens + tokens, 0), np.int64),
        read_only(np.append(chains.chain, 0)[last_block], np.int32),
        read_only(np.append(chains.position, 0)[last_block], np.int32),
        read_only(paths.offset, np.int64),
        read_only(paths.chain, np.int32),
        np.full(chains.chain_length.size, -1, np.int32),
    )
    found = np.flatnonzero(turn >= 0)
    keyed_blocks, deepest = prompt_blocks.copy(), last_block.copy()
    keyed_blocks[found] = np.minimum(full[found], prompt_blocks[turn[found]])
    deepest[found] = ancestors(chains, number_blocks(chains), last_block[turn[found]], keyed_blocks[found])
    return KeyedOutput(tokens, keyed_blocks, deepest, found.size)


def _ready_us(known: Lookups, mine: NDArray[np.int64]) -> NDArray[np.int64]:
    finished = known.finished_us[mine]
    return np.where(finished == NO_TIME, known.started_us[mine], finished)


def _sessions(log: Log, mine: NDArray[np.int64]) -> NDArray[np.int64]:
    column = log.rows.table["session_id"].take(pa.array(log.lookups.request_row[mine]))
    codes = column.combine_chunks().dictionary_encode().indices
    return np.asarray(codes.cast(pa.int64()).fill_null(-1).to_numpy(), np.int64)
