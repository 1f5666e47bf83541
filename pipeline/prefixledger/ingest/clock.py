"""Decides what the times of an input count from, and brings them onto the one axis of the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.ingest.times import FIRST_ABSOLUTE_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from prefixledger.ingest.account import InputAccount
    from prefixledger.ingest.options import IngestOptions
    from prefixledger.ingest.reader import Clock
    from prefixledger.ingest.sources import Source

GAP_US: Final = 30 * 1_000_000
"""Conversations that bring no common clock start this far apart."""

ClockRule = Literal["relative", "absolute", "by value"]


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How the times of an input are to be read.

    Attributes:
        clock: Relative or absolute.
        odd: bool[n], rows whose time lies on the other side of 2001 than most: another unit, or another zero.
    """

    clock: Clock
    odd: NDArray[np.bool_]


def read_clock(started_us: NDArray[np.int64], rule: ClockRule, own: Clock) -> ClockReading:
    """Tell a relative from an absolute clock.

    Args:
        started_us: int64[n], starts as logged.
        rule: What a map states, or ``by value``.
        own: The format's own clock; a relative format that holds dates is absolute all the same.
    """
    is_date = started_us >= FIRST_ABSOLUTE_US
    mostly_dates = 2 * int(is_date.sum()) > started_us.size
    odd = is_date != mostly_dates
    if rule != "by value":
        return ClockReading(rule, np.zeros_like(odd) if rule == "relative" else odd)
    if mostly_dates:
        return ClockReading("absolute", odd)
    return ClockReading(own, odd)


class Axis:
    """Where relative clocks begin, from input to input."""

    def __init__(self, options: IngestOptions, earlier: Iterable[InputAccount]) -> None:
        """Begin a call.

        Args:
            options: ``t0`` and ``after``.
            earlier: Accounts of inputs that the workspace already holds.
        """
        self._options = options
        self._known = list(earlier)
        self._next_conversation_us: int | None = None
        self._after_us: int | None = None

    def forget(self, source: str) -> None:
        """Leave an input out that is about to be read again."""
        self._known = [account for account in self._known if account.source != source]

    def add(self, account: InputAccount) -> None:
        """Take note of an input that was read in this call."""
        self._known.append(account)
        if account.clock == "relative":
            self._next_conversation_us = account.clock_zero_us + account.timelines * GAP_US
            self._after_us = account.last_at_us if account.last_at_us is not None else self._after_us

    def zero(self, source: Source, *, conversations: bool) -> int:
        """Return what to add to the times of a relative input.

        Args:
            source: The input.
            conversations: True where it holds conversations that are placed one after the other.

        Raises:
            UsageError: It is the second relative input, and nothing says where it lies.
        """
        if conversations and self._next_conversation_us is not None:
            return self._next_conversation_us
        if self._options.t0 is not None:
            return self._options.t0
        if self._options.after is not None:
            return self._after()
        relative = [account for account in self._known if account.clock == "relative"]
        if conversations and all(account.timelines for account in relative):
            return max((a.clock_zero_us + a.timelines * GAP_US for a in relative), default=0)
        if relative:
            raise UsageError(
                f"its times count from a start of their own, and so do those of {relative[-1].path}",
                place=source.place,
                hint="say where it lies: --t0 2026-11-24T10:00:00Z, or --after FILE to let it follow another input",
            )
        return 0

    def _after(self) -> int:
        if self._after_us is not None:
            return self._after_us
        name = str(self._options.after)
        short = name.rpartition("/")[2]
        found = [
            a
            for a in self._known
            if a.path in (name, short) or a.path.endswith("/" + short) or a.source == name
        ]
        ends = [account.last_at_us for account in found if account.last_at_us is not None]
        if not ends:
            known = ", ".join(account.path for account in self._known) or "none"
            raise UsageError(f"--after {name}: no input of that name was read", hint=f"inputs: {known}")
        return max(ends)


def conversation_offsets(timeline: NDArray[np.int64], names: Mapping[str, int]) -> NDArray[np.int64]:
    """Return what to add to each row's start so that conversations begin 30 s apart in order of name.

    Args:
        timeline: int64[n], number of each row's conversation, -1 for none.
        names: Conversations and their numbers.
    """
    rank = np.zeros(len(names) + 1, np.int64)
    for position, name in enumerate(sorted(names)):
        rank[names[name]] = position
    return np.where(timeline >= 0, rank[timeline] * GAP_US, 0)
