"""Conversations: sub-agents and others that are interleaved under one session id, told apart by their prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.index.conversation_kernel import conversation_numbers, preorder
from prefixledger.kernels.arrays import read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.index.load import Index


def conversations(index: Index) -> NDArray[np.int64]:
    """Number the conversations of an index.

    A conversation is known by its first prompt: every later prompt of it contains that one, up to its last full block,
    whatever was rewritten behind it. Two that share all but less than a block of their first prompts cannot be told
    apart.

    Args:
        index: With the column ``session_id``.

    Returns:
        int64[m], a number for each request, in order of the first request of each conversation; -1 where a request has
        no session or no full block.
    """
    column = index.requests["session_id"].combine_chunks().dictionary_encode()
    if len(column.dictionary) == 0:
        return np.full(len(column), -1, np.int64)
    session = np.asarray(column.indices.cast(pa.int64()).fill_null(-1).to_numpy(), np.int64)
    parent = read_only(index.forest.parent, np.int64)
    number, size = preorder(parent)
    head = np.full(len(column.dictionary), -1, np.int64)
    last = read_only(index.last_block(), np.int64)
    return np.asarray(
        conversation_numbers(
            parent,
            read_only(number, np.int64),
            read_only(size, np.int64),
            read_only(session, np.int64),
            last,
            head,
        )
    )
