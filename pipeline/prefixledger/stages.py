"""The stages in order, each called in one place: ingest, index, replay, attribute, report."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from prefixledger.errors import InputError, UsageError
from prefixledger.mirror import is_published, publish, workspace_at
from prefixledger.objects import is_url
from prefixledger.outcomes import PartialInputError, Read
from prefixledger.results import ReportResult
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from prefixledger.advice.parts import Advice
    from prefixledger.attribute import Comparison, CounterComparison
    from prefixledger.config.scenario import Event, Scenario
    from prefixledger.engine import Engine
    from prefixledger.ingest import IngestOptions
    from prefixledger.ingest.account import Progress as BytesRead
    from prefixledger.ingest.invoice import InvoiceLine
    from prefixledger.progress import Progress
    from prefixledger.replay import ReplaySummary
    from prefixledger.report.rules import Rule


@dataclass(frozen=True, slots=True)
class Question:
    """What is replayed.

    Attributes:
        scenarios: Each under a name of its own; the first is the one that a report is about.
        events: From event files; they hold in every scenario.
    """

    scenarios: tuple[Scenario, ...]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """What a report is to look like.

    Attributes:
        output: The HTML file.
        from_us: First moment, microseconds since 1970; None is chosen.
        to_us: First moment after it; None is chosen.
        zone: IANA name of the zone of its times.
        show_ids: Whether ids are shown whole.
        rules: What it must not say.
        invoice: What the log is held against.
        figures: Folder for the pictures; None for none.
    """

    output: Path
    from_us: int | None
    to_us: int | None
    zone: str
    show_ids: bool
    rules: tuple[Rule, ...] = ()
    invoice: tuple[InvoiceLine, ...] = ()
    figures: Path | None = None


def resolve(sources: Sequence[str | Path], workspace: str | Path) -> tuple[tuple[str | Path, ...], Workspace]:
    """Tell sources from a workspace that was given in their place.

    Raises:
        UsageError: A workspace stands among sources, or there is neither.
    """
    found = [source for source in sources if _is_workspace(source)]
    if found and len(sources) == 1:
        return (), workspace_at(found[0])
    if found:
        raise UsageError(
            f"{found[0]} is a workspace and does not go with logs", hint="give logs, or one workspace"
        )
    place = workspace_at(workspace)
    if not sources and not _is_workspace(place.root):
        raise UsageError(
            f"no SOURCE is given, and there is no workspace {place.name}",
            hint="name log files, folders or globs, or a workspace",
        )
    return tuple(sources), place


def ask(
    scenario: Sequence[Scenario | str | Path], events: Sequence[str | Path], replica_grace: str | None
) -> Question:
    """Read scenarios and events before anything else is done, so that a fault in them costs nothing.

    Raises:
        UsageError: A file is wrong, or two scenarios have one name.
    """
    from prefixledger.config.events import in_order, load_events
    from prefixledger.config.scenario import Scenario, default_scenario, load_scenario

    read = [one if isinstance(one, Scenario) else load_scenario(Path(one)) for one in scenario]
    if replica_grace is not None:
        read = [one.with_replica_grace(replica_grace) for one in read or [default_scenario()]]
    names = [one.name for one in read]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two scenarios are called {twice!r}", hint='give each file a name = "…" of its own')
    found = in_order(tuple(event for path in events for event in load_events(Path(path))))
    chosen = tuple(read) or (default_scenario(),)
    for one in chosen:
        one.check_events(found)
    return Question(chosen, found)


def ingested(
    sources: Sequence[str | Path],
    workspace: Workspace,
    options: IngestOptions,
    progress: Progress,
    engine: Engine,
) -> Read:
    """Run the stage ``ingest`` where there are sources; too many rejects stop nothing yet.

    Raises:
        InputError: An input cannot be read, or all of them are empty.
    """
    from prefixledger import ingest
    from prefixledger.ingest.account import TooManyRejectsError

    if not sources:
        return Read()
    try:
        read = Read(
            ingest.run([str(source) for source in sources], workspace, options, _bytes_to(progress), engine)
        )
    except TooManyRejectsError as error:
        read = Read(error.summary, error)
    publish(workspace)
    return read


def engine_logs_read(
    read: Read,
    engine_logs: Sequence[str | Path],
    workspace: Workspace,
    options: IngestOptions,
    progress: Progress,
    engine: Engine,
) -> Read:
    """Run the stage ``ingest`` for logs and metrics of engines, which need hold no request.

    Raises:
        InputError: One cannot be read, or says nothing of an engine.
    """
    from prefixledger import ingest
    from prefixledger.ingest.account import IngestSummary, NoRequestError

    if not engine_logs:
        return read
    chosen = replace(
        options,
        format=None,
        map_file=None,
        block_size=None,
        block_ids=None,
        id_scope=None,
        t0=None,
        after=None,
    )
    try:
        parts = [
            ingest.run(logs, workspace, replace(chosen, format=name), _bytes_to(progress), engine)
            for name, logs in ingest.engine_sources(str(log) for log in engine_logs)
        ]
    except NoRequestError as error:
        raise InputError(
            "no line of the engine logs says how large a cache is, or that an engine started",
            hint="lines such as 'GPU KV cache size: 433,248 tokens', '# GPU blocks: 27078', 'max_total_num_tokens=477168', "
            "or a scrape with vllm:cache_config_info",
        ) from error
    before = read.summary or IngestSummary((), ())
    inputs = (account for part in (before, *parts) for account in part.inputs)
    messages = (message for part in (before, *parts) for message in part.messages)
    return Read(IngestSummary(tuple(inputs), tuple(messages)), read.problem)


def indexed(workspace: Workspace, progress: Progress, engine: Engine) -> None:
    """Run the stage ``index``."""
    from prefixledger import index

    progress.phase("index")
    index.update(workspace, engine)


def replayed(
    workspace: Workspace, question: Question, progress: Progress, jobs: int, engine: Engine
) -> tuple[ReplaySummary, ...]:
    """Run the stages ``replay`` and ``attribute``: scenarios are tasks, of a single one the replicas are."""
    from prefixledger.scenarios import replay_all

    return replay_all(workspace, question.scenarios, question.events, progress, jobs, engine)


def compared(
    workspace: Workspace, replays: tuple[ReplaySummary, ...]
) -> tuple[Comparison | CounterComparison | None, ...]:
    """Set the hits of each replay beside those that the service reports, over the whole log."""
    from prefixledger.attribute import compare

    return tuple(compare(workspace, one.name) for one in replays)


def page(
    output: str | Path,
    from_: str | None,
    to: str | None,
    tz: str,
    *,
    month: str | None,
    invoice: Sequence[str | Path],
    fail_on: Sequence[str],
    figures: str | Path | None = None,
    show_ids: bool,
    force: bool,
) -> Page:
    """Settle what a report is to look like before anything is read.

    Raises:
        UsageError: A time, the zone or a rule does not exist, or a foreign file is in the way.
    """
    from prefixledger.config.units import month_us, parse_time_us
    from prefixledger.ingest.invoice import read_invoice
    from prefixledger.report import stage as report
    from prefixledger.report.rules import rules

    try:
        zone = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {tz!r}", hint='write "UTC", "Europe/Berlin" …') from error
    report.check(Path(output), force=force)
    if figures is not None:
        report.check_folder(Path(figures), force=force)
    first, last = (None if text is None else parse_time_us(text, zone) for text in (from_, to))
    if month is not None:
        if from_ is not None or to is not None:
            raise UsageError("a month has a beginning and an end", hint="leave out --from and --to")
        first, last = month_us(month, zone)
    lines = tuple(line for path in invoice for line in read_invoice(Path(path)))
    return Page(
        Path(output),
        first,
        last,
        tz,
        show_ids,
        rules(fail_on),
        lines,
        None if figures is None else Path(figures),
    )


def advising(
    workspace: Workspace, question: Question, progress: Progress, engine: Engine
) -> AbstractContextManager[Callable[[], Advice]]:
    """Try changes of the first scenario on the log, in memory, while something else is done; the result is called for."""
    from prefixledger.advice.beside import advising

    return advising(workspace, question.scenarios[0], question.events, progress.phase, engine)


def reported(
    workspace: Workspace,
    asked: Page,
    read: Read,
    replays: tuple[ReplaySummary, ...],
    advice: Callable[[], Advice],
    progress: Progress,
) -> ReportResult:
    """Run the stage ``report``."""
    from prefixledger.attribute.window import default_window
    from prefixledger.ingest.invoice import invoice_span
    from prefixledger.report import stage as report

    progress.phase("report")
    from_us, to_us = asked.from_us, asked.to_us
    if asked.invoice and from_us is None and to_us is None:
        from_us, to_us = invoice_span(asked.invoice)
    stretch = default_window(workspace, zone=asked.zone, from_us=from_us, to_us=to_us)
    view = replace(report.build(workspace, replays, stretch, asked.invoice), advice=advice())
    # Foreign files were looked for before the work began, and what stands there now is what was found then.
    written = report.write(view, asked.output, force=True, show_ids=asked.show_ids)
    if asked.figures is not None:
        report.write_figures(view, asked.figures)
    observed, engines = view.result.observed, view.engines
    compared = None if observed is None else observed.compared
    lines = report.summary(view, written).lines()
    return ReportResult(
        workspace.name,
        read.summary,
        replays,
        written.html,
        written.json,
        written.csv,
        lines,
        compared if compared is not None or engines is None else engines.compared,
        report.crossed(asked.rules, written.values),
    )


def nothing_reported(
    workspace: Workspace, asked: Page, read: Read, question: Question, problem: InputError
) -> PartialInputError:
    """Write a report that says why there is none; return the error that it ends with all the same.

    Args:
        workspace: Holds no lookup.
        asked: What the report was to look like.
        read: The sources, as far as they were read.
        question: What was to be replayed.
        problem: Why that could not be done.
    """
    from prefixledger.report import stage as report
    from prefixledger.report.nothing import build_nothing

    view = build_nothing(workspace, question.scenarios[0], asked.zone, problem)
    written = report.write(view, asked.output, force=True, show_ids=asked.show_ids)
    lines = report.summary(view, written).lines()
    result = ReportResult(
        workspace.name, read.summary, (), written.html, written.json, written.csv, lines,
        crossed=report.crossed(asked.rules, written.values),
    )  # fmt: skip
    accounts = () if read.summary is None else read.summary.inputs
    if accounts and not sum(account.kept for account in accounts):
        problem = InputError(
            "no record was kept", hint=f"{written.html} says why, and where each reason occurs first"
        )
    return PartialInputError(read.problem or problem, result)


def holds_requests(workspace: Workspace) -> bool:
    """Return whether anything was ever kept in a workspace."""
    return any(workspace.requests.glob("*/*.parquet"))


def log_options(
    *,
    t0: str | None,
    jobs: int | None,
    after: str | Path | None,
    map: str | Path | None,
    tokenizer: str | Path | None,
    template: str | Path | None,
    models: str | Path | None,
    **rest: Any,
) -> IngestOptions:
    """Return the options of the stage ``ingest``; see ``api.ingest``.

    Raises:
        UsageError: They exclude each other or mean nothing.
    """
    from prefixledger.config.units import parse_time_us
    from prefixledger.ingest.options import IngestOptions

    return IngestOptions(
        map_file=None if map is None else Path(map),
        t0=None if t0 is None else parse_time_us(t0),
        after=None if after is None else str(after),
        tokenizer=None if tokenizer is None else str(tokenizer),
        template=None if template is None else Path(template),
        models=None if models is None else Path(models),
        jobs=jobs or len(os.sched_getaffinity(0)),
        **rest,
    )


def _bytes_to(progress: Progress) -> Callable[[BytesRead], None]:
    """Translate running totals of the stage ``ingest`` into the steps of a bar."""
    done, rejects = -1, 0

    def step(state: BytesRead) -> None:
        nonlocal done, rejects
        if done < 0:
            progress.phase("read", state.bytes_total)
            done = 0
        progress.advance(state.bytes_done - done, state.rejects - rejects)
        done, rejects = state.bytes_done, state.rejects

    return step


def _is_workspace(place: str | Path) -> bool:
    if is_url(place):
        return is_published(str(place))
    folder = Workspace(Path(place))
    return folder.manifest.is_file() and folder.requests.is_dir()
