"""Keys that are numbered by parts have the numbers that one map gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index_support import Log, Row, write_logs
from prefixledger import index
from prefixledger.engine import LocalEngine
from prefixledger.errors import InternalError
from prefixledger.index import key_numbers, partitions
from prefixledger.index.key_map import KeyMap
from prefixledger.index.tables import Blocks, write_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_DRAWS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=80)


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    """Two threads for all draws."""
    with LocalEngine(2) as found:
        yield found


def _keys(draws: list[int]) -> NDArray[np.uint64]:
    """Return keys that are as evenly spread as digests, the same for the same draw."""
    return np.random.default_rng(3).integers(0, 2**64, (41, 2), np.uint64)[np.asarray(draws, np.int64)]


def _stored(folder: Path, keys: NDArray[np.uint64]) -> list[Path]:
    """Write keys into two files of blocks."""
    half = keys.shape[0] // 2
    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, first, some in zip(paths, (0, half), (keys[:half], keys[half:]), strict=True):
        n = some.shape[0]
        none = np.full(n, -1, np.int64)
        write_blocks(path, first, Blocks(none, some, np.zeros(n, np.int32), np.zeros(n, np.int64), ("n",)))
    return paths


@settings(deadline=None, max_examples=40)
@given(before=st.lists(st.integers(0, 40), unique=True, max_size=20), draws=_DRAWS)
def test_parts_number_as_one_map(
    engine: LocalEngine,
    tmp_path_factory: pytest.TempPathFactory,
    before: list[int],
    draws: list[tuple[int, bool]],
) -> None:
    """Known keys keep their numbers, new ones follow in order of appearance, with 1, 2 and 7 parts."""
    keys = _keys([draw for draw, _ in draws])
    used = np.asarray([wanted for _, wanted in draws], np.bool_)
    whole = KeyMap()
    whole.number(_keys(before), np.ones(len(before), np.bool_))
    expected = whole.number(keys, used)
    stored = _stored(tmp_path_factory.mktemp("blocks"), _keys(before))
    found = key_numbers.KeyNumbers(None).number(keys, used, stored, len(before))
    np.testing.assert_array_equal(found, expected)
    for parts in (1, 2, 7):
        found = key_numbers.number_by_parts(keys[used], stored, len(before), parts, engine)
        np.testing.assert_array_equal(found, expected[used])


def test_no_part_is_larger_for_a_shared_prefix() -> None:
    """Keys are digests, so what falls into a part goes by none of their prompts; an attacker does not know the hash."""
    known = key_numbers.Known((), 0, 7, np.uint64(0x9E3779B97F4A7C15))
    keys = np.random.default_rng(1).integers(0, 2**64, (70_000, 2), np.uint64)
    sizes = np.bincount(known.part_of(keys), minlength=7)
    assert sizes.size == 7
    assert sizes.max() < 1.05 * sizes.mean()


def test_files_are_the_same_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several sources, in one call and in two, one by one and together."""
    logs = [
        Log(
            f"s{n}",
            [Row(100 * n + at, [at % 3, 5, 100 + at // 4, 9 * n]) for at in range(30)],
            ("same", "same"),
        )
        for n in range(4)
    ]
    trees = []
    for name in ("whole", "parts"):
        if name == "parts":
            monkeypatch.setattr(partitions, "FEWEST_BLOCKS", 0)
        root = tmp_path / name
        for some in (logs[:1], logs[1:]):
            with LocalEngine(2) as fresh:
                monkeypatch.setattr(fresh, "remote", name == "parts")
                index.update(write_logs(root, some), fresh)
                times = {one.name: one.tasks for one in fresh.times.summaries()}
                assert times.get("numbers") == (2 if name == "parts" else None)
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        trees.append({path.relative_to(root): path.read_bytes() for path in files})
    assert trees[0] == trees[1]


def test_what_is_numbered_together_is_bounded() -> None:
    """Sources of so many blocks at a time, a larger one alone; more parts where a task may take less memory."""
    assert list(key_numbers.at_once([3, 4, 9, 0, 2, 5], 7)) == [(0, 2), (2, 3), (3, 6)]
    assert list(key_numbers.at_once([3, 0, 1], 0)) == [(0, 1), (1, 2), (2, 3)]
    assert list(key_numbers.at_once([], 7)) == []
    memory = 256 << 20
    parts = [key_numbers.parts_for(LocalEngine(2, limit), 10_000_000) for limit in (None, memory)]
    assert parts[0] == 2
    assert 10_000_000 * key_numbers._TASK_BYTES_A_KEY / parts[1] + key_numbers._TASK_BYTES <= memory


def test_a_key_that_is_stored_twice_is_told(engine: LocalEngine, tmp_path: Path) -> None:
    """One map and parts alike refuse what would give two numbers to a block, or lacks some."""
    keys = _keys([1, 2, 1])
    stored = _stored(tmp_path, keys)
    for numbers in (key_numbers.KeyNumbers(None), key_numbers.KeyNumbers(engine)):
        for count in (3, 4):
            with pytest.raises(InternalError, match="the index holds"):
                numbers.number(keys, np.ones(3, np.bool_), stored, count)
