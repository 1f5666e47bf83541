"""Conversations found again in usage: which request goes on from which, by what it read and how its prompt grew."""

from __future__ import annotations

from dataclasses import dataclass, field

STEP_TOKENS = 128
"""Reads are reported in steps of 128 tokens by services that do not count writes."""
_OPEN_THREADS = 64
_SHARE = 100
_EIGHTH = 8


@dataclass(frozen=True, slots=True)
class Turn:
    """One request with usage.

    Attributes:
        row: Its row in the requests of the workspace.
        at_us: When it arrived.
        finished_us: When it ended; None: not known.
        prompt_tokens: Its prompt.
        read_tokens: Read from cache.
        written: Tokens written with their lifetime in microseconds (None: not known), the longest lifetime first.
        counted: Whether the service counts writes at all.
        unknown_ttl_us: Lifetime of an entry that it read and whose write is not in the log; None: not known.
    """

    row: int
    at_us: int
    finished_us: int | None
    prompt_tokens: int
    read_tokens: int
    written: tuple[tuple[int, int | None], ...]
    counted: bool
    unknown_ttl_us: int | None


@dataclass(slots=True)
class Entry:
    """A stored prefix.

    Attributes:
        end: Its length in tokens.
        ttl_us: Its lifetime; None: not known.
        used_us: When it was written or read last.
    """

    end: int
    ttl_us: int | None
    used_us: int

    def may_live(self, at_us: int) -> bool:
        """Say whether it may be there: its lifetime is not known, or not over."""
        return self.ttl_us is None or at_us - self.used_us <= self.ttl_us


@dataclass(slots=True, eq=False)  # a conversation is itself, whatever another one holds
class Thread:
    """One conversation.

    Attributes:
        number: Threads are numbered in order of their first request.
        first_us: When it began.
        row: Its last request.
        last_us: When that arrived.
        finished_us: When that ended; None: not known.
        prompt_tokens: The prompt of that.
        entries: What it has stored, shortest first.
        confirmed: Whether a request read what an earlier one had stored.
        branch: Whether it began beside others.
    """

    number: int
    first_us: int
    row: int
    last_us: int
    finished_us: int | None
    prompt_tokens: int
    entries: list[Entry] = field(default_factory=list)
    confirmed: bool = False
    branch: bool = False

    @property
    def stored_tokens(self) -> int:
        """The longest prefix that it has stored."""
        return self.entries[-1].end if self.entries else 0

    def read(self, turn: Turn) -> bool:
        """Say whether a request read just what this conversation has stored."""
        stored = self.stored_tokens
        return stored > 0 and abs(turn.read_tokens - stored) <= tolerance(stored)

    def grows_to(self, turn: Turn) -> bool:
        """Say whether a prompt is long enough to hold the last one, which had an answer by then."""
        over = self.finished_us is None or self.finished_us <= turn.at_us
        return over and turn.prompt_tokens + tolerance(self.prompt_tokens) >= self.prompt_tokens

    def take(self, turn: Turn) -> None:
        """Make a request its last one, and store what it read and wrote."""
        slack = tolerance(turn.read_tokens)
        kept = [entry for entry in self.entries if entry.end <= turn.read_tokens + slack]
        for entry in kept:
            entry.used_us = turn.at_us
        if turn.read_tokens and not any(entry.end >= turn.read_tokens - slack for entry in kept):
            kept.append(Entry(turn.read_tokens, turn.unknown_ttl_us, turn.at_us))
        end = turn.read_tokens
        for tokens, ttl_us in turn.written:
            end += tokens
            if tokens:
                kept.append(Entry(end, ttl_us, turn.at_us))
        if not turn.counted:
            kept.append(Entry(turn.prompt_tokens, turn.unknown_ttl_us, turn.at_us))
        self.entries = kept
        self.row, self.last_us, self.finished_us = turn.row, turn.at_us, turn.finished_us
        self.prompt_tokens = turn.prompt_tokens


class Threads:
    """The open conversations of one session, or of one caller where sessions are not logged.

    Args:
        named: Whether the log names the session: then a prompt that has grown is its next turn. Without that only a
            conversation that was seen to read itself before is known to be one.

    Attributes:
        open: The conversations.
        dark: Whether there were requests without usage before, so that the first with it need not be the first.
    """

    def __init__(self, *, named: bool) -> None:
        self._named = named
        self.open: list[Thread] = []
        self.dark = False

    def choose(self, turn: Turn) -> tuple[Thread | None, bool]:
        """Return the conversation that a request goes on with, and whether another one might be meant."""
        fits = [thread for thread in self.open if thread.grows_to(turn)]
        reading = [thread for thread in fits if turn.read_tokens and thread.read(turn)]
        if reading:
            best = min(reading, key=lambda t: (abs(t.stored_tokens - turn.read_tokens), -t.last_us, t.number))
            best.confirmed = True
            return best, False
        # A branch that began beside others (a subagent) may end as silently as it began: only a read proves its next turn.
        grown = [thread for thread in fits if not thread.branch and (self._named or thread.confirmed)]
        if grown and (self._named or len(fits) == 1):
            return max(grown, key=lambda t: (t.prompt_tokens, t.last_us, -t.number)), False
        return None, bool(fits) or self.dark

    def begin(self, turn: Turn, number: int) -> Thread:
        """Open a conversation with its first request; the one that rested longest is given up for it."""
        new = Thread(
            number,
            turn.at_us,
            turn.row,
            turn.at_us,
            turn.finished_us,
            turn.prompt_tokens,
            branch=bool(self.open),
        )
        self.open.append(new)
        if len(self.open) > _OPEN_THREADS:
            self.open.remove(min(self.open, key=lambda t: (t.last_us, t.number)))
        return new

    def touch(self, at_us: int) -> None:
        """Take note of a request without usage: it may have kept anything alive."""
        self.dark = True
        for thread in self.open:
            for entry in thread.entries:
                entry.used_us = at_us


def tolerance(tokens: int) -> int:
    """Return by how much two counts of the same prefix may differ: 1 %, at least 128 tokens (hidden text, steps).

    Of less than 1,024 tokens, which hardly any service stores, 128 would be too large a part: there it is an eighth.
    """
    return max(min(STEP_TOKENS, tokens // _EIGHTH), tokens // _SHARE)
