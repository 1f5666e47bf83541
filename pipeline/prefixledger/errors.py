"""Every error that a user can cause, each with the exit code it ends the program with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a user's file something is wrong.

    Attributes:
        file: The path as the user gave it.
        line: 1-based line, or None where the format has no lines.
        column: 1-based column, or None where it is unknown.
    """

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n is not None)]
        return ":".join(parts)


class PrefixledgerError(Exception):
    """What happened, where, and what to do about it.

    Attributes:
        exit_code: The status the command line ends with.
        message: What happened.
        place: Where, if a file is at fault.
        hint: What to do.
    """

    exit_code = 4

    def __init__(self, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class RuleCrossedError(PrefixledgerError):
    """A ``--fail-on`` rule was crossed."""

    exit_code = 1


class UsageError(PrefixledgerError):
    """The command line, a scenario, a map or a rate file asks for something that cannot be done."""

    exit_code = 2


class InputError(PrefixledgerError):
    """A log cannot be read, holds nothing, or holds too many bad records."""

    exit_code = 3


class NoInputError(InputError):
    """A SOURCE names no file: a slip, after which nothing is written."""


class NoLookupError(InputError):
    """No request of a workspace reached a cache, or there is none at all."""


class InternalError(PrefixledgerError):
    """A check of our own failed: the books do not close, or an invariant is broken."""

    exit_code = 4
