"""What the verbs give back, also where too many records were rejected on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prefixledger.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest import IngestSummary
    from prefixledger.replay import ReplaySummary

R = TypeVar("R", "IngestSummary", "ReplayResult", "ReportResult")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What the verb ``replay`` did.

    Attributes:
        workspace: Where the files are.
        ingest: The account of the sources; None where a workspace was given.
        replays: One per scenario, in the order given.
    """

    workspace: Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What the verb ``report`` did.

    Attributes:
        workspace: Where the stages' files are.
        ingest: The account of the sources; None where a workspace was given.
        replays: One per scenario, in the order given.
        html: The page.
        json: Its twin.
        csv: The folder of tables.
        lines: The account and the verdict as plain text; the verdict is the last line.
    """

    workspace: Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]
    html: Path
    json: Path
    csv: Path
    lines: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The report in one sentence."""
        return self.lines[-1]


class PartialInputError(InputError):
    """Everything was done, but more records were rejected than allowed.

    Attributes:
        result: What the verb would have returned.
    """

    def __init__(self, cause: InputError, result: IngestSummary | ReplayResult | ReportResult) -> None:
        super().__init__(cause.message, place=cause.place, hint=cause.hint)
        self.result = result


@dataclass(frozen=True, slots=True)
class Read:
    """The sources, read.

    Attributes:
        summary: Their account; None where there were none.
        problem: Set where too many records were rejected.
    """

    summary: IngestSummary | None = None
    problem: InputError | None = None

    def checked(self, result: R) -> R:
        """Return ``result``.

        Raises:
            PartialInputError: Too many records were rejected; it carries ``result``.
        """
        if self.problem is not None:
            raise PartialInputError(self.problem, result) from self.problem
        return result
