"""The verbs that look something up and write nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.mirror import workspace_at
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.attribute.diff import PromptDiff
    from prefixledger.attribute.explained import Explanation
    from prefixledger.attribute.query import QueryResult
    from prefixledger.config.scenario import Scenario
    from prefixledger.economics.rate_sheet import RateSheet
    from prefixledger.ingest.howto import HowTo
    from prefixledger.ingest.reader import FormatInfo


def formats(*, how: bool = False) -> tuple[FormatInfo | HowTo, ...]:
    """Return the log formats that are read, in the order in which they are recognised.

    Args:
        how: Return instead which switch of which engine or gateway makes a log that can be replayed, best first.
    """
    if how:
        from prefixledger.ingest.howto import HOW

        return HOW
    from prefixledger.ingest.formats import READERS

    return tuple(reader.info for reader in READERS)


def rates(
    model: str, *, provider: str | None = None, at: str | None = None, gpus: str | Path | None = None
) -> RateSheet:
    """Show what a model charges and by which rules it caches, and where each of that is from; nothing is fetched.

    Args:
        model: Model as a provider or a gateway writes it.
        provider: Provider; None: the model alone decides.
        at: Moment, ISO 8601: prices have dates, and some times of day; None is now.
        gpus: TOML file that describes GPUs of one's own and the model on them: then the sheet says what a hit is worth there.

    Raises:
        UsageError: The model has no price, or ``at`` is no time; the names nearest to the model are listed.
    """
    from prefixledger.config.units import datetime_us, parse_time_us
    from prefixledger.economics.rate_sheet import own_sheet, rate_sheet

    at_us = datetime_us(datetime.now(UTC)) if at is None else parse_time_us(at)
    if gpus is not None:
        from prefixledger.config.own_gpus import OwnGpus
        from prefixledger.config.toml_file import read_toml, validated

        file = read_toml(Path(gpus))
        return own_sheet(model, at_us, validated(OwnGpus, file, file.data))
    return rate_sheet(model, provider, at_us)


def print_scenario(
    *, scenario: Sequence[Scenario | str | Path] = (), replica_grace: str | None = None
) -> str:
    """Return scenarios as TOML with every default; see ``replay`` for the arguments."""
    from prefixledger import stages
    from prefixledger.config.scenario import dump

    return "\n".join(dump(one) for one in stages.ask(scenario, (), replica_grace).scenarios)


def query(sql: str, *, workspace: str | Path = DEFAULT_WORKSPACE) -> QueryResult:
    """Run one SQL statement on a workspace; it can read nothing else and write nothing.

    Args:
        sql: One SELECT, DESCRIBE, SHOW, SUMMARIZE, PIVOT or EXPLAIN, in DuckDB's dialect.
        workspace: Folder of the stages' files.

    Raises:
        UsageError: There is no workspace, the statement is wrong, or it would change something.
        InputError: Another version filled the workspace, or it is damaged.
    """
    from prefixledger.attribute.query import run_query

    return run_query(workspace_at(workspace), sql)


def explain(
    request_id: str,
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    scenario: str | None = None,
    show_ids: bool = False,
) -> Explanation:
    """Tell the life of one request: where it went, what of its prompt was a hit, and why the rest was not.

    Args:
        request_id: Id as logged, its beginning or short form, or ``source_file:source_line``.
        workspace: Folder of the stages' files; it holds a replay.
        scenario: Name of the replay; None is the one that was asked for last.
        show_ids: Tell request and session ids whole.

    Returns:
        The request, its segments in order and the evidence for each.

    Raises:
        UsageError: There is no such replay, or the id names no request or several.
        InputError: The replay is older than what was ingested, or another version made it or the workspace.
    """
    from prefixledger.attribute import explain as explained

    return explained.explain(workspace_at(workspace), request_id, scenario=scenario, show_ids=show_ids)


def diff(
    first_id: str,
    second_id: str,
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    show_text: bool = False,
    show_ids: bool = False,
) -> PromptDiff:
    """Find where two prompts part, and what of the second would hit without that.

    Args:
        first_id: Id of the earlier request as logged, its beginning or short form, or ``source_file:source_line``.
        second_id: Id of the later one.
        workspace: Folder of the stages' files.
        show_text: Tell the texts there, which must have been kept (``ingest(keep_text=True)``).
        show_ids: Tell request ids whole.

    Raises:
        UsageError: There is no index, an id names no request or several, a prompt is not known, or texts were not kept.
    """
    from prefixledger.attribute import diff as diffs

    return diffs.diff(workspace_at(workspace), first_id, second_id, show_text=show_text, show_ids=show_ids)
