"""Reads the Mooncake-style traces beside the checkout into plain arrays, for tests of the replay."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import orjson
import zstandard

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace, in file order.

    Attributes:
        arrival_us: int64[n].
        prompt_tokens: int64[n].
        output_tokens: int64[n].
        offset: int64[n + 1]; row i has the ids ``ids[offset[i]:offset[i + 1]]``.
        ids: int64[m], full blocks only.
    """

    arrival_us: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    offset: np.ndarray
    ids: np.ndarray


def load(path: Path, block_size: int, rows: int | None = None) -> Trace:
    """Read the first ``rows`` lines; the id of a trailing partial block is dropped."""
    arrival, prompt, output, lengths, ids = [], [], [], [], []
    for line in _lines(path, rows):
        record = orjson.loads(line)
        full = record["input_length"] // block_size
        arrival.append(record["timestamp"] * 1000)
        prompt.append(record["input_length"])
        output.append(record["output_length"])
        ids.append(np.array(record["hash_ids"][:full], np.int64))
        assert len(ids[-1]) == full, "a row lists fewer ids than it has full blocks"
        lengths.append(full)
    offset = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    columns = (np.array(column, np.int64) for column in (arrival, prompt, output))
    return Trace(*columns, offset, np.concatenate(ids))


def forest(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return (parent int64[blocks], last block int64[n], -1 for none), numbered by first appearance."""
    ids, offset = trace.ids, trace.offset
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    block = number[inverse]
    above = np.concatenate([[-1], block[:-1]])
    starts = offset[:-1][np.diff(offset) > 0]
    above[starts] = -1
    parent = np.full(len(first), -2, np.int64)
    parent[block] = above
    assert (parent[block] == above).all(), "an id has two parents"
    last = np.where(np.diff(offset) > 0, block[np.maximum(offset[1:] - 1, 0)] if len(block) else -1, -1)
    return parent, last


def _lines(path: Path, rows: int | None) -> list[bytes]:
    with path.open("rb") as raw:
        packed = path.suffix == ".zst"
        stream = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw)) if packed else raw
        lines: list[bytes] = []
        for line in stream:
            if rows is not None and len(lines) == rows:
                break
            lines.append(line)
    return lines
