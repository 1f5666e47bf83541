"""The verb ``investigate``: when rates changed, for whom, what happened then, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.errors import InputError, UsageError
from prefixledger.progress import SILENT
from prefixledger.running import running, tasks_on
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.scenario import Scenario
    from prefixledger.progress import Progress
    from prefixledger.results import InvestigateResult
    from prefixledger.workspace import Workspace


def investigate(
    sources: Sequence[str | Path] = (),
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    output: str | Path | None = None,
    figures: str | Path | None = None,
    at: str | None = None,
    from_: str | None = None,
    to: str | None = None,
    scenario: Scenario | str | Path | None = None,
    events: Sequence[str | Path] = (),
    replica_grace: str | None = None,
    engine_log: Sequence[str | Path] = (),
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
) -> InvestigateResult:
    """Look through logs, or a workspace, for changes of the hit rate and of each cause.

    Args:
        sources: Logs, read first as by ``ingest``; or one workspace; or nothing, for the workspace as it is.
        workspace: Folder of the stages' files.
        output: An HTML page of what is found; None writes none.
        figures: Folder for every picture as SVG and PNG; None writes none.
        at: Look only at this moment, ISO 8601, UTC unless it says; None finds moments by itself.
        from_: First moment that is looked at; None is the first of the log.
        to: First moment behind; None is the end of the log.
        scenario: What is replayed, or its file; None is the replay that a workspace was last asked for, else vLLM, as
            logged, unlimited.
        events: See ``replay``, as for the two that follow.
        replica_grace: How long a replica lives after its last logged request.
        engine_log: Logs or metrics of engines.
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
        force: See ``ingest``; and replace files that prefixledger did not write.
        progress: See ``ingest``.

    Returns:
        What was found; "not enough data" is an answer, too.

    Raises:
        UsageError: An option, a scenario or an event file cannot be used, or a foreign file is in the way.
        InputError: As for ``ingest``.
    """
    from prefixledger import results, stages
    from prefixledger.attribute import investigate as look
    from prefixledger.attribute.window import whole_log
    from prefixledger.config.units import parse_time_us
    from prefixledger.report import investigation_page as pages
    from prefixledger.report.figures import check_folder, write_pictures

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    if at is not None and (from_ is not None or to is not None):
        raise UsageError("one moment and a stretch do not go together", hint="give --at, or --from and --to")
    page = None if output is None else Path(output)
    if page is not None:
        pages.check_page(page, force=force)
    folder = None if figures is None else Path(figures)
    if folder is not None:
        check_folder(folder, force=force)
    at_us, from_us, to_us = (None if text is None else parse_time_us(text) for text in (at, from_, to))
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(() if scenario is None else (scenario,), events, replica_grace)
    with (
        tasks_on(engine, options.jobs, ray_address, task_memory, progress) as tasks,
        running(place, "investigate", force=force, times=tasks.times),
    ):
        read = stages.ingested(logs, place, options, progress, tasks)
        read = stages.engine_logs_read(read, engine_log, place, options, progress, tasks)
        asked = logs or scenario is not None or events or replica_grace is not None or engine_log
        name, again = (None, None) if asked else _kept_replay(place)
        if again is not None:
            question = stages.ask((again,), (), None)
        if name is None:
            stages.indexed(place, progress, tasks)
            name = stages.replayed(place, question, progress, options.jobs, tasks)[0].name
        progress.phase("investigate")
        window = whole_log(place, from_us=from_us, to_us=to_us)
        found = look.investigate(place, name, window, at_us=at_us, threads=options.jobs)
        if page is not None:
            progress.phase("draw the page")
            pages.write_page(found, page)
        if folder is not None:
            write_pictures(lambda: pages.pictures(found), folder)
    return read.checked(results.InvestigateResult(place.name, read.summary, found, page))


def _kept_replay(workspace: Workspace) -> tuple[str | None, Path | None]:
    """Return the name of the replay that was asked for last, or, where it is of no use any more, the scenario to replay again."""
    from prefixledger.attribute.explain import choose_replay, last_replay
    from prefixledger.replay.store import SCENARIO

    try:
        last = last_replay(workspace)
    except UsageError:
        return None, None
    try:
        return choose_replay(workspace, last), None
    except InputError:
        return None, workspace.replay(last) / SCENARIO
