"""Gives the blocks of a workspace their numbers: by one map in this process, or by parts of all keys, merged in order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.engine.base import Work
from prefixledger.errors import InternalError
from prefixledger.index.key_map import KeyMap
from prefixledger.index.partitions import goes_by_parts
from prefixledger.index.tables import read_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.engine import Engine

NUMBERS = Work("numbers", "numbers the blocks of a log", threads=True)
MOST_PARTS = 255
"""So that the part of a key is one byte, which is sorted in one pass."""
MOST_AT_ONCE = 1 << 24
"""Blocks of sources that are numbered together by parts: half a GB of keys, parents and first uses in this process."""
_TASK_BYTES = 96 << 20
"""What a task takes whatever it numbers, most of it to read the stored index."""
_TASK_BYTES_A_KEY = 96
"""What it holds for a key that is its own: the key twice, its slots at the worst, and three numbers."""


def numbers_by_parts(blocks: int, engine: Engine) -> bool:
    """Return whether so many blocks are numbered by parts: where one map would be too large for one process.

    Threads of one process would hold all of it between them, and take twice the processor time of one map, 0.4 s for 3.45
    million blocks.
    """
    return goes_by_parts(blocks, engine) and (engine.remote or engine.task_memory_bytes is not None)


class KeyNumbers:
    """Numbers distinct keys in order of appearance, behind those that are stored.

    By parts, no process holds all keys: a part is what falls into one range of a hash, so the parts are even whatever the
    prompts share, and each finds its own among the stored ones. What is new is numbered where all parts come together, by
    its first place in the order of the sources, so that numbers do not depend on the parts.
    """

    def __init__(self, engine: Engine | None) -> None:
        """Hold nothing yet.

        Args:
            engine: What numbers parts; None: one map in this process, which is filled with the stored keys when it is
                first asked.
        """
        self._engine = engine
        self._map: KeyMap | None = None

    def number(
        self, keys: NDArray[np.uint64], used: NDArray[np.bool_], stored: Sequence[Path], count: int
    ) -> NDArray[np.int64]:
        """Return the number of each key, the next ones for those that are not stored.

        Args:
            keys: uint64[k, 2].
            used: bool[k], keys that are numbered.
            stored: Files of blocks, in order of their numbers, of all that were numbered before.
            count: Blocks in them.

        Returns:
            int64[k], -1 where a key is not used.

        Raises:
            InternalError: The files hold another number of blocks, or a key twice.
        """
        if self._engine is None:
            if self._map is None:
                self._map = _mapped([words for path in stored for words in read_keys(path)], count)
            return self._map.number(keys, used)
        engine, block = self._engine, np.full(keys.shape[0], -1, np.int64)
        parts = parts_for(engine, count + keys.shape[0])
        block[used] = number_by_parts(keys[used], stored, count, parts, engine)
        return block


@dataclass(frozen=True, slots=True)
class Known:
    """What all parts share.

    Attributes:
        stored: Files of blocks, in order of their numbers.
        count: Blocks in them.
        parts: How many parts there are.
        multiplier: Odd. Keys can be ground by whoever writes the log; which part they fall into must not be known to him.
    """

    stored: tuple[Path, ...]
    count: int
    parts: int
    multiplier: np.uint64

    def part_of(self, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return uint8[k], the part of each of uint64[k, 2]."""
        high = (keys[:, 0] * self.multiplier) >> np.uint64(32)
        return ((high * np.uint64(self.parts)) >> np.uint64(32)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Numbered:
    """What a part says of its keys.

    Attributes:
        number: int64[k], the stored number of each, or ``-1 - n`` for the ``n``-th that is new.
        first: int64[new], where each new one is first.
    """

    number: NDArray[np.int64]
    first: NDArray[np.int64]


def number_by_parts(
    keys: NDArray[np.uint64], stored: Sequence[Path], count: int, parts: int, engine: Engine
) -> NDArray[np.int64]:
    """Return int64[k], the number of each key, whatever the number of parts; see ``KeyNumbers.number``."""
    known = Known(tuple(stored), count, parts, np.uint64(int.from_bytes(os.urandom(8), "little") | 1))
    part = known.part_of(keys)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts), side="right")
    places = np.split(order, ends[:-1])
    items = ((number, keys[place]) for number, place in enumerate(places))
    found = list(engine.map(NUMBERS, number_part, items, known))
    return merged(found, places, count)


def number_part(known: Known, item: tuple[int, NDArray[np.uint64]]) -> Numbered:
    """Look up the keys of one part, given in order, and find where those are first that are new."""
    part, keys = item
    mine, numbers, begin = [], [np.empty(0, np.int64)], 0
    for path in known.stored:
        for words in read_keys(path):
            here = np.flatnonzero(known.part_of(words) == part)
            mine.append(words[here])
            numbers.append(begin + here)
            begin += words.shape[0]
    if begin != known.count:
        raise contradiction(f"{begin} blocks", known.count)
    number = np.concatenate(numbers)
    held = _mapped(mine, number.size)
    local = held.number(keys, np.ones(keys.shape[0], np.bool_))
    # The map numbers what is new in order of appearance, so each is first where the numbers rise.
    risen = np.maximum.accumulate(np.maximum(local, number.size - 1))
    first = np.flatnonzero(np.diff(risen, prepend=number.size - 1) > 0)
    new = -1 - np.arange(first.size)
    return Numbered(np.concatenate([number, new])[local], first)


def merged(found: Sequence[Numbered], places: Sequence[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """Return the numbers of all keys: the new ones of all parts by their first place.

    Args:
        found: Of each part.
        places: int64 of each part: places of its keys among all.
        count: Blocks that are stored.
    """
    first = np.concatenate([place[one.first] for one, place in zip(found, places, strict=True)])
    number = np.empty(first.size, np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(count, count + first.size)
    block = np.empty(sum(place.size for place in places), np.int64)
    begin = 0
    for one, place in zip(found, places, strict=True):
        mine = number[begin : begin + one.first.size]
        block[place] = one.number
        new = one.number < 0
        block[place[new]] = mine[-1 - one.number[new]]
        begin += one.first.size
    return block


def at_once(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield where those begin and end that are numbered together: one, or more that are no larger than ``most``.

    By parts, all stored keys are read each time.
    """
    begin, total = 0, 0
    for at, size in enumerate(sizes):
        if begin < at and total + size > most:
            yield begin, at
            begin, total = at, 0
        total += size
    if begin < len(sizes):
        yield begin, len(sizes)


def parts_for(engine: Engine, keys: int) -> int:
    """Return one part a worker, or as many as it takes for each to fit into the memory of a task."""
    memory = engine.task_memory_bytes
    fit = 1
    if memory is not None:
        room = max(memory - _TASK_BYTES, memory // 4)
        fit = -(-_TASK_BYTES_A_KEY * keys // room)
    return min(max(engine.workers, fit), MOST_PARTS)


def _mapped(keys: Sequence[NDArray[np.uint64]], count: int) -> KeyMap:
    """Fill a map with stored keys, which are numbered as they are stored."""
    held = KeyMap()
    words = np.concatenate([np.empty((0, 2), np.uint64), *keys])
    held.number(words, np.ones(words.shape[0], np.bool_))
    if not len(held) == words.shape[0] == count:
        raise contradiction(f"{words.shape[0]} blocks with {len(held)} keys", count)
    return held


def contradiction(found: str, expected: int) -> InternalError:
    """Return what an index that is not what it says ends with."""
    return InternalError(
        f"the index holds {found}, not {expected}",
        hint="delete index.json in the workspace: the index is then made again",
    )
