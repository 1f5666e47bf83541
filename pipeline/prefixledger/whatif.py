"""The verb ``whatif``: a log replayed under every combination of some settings, beside what it is today."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError
from prefixledger.progress import SILENT
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from prefixledger.attribute.cell import Cell
    from prefixledger.config.grid import Grid
    from prefixledger.config.scenario import Scenario
    from prefixledger.outcomes import WhatIfResult
    from prefixledger.progress import Progress
    from prefixledger.replay import ReplaySummary
    from prefixledger.stages import Question
    from prefixledger.workspace import Workspace

_SIDE = ".whatif"
_OWN = frozenset({_SIDE, "replays", "run.json", ".lock"})
"""What a workspace does not share with the one that cells are replayed in."""


def whatif(
    sources: Sequence[str | Path] = (),
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    capacity: str | Sequence[str | int] | None = None,
    ttl: str | Sequence[str] | None = None,
    routing: str | Sequence[str] | None = None,
    replicas: str | Sequence[str | int] | None = None,
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
    force: bool = False,
    progress: Progress = SILENT,
) -> WhatIfResult:
    """Replay logs, or a workspace, under every combination of some settings; no replay is kept.

    Args:
        sources: Logs, read first as by ``ingest``; or one workspace; or nothing, for the workspace as it is.
        workspace: Folder of the stages' files.
        capacity: Capacities of one replica, a comma list or a sequence; a mere number is blocks.
        ttl: Lifetimes, as ``5m,1h,none``.
        routing: Names of routings, or ``all`` that place requests themselves; another than as-logged has as many replicas
            as the log names, unless told.
        replicas: Numbers of replicas, for routings that place requests themselves.
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
        force: See ``ingest``.
        progress: See ``ingest``.

    Returns:
        The baseline and then every combination, with the same numbers as a replay of that scenario.

    Raises:
        UsageError: A value, an option, a scenario or an event file cannot be used.
        InputError: As for ``ingest``.
    """
    from prefixledger import index, outcomes, stages
    from prefixledger.config.grid import read_grid

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    grid = read_grid(capacity=capacity, ttl=ttl, routing=routing, replicas=replicas)
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(() if scenario is None else (scenario,), events, replica_grace)
    with stages.running(place, "whatif", force=force):
        read = stages.ingested(logs, place, options, progress)
        read = stages.engine_logs_read(read, engine_log, place, options, progress)
        progress.phase("index")
        index.update(place)
        with _beside(place) as side:
            cells, notes = _run(side, question, grid, progress, options.jobs)
    return read.checked(outcomes.WhatIfResult(place.root, read.summary, cells, notes))


def _run(
    side: Workspace, question: Question, grid: Grid, progress: Progress, jobs: int
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    from prefixledger.config import grid as grids

    (baseline,) = question.scenarios
    progress.phase("replay the baseline")
    summary, first = _cell(side, question, baseline, None, jobs)
    logged = {pool.pool: len(pool.replicas) for pool in summary.pools}
    if not logged:
        raise UsageError(
            "no request can be looked up, so nothing would change",
            hint="whatif needs logs with token ids, block ids or text; see prefixledger formats --how",
        )
    scenarios = grids.cells(baseline, grid, logged)
    progress.phase("replay the grid", len(scenarios), "cells")
    found = [first]
    for scenario in scenarios:
        axes = grids.axes_of(scenario, tuple(logged))
        try:
            found.append(_cell(side, question, scenario, first, jobs)[1])
        except UsageError as error:
            raise UsageError(f"{grids.told(axes)}: {error.message}", hint=error.hint) from error
        progress.advance(1)
    return tuple(found), summary.notes


def _cell(
    side: Workspace, question: Question, scenario: Scenario, baseline: Cell | None, jobs: int
) -> tuple[ReplaySummary, Cell]:
    """Replay one scenario, and leave nothing behind."""
    from prefixledger import replay
    from prefixledger.attribute.cell import read_cell
    from prefixledger.attribute.policy import baseline_doubts
    from prefixledger.config.grid import axes_of

    summary = replay.run(side, scenario, events=question.events)
    axes = axes_of(scenario, [pool.pool for pool in summary.pools])
    cell = read_cell(side, scenario.name, axes, baseline=baseline, threads=jobs)
    if baseline is None:
        summary = summary.with_notes(baseline_doubts(side, scenario.name))
    shutil.rmtree(side.replay(scenario.name))
    return summary, cell


@contextmanager
def _beside(workspace: Workspace) -> Iterator[Workspace]:
    """Make a workspace with the same requests and index and no replays; it is gone afterwards.

    Replays that the reader keeps stay as they are, whatever their names.
    """
    from prefixledger.workspace import Workspace

    root = workspace.root.resolve()
    side = root / _SIDE
    # One that was killed leaves its folder; the lock says that nobody is in it.
    shutil.rmtree(side, ignore_errors=True)
    side.mkdir()
    try:
        for path in sorted(root.iterdir()):
            if path.name not in _OWN:
                (side / path.name).symlink_to(path)
        yield Workspace(side)
    finally:
        shutil.rmtree(side)
