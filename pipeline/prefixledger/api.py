"""Every verb of the command line as a Python function of the same name, options and defaults."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.compare import compare
from prefixledger.doctor import doctor
from prefixledger.errors import InputError, NoInputError, NoLookupError, UsageError
from prefixledger.investigate import investigate
from prefixledger.progress import SILENT
from prefixledger.prune import prune
from prefixledger.reference import diff, explain, formats, print_scenario, query, rates
from prefixledger.reports_index import index
from prefixledger.running import running, tasks_on
from prefixledger.trace_export import export
from prefixledger.whatif import whatif
from prefixledger.workspace import DEFAULT_WORKSPACE, read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.scenario import Scenario
    from prefixledger.ingest import IngestSummary
    from prefixledger.progress import Progress
    from prefixledger.results import ReplayResult, ReportResult

__all__ = [
    "compare", "demo", "diff", "doctor", "explain", "export", "formats", "index", "ingest", "investigate", "print_scenario", "prune", "query", "rates", "replay", "report", "whatif",
]  # fmt: skip

DEFAULT_OUTPUT = "prefixledger.html"


def ingest(
    sources: Sequence[str | Path],
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    format: str | None = None,
    map: str | Path | None = None,
    block_size: int | None = None,
    block_ids: str | None = None,
    id_scope: str | None = None,
    t0: str | None = None,
    after: str | Path | None = None,
    year: int | None = None,
    zone: str | None = None,
    tokenizer: str | Path | None = None,
    template: str | Path | None = None,
    keep_text: bool = False,
    models: str | Path | None = None,
    from_name: str | None = None,
    max_rejects: str = "1%",
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    task_memory: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> IngestSummary:
    """Read logs into a workspace.

    Args:
        sources: Files, folders, globs, or ``-`` for stdin; plain, gzip or zstd.
        workspace: Folder of the stages' files.
        format: Name of the format; None detects it.
        map: TOML file that maps our columns to those of the logs.
        block_size: Tokens per block; None takes the log's.
        block_ids: ``floor`` or ``ceil``: whether the logs hash a trailing partial block; None counts.
        id_scope: ``file`` or ``global``: over what block ids are unique; None takes the format's.
        t0: When a log with a relative clock begins, e.g. ``2026-11-24T10:00:00Z``.
        after: The log that one with a relative clock goes on from.
        year: Year in which logs begin that write none, as vLLM's do; None goes by the time of the file.
        zone: Time zone of logs that name none, e.g. ``Europe/Berlin``; None reads their times as UTC unless they tell.
        tokenizer: For logs with text: a ``tokenizer.json``, the name of a tiktoken encoding, or of an installed package
            that holds a ``tokenizer.json``; nothing is fetched. None cuts text by bytes, which is approximate.
        template: Chat template (Jinja) that makes the text of a prompt from its messages.
        models: TOML file with aliases of models, ``"prod-chat-*" = "gpt-4.1"``: deployments, ARNs, gateway groups.
        from_name: Regular expression that finds fields in the names of logs, ``(?P<replica>[^/]+)[.]log``; they are
            stronger than what the log says. One group without a name is the replica.
        keep_text: Keep the texts of prompts in the workspace; without it only their digests are.
        max_rejects: ``"100"`` or ``"0.5%"``; a share allows at least 10 records.
        jobs: Processes; None is all cores.
        engine: ``local``, or ``ray`` (the extra ``prefixledger[ray]``); results are the same.
        ray_address: Cluster, as ``host:port``; None is that of ``RAY_ADDRESS``, else one is started on this machine.
        task_memory: What one task may take, as ``512MiB``; None is no limit.
        force: Read inputs again that were read before, and use a folder that holds files of somebody else.
        progress: Told how far it is.

    Returns:
        The account of every input.

    Raises:
        UsageError: An option cannot be used.
        InputError: An input cannot be read or is empty; or (``outcomes.PartialInputError``, which carries the account)
            too many records were rejected, after writing everything.
    """
    from prefixledger import stages
    from prefixledger.mirror import workspace_at

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    if not sources:
        raise UsageError("no SOURCE is given", hint="name log files, folders or globs, or - for stdin")
    place = workspace_at(workspace)
    with (
        tasks_on(engine, options.jobs, ray_address, task_memory, progress) as tasks,
        running(place, "ingest", force=force, times=tasks.times),
    ):
        read = stages.ingested(sources, place, options, progress, tasks)
    assert read.summary is not None
    return read.checked(read.summary)


def replay(
    sources: Sequence[str | Path] = (),
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    scenario: Sequence[Scenario | str | Path] = (),
    events: Sequence[str | Path] = (),
    replica_grace: str | None = None,
    engine_log: Sequence[str | Path] = (),
    max_gap_pp: float | None = None,
    format: str | None = None,
    map: str | Path | None = None,
    block_size: int | None = None,
    block_ids: str | None = None,
    id_scope: str | None = None,
    t0: str | None = None,
    after: str | Path | None = None,
    year: int | None = None,
    zone: str | None = None,
    tokenizer: str | Path | None = None,
    template: str | Path | None = None,
    keep_text: bool = False,
    models: str | Path | None = None,
    from_name: str | None = None,
    max_rejects: str = "1%",
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    task_memory: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> ReplayResult:
    """Replay logs, or a workspace, through simulated caches, and name the cause of every missed token.

    Args:
        sources: Logs, read first as by ``ingest``; or one workspace; or nothing, for the workspace as it is.
        workspace: Folder of the stages' files.
        scenario: Scenarios or their files; empty is vLLM, as logged, unlimited.
        events: Files of restarts, deploys and so on; they hold in every scenario.
        replica_grace: How long a replica lives after its last logged request; None is what the scenario says.
        engine_log: Logs or metrics of engines, which need hold no request: they say how large each cache is, for
            ``capacity = "from-log"``, and when an engine started.
        max_gap_pp: How many percentage points the hit rate of the first replay may be from what the service reports, over
            the lookups that have both; None checks nothing.
        format: See ``ingest``, as for all that follow.
        map: See ``ingest``.
        block_size: See ``ingest``.
        block_ids: See ``ingest``.
        id_scope: See ``ingest``.
        t0: See ``ingest``.
        after: See ``ingest``.
        year: See ``ingest``.
        zone: See ``ingest``.
        tokenizer: See ``ingest``.
        template: See ``ingest``.
        keep_text: See ``ingest``.
        models: See ``ingest``.
        from_name: See ``ingest``.
        max_rejects: See ``ingest``.
        jobs: See ``ingest``.
        engine: See ``ingest``.
        ray_address: See ``ingest``.
        task_memory: See ``ingest``.
        force: See ``ingest``.
        progress: See ``ingest``.

    Returns:
        The account of the sources and one summary per scenario; the rows are in the workspace, see ``query``.

    Raises:
        UsageError: An option, a scenario or an event file cannot be used.
        InputError: As for ``ingest``.
        RuleCrossedError: The gap is larger than allowed (``outcomes.GapError``, which carries the result).
    """
    from prefixledger import outcomes, results, stages

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    outcomes.check_max_gap(max_gap_pp)
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(scenario, events, replica_grace)
    with (
        tasks_on(engine, options.jobs, ray_address, task_memory, progress) as tasks,
        running(place, "replay", force=force, times=tasks.times),
    ):
        read = stages.ingested(logs, place, options, progress, tasks)
        read = stages.engine_logs_read(read, engine_log, place, options, progress, tasks)
        stages.indexed(place, progress, tasks)
        replays = stages.replayed(place, question, progress, options.jobs, tasks)
        compared = stages.compared(place, replays)
    result = read.checked(results.ReplayResult(place.name, read.summary, replays, compared))
    outcomes.check_gap(compared[0], max_gap_pp, result)
    return result


def report(
    sources: Sequence[str | Path] = (),
    *,
    output: str | Path = DEFAULT_OUTPUT,
    figures: str | Path | None = None,
    workspace: str | Path = DEFAULT_WORKSPACE,
    from_: str | None = None,
    to: str | None = None,
    month: str | None = None,
    invoice: Sequence[str | Path] = (),
    tz: str = "UTC",
    scenario: Sequence[Scenario | str | Path] = (),
    events: Sequence[str | Path] = (),
    replica_grace: str | None = None,
    engine_log: Sequence[str | Path] = (),
    max_gap_pp: float | None = None,
    fail_on: Sequence[str] = (),
    format: str | None = None,
    map: str | Path | None = None,
    block_size: int | None = None,
    block_ids: str | None = None,
    id_scope: str | None = None,
    t0: str | None = None,
    after: str | Path | None = None,
    year: int | None = None,
    zone: str | None = None,
    tokenizer: str | Path | None = None,
    template: str | Path | None = None,
    keep_text: bool = False,
    models: str | Path | None = None,
    from_name: str | None = None,
    max_rejects: str = "1%",
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    task_memory: str | None = None,
    show_ids: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> ReportResult:
    """Write a report on logs, or on a workspace: one HTML file, its JSON twin and a folder of CSV files.

    Args:
        sources: See ``replay``.
        output: The HTML file; the others go beside it.
        figures: Folder for every picture as SVG and PNG; None writes none.
        workspace: Folder of the stages' files.
        from_: First moment of the report, ISO 8601; None with ``to`` None is the days of the invoice, else the last whole ISO week, else the whole log.
        to: First moment after it.
        month: A calendar month, ``2026-11``, in place of the two.
        invoice: Invoices as CSV, or usage and cost pages as JSON, that the log is held against.
        tz: Zone of the report, and of ``from_`` and ``to`` where they name none.
        scenario: See ``replay``; the report is about the first.
        events: See ``replay``.
        replica_grace: See ``replay``.
        engine_log: See ``replay``.
        max_gap_pp: See ``replay``; within the window of the report.
        fail_on: Rules such as ``token_hit_rate<0.8``, ``evicted_share>5%``, ``gap-to-ideal``, ``rejects`` and
            ``reads-zero-writes-climb``; see ``report.rules.names``.
        format: See ``ingest``, as for all that follow.
        map: See ``ingest``.
        block_size: See ``ingest``.
        block_ids: See ``ingest``.
        id_scope: See ``ingest``.
        t0: See ``ingest``.
        after: See ``ingest``.
        year: See ``ingest``.
        zone: See ``ingest``.
        tokenizer: See ``ingest``.
        template: See ``ingest``.
        keep_text: See ``ingest``.
        models: See ``ingest``.
        from_name: See ``ingest``.
        max_rejects: See ``ingest``.
        jobs: See ``ingest``.
        engine: See ``ingest``.
        ray_address: See ``ingest``.
        task_memory: See ``ingest``.
        show_ids: Show request and user ids whole.
        force: See ``ingest``; and replace files that prefixledger did not write.
        progress: See ``ingest``.

    Returns:
        What was written where, and the verdict.

    Raises:
        UsageError: An option, a scenario or an event file cannot be used, or a foreign file is in the way.
        InputError: As for ``ingest``; the report is written first, also where nothing was kept: then it says why.
        RuleCrossedError: As for ``replay``, or a rule of ``fail_on`` is crossed; the report is written first.
    """
    from prefixledger import outcomes, stages

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    outcomes.check_max_gap(max_gap_pp)
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(scenario, events, replica_grace)
    page = stages.page(
        output,
        from_,
        to,
        tz,
        month=month,
        invoice=invoice,
        fail_on=fail_on,
        figures=figures,
        show_ids=show_ids,
        force=force,
    )
    with (
        tasks_on(engine, options.jobs, ray_address, task_memory, progress) as tasks,
        running(place, "report", force=force, times=tasks.times),
        ExitStack() as beside,
    ):
        read = outcomes.Read()
        if place.manifest.is_file():
            read_manifest(place)  # of what cannot be read there is no report, not even an empty one
        try:
            read = stages.ingested(logs, place, options, progress, tasks)
            read = stages.engine_logs_read(read, engine_log, place, options, progress, tasks)
            stages.indexed(place, progress, tasks)
            advice = beside.enter_context(stages.advising(place, question, progress, tasks))
            replays = stages.replayed(place, question, progress, options.jobs, tasks)
        except NoInputError:
            raise
        except InputError as problem:
            if stages.holds_requests(place) and not isinstance(problem, NoLookupError):
                raise
            raise stages.nothing_reported(place, page, read, question, problem) from problem
        result = read.checked(stages.reported(place, page, read, replays, advice, progress))
    outcomes.check_gap(result.compared, max_gap_pp, result)
    outcomes.check_rules(result)
    return result


def demo(
    *,
    output: str | Path = DEFAULT_OUTPUT,
    workspace: str | Path = DEFAULT_WORKSPACE,
    jobs: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> ReportResult:
    """Make up a week of a multi-tenant assistant, and report on it; no network, and the same bytes every time.

    Args:
        output: See ``report``.
        workspace: A folder of its own; what the same version left of a demo is kept, what another left is emptied.
        jobs: See ``ingest``.
        force: Make and read the log again, and see ``report``.
        progress: See ``ingest``.

    Returns:
        What was written where, and the verdict.

    Raises:
        UsageError: The workspace holds other logs, or a foreign file is in the way.
    """
    from prefixledger.loading import load_report
    from prefixledger.objects import is_url
    from prefixledger.resources import resource_dir
    from prefixledger.samples import demo_log

    if is_url(workspace):
        raise UsageError("the demo makes its workspace on this machine", hint="give a folder as --workspace")
    alone = (jobs or len(os.sched_getaffinity(0))) == 1
    story = demo_log(Path(workspace), progress, force=force, meanwhile=None if alone else load_report)
    samples = resource_dir("sample_traces")
    with as_file(samples / "story.map.toml") as columns, as_file(samples / "story.scenario.toml") as fleet:
        return report(
            [story], output=output, workspace=workspace, map=columns, scenario=[fleet],
            jobs=jobs, force=force, progress=progress,
        )  # fmt: skip
