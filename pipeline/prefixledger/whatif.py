"""The verb ``whatif``: a log replayed under every combination of some settings, beside what it is today."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError
from prefixledger.progress import SILENT
from prefixledger.running import running as holding
from prefixledger.running import tasks_on
from prefixledger.workspace import DEFAULT_WORKSPACE, Workspace, pruned_notes, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prefixledger.config.grid import Grid
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.ingest import IngestOptions
    from prefixledger.progress import Progress
    from prefixledger.results import WhatIfResult

BESIDE = ".whatif"
"""Folder in a workspace for logs that are read again, while a grid is run."""


def whatif(
    sources: Sequence[str | Path] = (),
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    capacity: str | Sequence[str | int] | None = None,
    ttl: str | Sequence[str] | None = None,
    residence: str | Sequence[str] | None = None,
    running: str | Sequence[str | int] | None = None,
    tier: str | Sequence[str] | None = None,
    rates: str | Sequence[str] | None = None,
    routing: str | Sequence[str] | None = None,
    replicas: str | Sequence[str | int] | None = None,
    block_sizes: str | Sequence[str | int] | None = None,
    salt: str | Sequence[str] | None = None,
    layout: str | Sequence[str] | None = None,
    growth: str | Sequence[str | float] | None = None,
    sample: str | None = None,
    output: str | Path | None = None,
    figures: str | Path | None = None,
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
) -> WhatIfResult:
    """Replay logs, or a workspace, under every combination of some settings; no replay is kept.

    Args:
        sources: Logs, read first as by ``ingest``; or one workspace; or nothing, for the workspace as it is.
        workspace: Folder of the stages' files.
        capacity: Capacities of one replica, a comma list or a sequence; a mere number is blocks of the log, and ``90%`` the
            smallest that hits so much, found for each combination of the other settings.
        ttl: Lifetimes, as ``5m,1h,none``.
        residence: How long requests hold their blocks: logged, estimated, none, auto.
        running: Requests that may run on a replica at a time, ``max_num_seqs`` of vLLM and ``max_running_requests`` of SGLang;
            ``none`` for as many as fit.
        tier: Lower tiers, ``[KIND:]SIZE[:SCOPE]`` as ``2x``, ``lmcache:512GiB:fleet``, or ``none``.
        rates: Names of models whose prices are paid, or ``by-model``.
        routing: Names of routings, or ``all`` that place requests themselves; another than as-logged has as many replicas
            as the log names, unless told.
        replicas: Numbers of replicas, ``+1`` and ``-1`` for more and fewer than today's, for routings that place requests themselves.
        block_sizes: Tokens per block: multiples of those of the log from its hashes, others from the token ids or text of the
            sources, which are read again.
        salt: ``off``, one salt for all; ``on``, one for each tenant; ``as-logged``.
        layout: ``volatile-last``, what changes from call to call at the end of prompts; ``as-logged``.
        sample: Share of the log that is replayed, as ``10%``: subtrees below what is shared, drawn by the seed of the
            scenario; None is all. Capacities stay those of the whole. Each cell says how far it may be off.
        growth: Times the sessions of the log, as ``1.5,2``; every other setting is tried under each as well.
        output: An HTML page of the cells, with a CSV of the same stem beside it; None writes none.
        figures: Folder for every picture as SVG and PNG; None writes none.
        scenario: The baseline, or its file; None is vLLM, as logged, unlimited.
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
        force: See ``ingest``.
        progress: See ``ingest``.

    Returns:
        The baseline and then every combination, with the same numbers as a replay of that scenario; one that cannot be
        replayed says why.

    Raises:
        CutShortError: Ctrl-C; it carries what was done by then.
        UsageError: A value, an option, a scenario or an event file cannot be used.
        InputError: As for ``ingest``.
    """
    from prefixledger import index, outcomes, results, stages
    from prefixledger.attribute.grid_run import run_grid
    from prefixledger.attribute.trial import open_trials, sampled_trials
    from prefixledger.config.events import in_order
    from prefixledger.config.grid import Grid, read_grid, read_growth, read_sample

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    axes = {
        "block_size": block_sizes, "salt": salt, "layout": layout,
        "capacity": capacity, "ttl": ttl, "residence": residence, "running": running, "tier": tier, "rates": rates,
        "routing": routing, "replicas": replicas,
    }  # fmt: skip
    factors, drawn = read_growth(growth), read_sample(sample)
    grid = (
        Grid() if (factors or drawn) and all(value is None for value in axes.values()) else read_grid(**axes)
    )
    page = None if output is None else Path(output)
    if page is not None:
        from prefixledger.report import whatif_page  # draws, and half a second of imports

        whatif_page.check_page(page, force=force)
    folder = None if figures is None else Path(figures)
    if folder is not None:
        from prefixledger.report import figures as drawings
        from prefixledger.report import whatif_page

        drawings.check_folder(folder, force=force)
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(() if scenario is None else (scenario,), events, replica_grace)
    with (
        tasks_on(engine, options.jobs, ray_address, task_memory, progress) as tasks,
        holding(place, "whatif", force=force, times=tasks.times),
    ):
        read = stages.ingested(logs, place, options, progress, tasks)
        read = stages.engine_logs_read(read, engine_log, place, options, progress, tasks)
        progress.phase("index")
        index.update(place, tasks)
        progress.phase("read the index")
        (baseline,) = question.scenarios
        # In the scenario, so that a fleet that stands in the place of the logged one gets what struck that.
        struck = in_order((*baseline.event, *question.events))
        baseline = baseline.model_copy(update={"event": struck})
        trials = open_trials(place, baseline, keys=_goes_by_keys(baseline, grid))
        if drawn is not None:
            trials = sampled_trials(trials, drawn, baseline.seed)
        try:
            found = run_grid(
                trials, baseline, grid, factors, workspace=place, progress=progress, jobs=options.jobs, engine=tasks,
                reread=_reread(logs, place, options, progress, tasks),
            )  # fmt: skip
        finally:
            shutil.rmtree(place.root / BESIDE, ignore_errors=True)
    cells, asked = found.cells, found.asked
    notes = (*pruned_notes(place), *found.notes, *cells[0].notes)
    written: tuple[Path | None, Path | None] = (None, None)
    if page is not None:
        progress.phase("draw the page")
        made = whatif_page.whatif_page(cells, (*found.sizes, *notes), missing=asked - len(cells))
        written = whatif_page.write_page(made, page)
    if folder is not None:
        drawings.write_pictures(lambda: whatif_page.pictures(cells), folder)
    result = results.WhatIfResult(place.name, read.summary, cells, notes, asked, *written)
    if asked > len(cells):
        raise outcomes.CutShortError(result)
    return read.checked(result)


def _reread(
    logs: Sequence[str | Path], place: Workspace, options: IngestOptions, progress: Progress, engine: Engine
) -> Callable[[int], Workspace]:
    """Return what reads the logs once more, into blocks of another size, beside the workspace."""
    done: dict[int, Workspace] = {}

    def read(block_size: int) -> Workspace:
        from prefixledger import index, stages

        if block_size in done:
            return done[block_size]
        told = read_manifest(place)["sources"]
        hashed = sorted({entry["block_size"] for entry in told if entry["block_ids"] is not None})
        if hashed:
            raise UsageError(
                f"the log has only hashes of blocks of {' or '.join(map(str, hashed))} tokens, not the tokens in them: blocks "
                f"of {block_size} cannot be made of them, those of a multiple can"
            )
        if not logs or any(str(log) == "-" for log in logs):
            raise UsageError(
                f"for blocks of {block_size} tokens the logs must be read again: a workspace has the hashes of its blocks alone",
                hint="name the log files as SOURCE; blocks of a multiple of those of the workspace need no log",
            )
        beside = Workspace(place.root / BESIDE / str(block_size))
        read_again = stages.ingested(logs, beside, replace(options, block_size=block_size), progress, engine)
        if read_again.problem is not None:
            raise UsageError(f"in blocks of {block_size} tokens: {read_again.problem.message}")
        index.update(beside, engine)
        done[block_size] = beside
        return beside

    return read


def _goes_by_keys(baseline: Scenario, grid: Grid) -> bool:
    """Return whether some cell routes by keys, or cuts blocks into pages; all others need the forest alone."""
    from prefixledger.config.grid import AS_LOGGED

    return bool(grid.routing or grid.replicas or grid.block_size) or any(
        pool.fleet.routing != AS_LOGGED or pool.cache.page_size is not None for pool in baseline.pool
    )
