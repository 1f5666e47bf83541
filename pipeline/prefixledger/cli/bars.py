"""Progress bars on stderr, and only where that is a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefixledger.cli.console import talk_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from prefixledger.cli.console import Talk
    from prefixledger.progress import Progress


_SILENT_S = 10
"""Longest time without a word off a terminal."""


class _Spoken:
    """A progress off a terminal: sentences, no bars; of a long phase one every 10 s, for whoever reads the log of a job."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._name, self._unit = "", ""
        self._total: int | None = None
        self._done = self._rejects = 0
        self._told_s = time.monotonic()

    def phase(self, name: str, total: int | None = None, unit: str = "bytes") -> None:
        """Name the phase where more was asked for."""
        amount = "" if total is None else f": {total:,} {unit}"
        self._talk.detail(f"{name}{amount}")
        self._name, self._unit, self._total = name, unit, total
        self._done = self._rejects = 0
        self._told_s = time.monotonic()

    def advance(self, amount: int, rejects: int = 0) -> None:
        """Say how far it is where nothing was said for long."""
        self._done += amount
        self._rejects += rejects
        if time.monotonic() - self._told_s < _SILENT_S:
            return
        self._told_s = time.monotonic()
        of = f" of {self._total:,}" if self._total is not None else ""
        share = f" ({self._done / self._total:.0%})" if self._total else ""
        refused = f", {self._rejects:,} rejected" if self._rejects else ""
        self._talk.say(f"{self._name}: {self._done:,}{of} {self._unit}{share}{refused}")

    def say(self, text: str) -> None:
        """Print a sentence."""
        self._talk.say(text)


class _Drawn:
    """A progress on a terminal: one bar a phase, with rate, time left and rejects."""

    def __init__(self, bars: RichProgress, talk: Talk) -> None:
        self._bars = bars
        self._talk = talk
        self._task: TaskID | None = None
        self._rejects = 0
        self._total: int | None = None

    def phase(self, name: str, total: int | None = None, unit: str = "bytes") -> None:
        """Fill the bar of the last phase and begin a new one."""
        self.close()
        self._rejects, self._total = 0, total
        self._task = self._bars.add_task(name, total=total, unit=unit, rejects="")

    def advance(self, amount: int, rejects: int = 0) -> None:
        """Move the bar."""
        if self._task is None:
            return
        self._rejects += rejects
        note = f"{self._rejects:,} rejected" if self._rejects else ""
        self._bars.update(self._task, advance=amount, rejects=note)

    def say(self, text: str) -> None:
        """Print a sentence above the bars."""
        self._bars.console.print(text, markup=False)

    def close(self) -> None:
        """Take the bar of the last phase away."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


@contextmanager
def progress_of(talk: Talk) -> Iterator[Progress]:
    """Yield what the stages report to."""
    if talk.quiet or not sys.stderr.isatty():
        yield _Spoken(talk)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from prefixledger.cli.rate_column import RateColumn

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        RateColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[rejects]}"),
        console=talk_console(),
        transient=True,
    )
    with bars:
        drawn = _Drawn(bars, talk)
        yield drawn
        drawn.close()
