"""How verbs end where too many records were rejected, a rule was crossed or Ctrl-C came; each carries what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prefixledger.errors import InputError, RuleCrossedError, UsageError

if TYPE_CHECKING:
    from prefixledger.attribute import Comparison, CounterComparison
    from prefixledger.ingest import IngestSummary
    from prefixledger.results import InvestigateResult, ReplayResult, ReportResult, WhatIfResult

MOST_POINTS = 100
"""Two hit rates are never further apart."""

R = TypeVar("R", "IngestSummary", "ReplayResult", "ReportResult", "WhatIfResult", "InvestigateResult")


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
