"""How long tasks took, and how evenly they kept the workers busy: told to the reader, and never part of an output."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefixledger.engine.task import Done


@dataclass(frozen=True, slots=True)
class Summary:
    """The tasks of one kind.

    Attributes:
        name: The kind.
        tasks: How many there were.
        places: Processes that they ran in.
        seconds: Their times, added up.
        cpu_s: Processor seconds, added up; of threads in one process those of all of them.
        median_s: The median.
        longest_s: The longest.
        skew: The longest over the mean: 1 is even, and the end waits for what is above it.
        busiest: The busiest process over the mean of those that had any task.
    """

    name: str
    tasks: int
    places: int
    seconds: float
    cpu_s: float
    median_s: float
    longest_s: float
    skew: float
    busiest: float

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, seconds to the millisecond."""
        return {
            "name": self.name,
            "tasks": self.tasks,
            "processes": self.places,
            "seconds": round(self.seconds, 3),
            "cpu_s": round(self.cpu_s, 3),
            "median_s": round(self.median_s, 3),
            "longest_s": round(self.longest_s, 3),
            "skew": round(self.skew, 2),
            "busiest": round(self.busiest, 2),
        }

    def __str__(self) -> str:
        many = f"{self.tasks:,} task{'s' if self.tasks > 1 else ''}"
        where = f"{self.places} process{'es' if self.places > 1 else ''}"
        return (
            f"{self.name}: {many} in {where}, {self.seconds:,.1f} s in all, median {self.median_s:,.2f} s, longest "
            f"{self.longest_s:,.2f} s ({self.skew:,.1f} times the mean); the busiest process had {self.busiest:,.1f} times the mean"
        )


@dataclass(slots=True)
class TaskTimes:
    """Collects them; ``again`` counts tasks that were run again after a loss."""

    again: int = 0
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _cpu_s: dict[str, float] = field(default_factory=dict)
    _places: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, done: Done) -> None:
        """Take note of a task."""
        self._seconds.setdefault(name, []).append(done.seconds)
        self._cpu_s[name] = self._cpu_s.get(name, 0.0) + done.cpu_s
        places = self._places.setdefault(name, {})
        places[done.place] = places.get(done.place, 0.0) + done.seconds

    def cpu_s(self, name: str) -> float:
        """Return the processor seconds of all tasks of a kind so far."""
        return self._cpu_s.get(name, 0.0)

    def summaries(self) -> tuple[Summary, ...]:
        """Return each kind in the order in which it began."""
        return tuple(self._summary(name, seconds) for name, seconds in self._seconds.items())

    def lines(self) -> tuple[str, ...]:
        """Return one sentence for each kind, and one for what was run again."""
        again = (
            f"{self.again:,} tasks were run again: their process had ended, or an object was lost"
            if self.again
            else ""
        )
        return (*map(str, self.summaries()), *([again] if again else []))

    def _summary(self, name: str, seconds: list[float]) -> Summary:
        total, places = sum(seconds), list(self._places[name].values())
        return Summary(
            name=name,
            tasks=len(seconds),
            places=len(places),
            seconds=total,
            cpu_s=self._cpu_s[name],
            median_s=median(seconds),
            longest_s=max(seconds),
            skew=_over_mean(seconds),
            busiest=_over_mean(places),
        )


def _over_mean(values: list[float]) -> float:
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0
