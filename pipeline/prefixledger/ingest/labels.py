"""The labels of blocks that are logged as token ids, hashed where the chunk is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.batch import Batch


def with_labels(batch: Batch) -> Batch:
    """Hash the full blocks of the rows that log token ids; a batch without any stays as it is."""
    n_tokens = np.array(batch.token_counts, np.int64)
    has_tokens = n_tokens >= 0
    if has_tokens.any():
        size = int(batch.block_sizes[int(has_tokens.argmax())])
        batch.labels = _token_labels(batch, n_tokens, has_tokens, size)
    return batch


def tokens_of(batch: Batch) -> NDArray[np.unsignedinteger]:
    """Return the token ids of a batch, row after row, as u32 or u64."""
    small = batch.tokens.typecode == "I"
    return np.frombuffer(batch.tokens, np.uint32) if small else np.frombuffer(batch.tokens, np.uint64)


def _token_labels(
    batch: Batch, n_tokens: NDArray[np.int64], has_tokens: NDArray[np.bool_], block_size: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    from prefixledger.kernels.blake2b_kernel import token_labels  # noqa: PLC0415  # most logs have ids, and numba takes 0.5 s

    offsets = np.concatenate([[0], np.cumsum(n_tokens[has_tokens])]).astype(np.int64)
    first_block = np.concatenate([[0], np.cumsum(n_tokens[has_tokens] // block_size)])
    token_row = np.cumsum(has_tokens) - 1
    extra = {int(first_block[token_row[row]]) + block: data for row, block, data in batch.extra}
    return token_labels(tokens_of(batch), offsets, block_size, extra or None)
