"""Tasks on one machine: order, bounds, losses, and how long they took."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import engine_tasks as tasks
from prefixledger.engine import LocalEngine, Work, local, open_engine
from prefixledger.engine.task import Done
from prefixledger.engine.times import TaskTimes
from prefixledger.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

THREADS = Work("try", "tries", threads=True)
PROCESSES = Work("try", "tries")


def _counted(items: int, read: list[int]) -> Iterator[int]:
    for item in range(items):
        read.append(item)
        yield item


def test_results_come_in_order_and_few_items_are_read_ahead() -> None:
    """Whatever takes longest; what is read ahead is bounded by the workers, not by the log."""
    with LocalEngine(2) as engine:
        read: list[int] = []
        found = []
        for at, result in enumerate(engine.map(THREADS, tasks.times, _counted(40, read), 3)):
            found.append(result)
            assert len(read) <= at + 10
        assert found == [3 * item for item in range(40)]
        early = dict(engine.unordered(THREADS, tasks.times, range(40), 3))
        assert sorted(early.items()) == [(item, 3 * item) for item in range(40)]
        (summary,) = engine.times.summaries()
        assert summary.tasks == 80


def test_one_item_or_one_worker_needs_no_process() -> None:
    """A process costs 0.2 s, and most inputs are one chunk."""
    with LocalEngine(2) as engine:
        assert list(engine.map(PROCESSES, tasks.times, [1], 3)) == [3]
        assert list(engine.map(PROCESSES, tasks.times, [], 3)) == []
        assert list(engine.map(Work("wide", "fills all cores", wide=True), tasks.times, [0, 1], 3)) == [0, 3]
        assert engine._processes is None


def test_few_tasks_are_done_here_and_many_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of 1.5 s need no process; later ones are done here while processes start, then there; order is the same."""
    own = os.getpid()
    with LocalEngine(2) as engine:
        assert {process for process, _ in engine.map(PROCESSES, tasks.where, range(3))} == {own}
        assert engine._processes is None
        monkeypatch.setattr(local, "HEAD_START_S", 0.0)
        found = []
        for item, process in engine.map(PROCESSES, tasks.numbered, iter(range(100_000))):
            found.append(item)
            if process != own:
                break
        assert found == [*range(len(found))]
        assert len(found) > 1
        later = list(engine.map(PROCESSES, tasks.numbered, range(9)))
        assert [item for item, _ in later] == [*range(9)]
        assert own not in {process for _, process in later}
        unordered = dict(engine.unordered(PROCESSES, tasks.times, range(9), 3))
        assert unordered == {item: 3 * item for item in range(9)}


def test_a_task_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    """With a limit a thread becomes a process, which gets what is shared once; errors keep their kind, place and hint.

    What fits passes, what does not is told, and the next may pass again; of a file that is too large the system's own error
    comes back, by which the command tells that the disk is full.
    """
    with LocalEngine(2, 1280 << 20) as engine:
        log = list(range(1_000))
        seen = list(engine.map(THREADS, tasks.where, range(8), log))
        seen += engine.map(THREADS, tasks.where, range(8), log)
        assert len({process for process, _ in seen}) == len(set(seen)) <= 2
        assert list(engine.map(THREADS, tasks.fill, [1 << 20] * 3)) == [1 << 20] * 3
        pq.write_table(pa.table({"a": range(5)}), tmp_path / "a.parquet")
        assert list(engine.map(THREADS, tasks.read_rows, [600 << 20] * 2, str(tmp_path / "a.parquet"))) == [
            5,
            5,
        ]
        with pytest.raises(
            UsageError, match="a task that tries needs more than the 1,280 MiB that it may take"
        ):
            list(engine.map(THREADS, tasks.fill, [1 << 20, 1 << 31, 1 << 20]))
        assert list(engine.map(THREADS, tasks.fill, [1 << 20] * 2)) == [1 << 20] * 2
        with pytest.raises(OSError, match="File too large") as full:
            list(engine.map(THREADS, tasks.write, [10, 1_000, 20], str(tmp_path)))
        assert full.value.errno == 27
        with pytest.raises(InputError, match="it is bad") as raised:
            list(engine.map(PROCESSES, tasks.refuse, range(9)))
        assert (str(raised.value.place), raised.value.hint) == ("a.jsonl:3", "mend it")


@pytest.mark.slow
def test_a_task_whose_process_is_killed_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once is no loss; a task that kills whatever runs it is told."""
    monkeypatch.setattr(LocalEngine, "still_here", lambda *_: False)
    with LocalEngine(2) as engine:
        assert list(engine.map(PROCESSES, tasks.die_once, range(9), str(tmp_path / "mark"))) == [*range(9)]
        assert engine.times.again > 0
        assert "were run again" in engine.times.lines()[-1]
        with pytest.raises(UsageError, match="a process that tries ended before its work"):
            list(engine.map(PROCESSES, tasks.die, range(9)))


def test_times_and_skew() -> None:
    """The longest over the mean is what the end waits for; the busiest process over the mean is what a worker lacks."""
    times = TaskTimes()
    for seconds, place in ((1.0, "a:1"), (1.0, "a:1"), (4.0, "b:1")):
        times.add("replay", Done(None, seconds, 0.5, place))
    (summary,) = times.summaries()
    assert (summary.tasks, summary.places, summary.seconds, summary.longest_s) == (3, 2, 6.0, 4.0)
    assert (summary.skew, round(summary.busiest, 3), summary.cpu_s) == (2.0, 1.333, 1.5)
    (line,) = times.lines()
    assert line.startswith(
        "replay: 3 tasks in 2 processes, 6.0 s in all, median 1.00 s, longest 4.00 s (2.0 times the mean); "
    )
    assert line.endswith("the busiest process had 1.3 times the mean")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spark"}, "there is no engine 'spark'"),
        ({"ray_address": "127.0.0.1:6379"}, "--ray-address needs --engine ray"),
        ({"task_memory": "much"}, "'much' is no size of memory"),
        ({"task_memory": "60GiB per gpu"}, "is no size of memory"),
        ({"task_memory": "1MiB"}, "no task works with less than 16 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_mean_nothing(options: dict[str, str], message: str) -> None:
    """Said before anything is read."""
    with pytest.raises(UsageError, match=message):
        open_engine(**options)


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="the engine ray is not installed") as raised:
        open_engine("ray")
    assert "prefixledger[ray]" in str(raised.value.hint)
