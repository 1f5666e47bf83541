"""Finds requests whose records, or whose text, contradict each other: each is possible, and all together are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected

_ABSENT = -1


def contradictions(
    collected: Collected, leader: NDArray[np.int64], answer: NDArray[np.int64], prompt_add: NDArray[np.int64]
) -> Iterator[tuple[int, int, int]]:
    """Yield the first row of each request with more cached than prompt tokens, and both counts.

    Counts are put together as ``merge`` and ``finish`` do it: the largest of all pieces, and of two halves what the
    answer says, else what the request said; a length that no record says is estimated from the text.

    Args:
        collected: The input, read to its end.
        leader: int64[rows], first row of the request that each row is a piece of.
        answer: int64[rows], the row with the answer to each; itself where alone.
        prompt_add: int64[rows], tokens that each prompt count lacks.
    """
    own = np.arange(leader.size)
    if collected.text_keys is None and np.array_equal(leader, own) and np.array_equal(answer, own):
        return
    table = collected.row_spill.table()
    prompt = table["prompt_tokens"].fill_null(_ABSENT).to_numpy()
    estimate = _ABSENT if collected.text_keys is None else np.maximum(collected.text_keys.estimate, _ABSENT)
    prompt = np.where(prompt == _ABSENT, estimate, prompt + prompt_add)
    cached = table["cached_tokens"].fill_null(_ABSENT).to_numpy()
    asked, read = (_together(counts, leader, answer) for counts in (prompt, cached))
    for row in np.flatnonzero((leader == own) & (asked != _ABSENT) & (read > asked)).tolist():
        yield row, int(asked[row]), int(read[row])


def _together(
    counts: NDArray[np.int64], leader: NDArray[np.int64], answer: NDArray[np.int64]
) -> NDArray[np.int64]:
    largest = np.full(counts.size, _ABSENT, np.int64)
    np.maximum.at(largest, leader, counts)
    return np.where(largest[answer] != _ABSENT, largest[answer], largest)
