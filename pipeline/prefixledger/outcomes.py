"""What the verbs give back, also where too many records were rejected on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prefixledger.errors import InputError, RuleCrossedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.attribute import Comparison, CounterComparison
    from prefixledger.attribute.cell import Cell
    from prefixledger.attribute.investigated import Investigation
    from prefixledger.ingest import IngestSummary
    from prefixledger.replay import ReplaySummary
    from prefixledger.report.calendar import Calendar
    from prefixledger.report.comparison import Compared

MOST_POINTS = 100
"""Two hit rates are never further apart."""

R = TypeVar("R", "IngestSummary", "ReplayResult", "ReportResult", "WhatIfResult", "InvestigateResult")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What the verb ``replay`` did.

    Attributes:
        workspace: Where the files are.
        ingest: The account of the sources; None where a workspace was given.
        replays: One per scenario, in the order given.
        compared: For each the hits of the replay beside those that the service reports, or engines count; None without either.
    """

    workspace: Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]
    compared: tuple[Comparison | CounterComparison | None, ...] = ()


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
        compared: The hits of the first replay beside those that the service reports; None where no lookup has both.
        crossed: A sentence for each rule of ``--fail-on`` that the report crosses.
    """

    workspace: Path
    ingest: IngestSummary | None
    replays: tuple[ReplaySummary, ...]
    html: Path
    json: Path
    csv: Path
    lines: tuple[str, ...]
    compared: Comparison | CounterComparison | None = None
    crossed: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The report in one sentence."""
        return self.lines[-1]


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """What the verb ``whatif`` did.

    Attributes:
        workspace: Where the requests are; no replay is kept.
        ingest: The account of the sources; None where a workspace was given.
        cells: The baseline, and then every combination.
        notes: What the reader must know of the baseline.
        asked_cells: How many cells there are to be; more than there are where Ctrl-C came first.
        html: The page, if one was asked for.
        csv: The table beside it.
    """

    workspace: Path
    ingest: IngestSummary | None
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    asked_cells: int = 0
    html: Path | None = None
    csv: Path | None = None


@dataclass(frozen=True, slots=True)
class InvestigateResult:
    """What the verb ``investigate`` did.

    Attributes:
        workspace: Where the stages' files are.
        ingest: The account of the sources; None where a workspace was given.
        found: What was found.
        html: The page, if one was asked for.
    """

    workspace: Path
    ingest: IngestSummary | None
    found: Investigation
    html: Path | None = None


@dataclass(frozen=True, slots=True)
class CompareResult:
    """What the verb ``compare`` did.

    Attributes:
        comparison: What moved.
        html: The page, if one was asked for.
    """

    comparison: Compared
    html: Path | None = None


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What the verb ``index`` did.

    Attributes:
        calendar: Days and reports.
        html: The page.
    """

    calendar: Calendar
    html: Path


class PartialInputError(InputError):
    """Everything was done, but more records were rejected than allowed.

    Attributes:
        result: What the verb would have returned.
    """

    def __init__(
        self,
        cause: InputError,
        result: IngestSummary | ReplayResult | ReportResult | WhatIfResult | InvestigateResult,
    ) -> None:
        super().__init__(cause.message, place=cause.place, hint=cause.hint)
        self.result = result


class CutShortError(KeyboardInterrupt):
    """Ctrl-C came before everything was done.

    Attributes:
        result: What was done by then.
    """

    def __init__(self, result: WhatIfResult) -> None:
        super().__init__()
        self.result = result


class GapError(RuleCrossedError):
    """Everything was done, but the replay is further from what the service reports than allowed.

    Attributes:
        result: What the verb would have returned.
    """

    def __init__(self, message: str, hint: str, result: ReplayResult | ReportResult) -> None:
        super().__init__(message, hint=hint)
        self.result = result


class RulesCrossedError(RuleCrossedError):
    """Everything was done, and the report says what ``--fail-on`` forbids.

    Attributes:
        result: What the verb would have returned.
    """

    def __init__(self, crossed: tuple[str, ...], result: ReportResult) -> None:
        super().__init__("; ".join(crossed), hint="the report is written; its findings say what moved")
        self.result = result


def check_gap(
    compared: Comparison | CounterComparison | None,
    max_gap_pp: float | None,
    result: ReplayResult | ReportResult,
) -> None:
    """Hold the replay to what the service reports.

    Raises:
        GapError: Their hit rates are further apart than allowed, or nothing can be compared: a rule that cannot be
            checked is not kept.
    """
    if max_gap_pp is None:
        return
    if compared is None:
        raise GapError(
            f"--max-gap-pp {max_gap_pp:g} cannot be checked: no lookup has both keys and the cached tokens that the "
            "service reports, and no counters of engines cover any",
            "log the cached tokens of each answer (vLLM: --enable-prompt-tokens-details)",
            result,
        )
    if max(abs(compared.gap_pp), compared.replicas_apart_pp) > max_gap_pp:
        by_replica = ""
        if abs(compared.gap_pp) <= max_gap_pp:
            apart = f"{compared.replicas_apart_pp:.1f} points"
            by_replica = f"; but replica by replica they are {apart} apart, some hit more and some less"
        raise GapError(
            f"the replay is too far from the service, more than {max_gap_pp:g} points: {compared.sentence}{by_replica}",
            "believe its causes only once a --scenario file says what holds there: capacity, TTL, replicas and block size of "
            "engines, lifetimes, minimum and marks of a hosted cache",
            result,
        )


def check_max_gap(max_gap_pp: float | None) -> None:
    """Refuse a gap that no replay could be held to.

    Raises:
        UsageError: It is negative, or no number.
    """
    if max_gap_pp is not None and not 0 <= max_gap_pp <= MOST_POINTS:
        raise UsageError(
            f"--max-gap-pp {max_gap_pp:g} is no distance between two hit rates",
            hint="give percentage points, 0 to 100",
        )


def check_rules(result: ReportResult) -> None:
    """Hold a report to the rules of ``--fail-on``.

    Raises:
        RulesCrossedError: It crosses one or more.
    """
    if result.crossed:
        raise RulesCrossedError(result.crossed, result)


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
