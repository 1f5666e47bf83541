"""The verb ``whatif``: a log replayed under every combination of some settings, beside what it is today."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError
from prefixledger.progress import SILENT
from prefixledger.running import running
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prefixledger.attribute.cell import Cell, Counted
    from prefixledger.attribute.trial import Trial, Trials
    from prefixledger.config.grid import Grid
    from prefixledger.config.scenario import Scenario
    from prefixledger.progress import Progress
    from prefixledger.results import WhatIfResult
    from prefixledger.stages import Question


def whatif(
    sources: Sequence[str | Path] = (),
    *,
    workspace: str | Path = DEFAULT_WORKSPACE,
    capacity: str | Sequence[str | int] | None = None,
    ttl: str | Sequence[str] | None = None,
    residence: str | Sequence[str] | None = None,
    rates: str | Sequence[str] | None = None,
    routing: str | Sequence[str] | None = None,
    replicas: str | Sequence[str | int] | None = None,
    growth: str | Sequence[str | float] | None = None,
    output: str | Path | None = None,
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
        capacity: Capacities of one replica, a comma list or a sequence; a mere number is blocks, and ``90%`` the smallest
            that hits so much.
        ttl: Lifetimes, as ``5m,1h,none``.
        residence: How long requests hold their blocks: logged, estimated, none, auto.
        rates: Names of models whose prices are paid, or ``by-model``.
        routing: Names of routings, or ``all`` that place requests themselves; another than as-logged has as many replicas
            as the log names, unless told.
        replicas: Numbers of replicas, for routings that place requests themselves.
        growth: Times the sessions of the log, as ``1.5,2``; every other setting is tried under each as well.
        output: An HTML page of the cells, with a CSV of the same stem beside it; None writes none.
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
        The baseline and then every combination, with the same numbers as a replay of that scenario; one that cannot be
        replayed says why.

    Raises:
        CutShortError: Ctrl-C; it carries what was done by then.
        UsageError: A value, an option, a scenario or an event file cannot be used.
        InputError: As for ``ingest``.
    """
    from prefixledger import index, outcomes, results, stages
    from prefixledger.attribute.trial import open_trials
    from prefixledger.config.grid import Grid, read_grid, read_growth
    from prefixledger.report import whatif_page

    options = stages.log_options(
        format=format, map=map, block_size=block_size, block_ids=block_ids, id_scope=id_scope,
        t0=t0, after=after, year=year, zone=zone, tokenizer=tokenizer, template=template, keep_text=keep_text,
        models=models, from_name=from_name,
        max_rejects=max_rejects, jobs=jobs, force=force,
    )  # fmt: skip
    axes = {
        "capacity": capacity, "ttl": ttl, "residence": residence, "rates": rates, "routing": routing, "replicas": replicas,
    }  # fmt: skip
    factors = read_growth(growth)
    grid = Grid() if factors and all(value is None for value in axes.values()) else read_grid(**axes)
    page = None if output is None else Path(output)
    if page is not None:
        whatif_page.check_page(page, force=force)
    logs, place = stages.resolve(sources, workspace)
    question = stages.ask(() if scenario is None else (scenario,), events, replica_grace)
    with running(place, "whatif", force=force):
        read = stages.ingested(logs, place, options, progress)
        read = stages.engine_logs_read(read, engine_log, place, options, progress)
        progress.phase("index")
        index.update(place)
        progress.phase("read the index")
        (baseline,) = question.scenarios
        trials = open_trials(place, baseline, question.events, keys=_goes_by_keys(baseline, grid))
        cells, asked, warned = _run(trials, question, grid, factors, progress, options.jobs)
    notes = (*warned, *cells[0].notes)
    written: tuple[Path | None, Path | None] = (None, None)
    if page is not None:
        progress.phase("draw the page")
        made = whatif_page.whatif_page(cells, notes, missing=asked - len(cells))
        written = whatif_page.write_page(made, page)
    result = results.WhatIfResult(place.root, read.summary, cells, notes, asked, *written)
    if asked > len(cells):
        raise outcomes.CutShortError(result)
    return read.checked(result)


def _run(
    trials: Trials, question: Question, grid: Grid, growth: tuple[float, ...], progress: Progress, jobs: int
) -> tuple[tuple[Cell, ...], int, tuple[str, ...]]:
    """Return the baseline and every combination, how many cells were asked for, and what to doubt in the baseline."""
    from prefixledger.attribute.cell import Cell, count, name_cells, refused
    from prefixledger.attribute.policy import doubts
    from prefixledger.attribute.trial import grown_trials
    from prefixledger.config import grid as grids

    (baseline,) = question.scenarios
    progress.phase("replay the baseline")
    first = trials.run(baseline)
    hit_tokens, written_tokens = (first.by_arrival(f"{name}_tokens") for name in ("hit", "written"))
    doubted = doubts(trials.requests, hit_tokens, written_tokens)
    logged = {tally.plan.index: len(tally.plan.fleet.replicas) for tally in first.pools}
    scenarios = grids.cells(baseline, _sized(trials, first, grid, progress), logged)
    pools = tuple(logged)
    wanted = [(1.0, scenario) for scenario in scenarios]
    today = grids.axes_of(first.scenario, pools)
    same = any(grids.axes_of(one, pools) == today for one in scenarios)
    wanted += [(factor, one) for factor in growth for one in (*(() if same else (baseline,)), *scenarios)]
    if len(wanted) > grids.MOST_CELLS:
        raise UsageError(
            f"the grid has {len(wanted):,} cells, and each is a replay", hint=f"at most {grids.MOST_CELLS:,}"
        )
    larger = {1.0: trials}
    for factor in growth:
        progress.phase(f"copy sessions to {factor:g} times the traffic")
        larger[factor] = grown_trials(trials, factor, baseline.seed)
    progress.phase("replay the grid", len(wanted), "cells")

    def named(scenario: Scenario, factor: float) -> dict[str, str | int | None]:
        grows = {"growth": f"{factor:g}"} if growth else {}
        return {**grows, **grids.axes_of(scenario, pools)}

    def tried(asked: tuple[float, Scenario]) -> Counted | Cell:
        factor, scenario = asked
        axes, on = named(scenario, factor), larger[factor]
        try:
            trial = on.run(scenario)
        except UsageError as error:
            return refused(axes, error.message)
        # Another log is no other draw of this one: its difference has no interval.
        intervals = trials.compare(trial, first) if factor == 1 else (None, None)
        return count(trial, axes, on.loads(trial), intervals)

    begin = count(first, named(first.scenario, 1.0), trials.loads(first))
    found = _in_parallel(tried, wanted, progress, jobs)
    if found and all(isinstance(one, Cell) for one in found):
        # Asked again for its hint: a grid in which nothing can be replayed is a mistake, not a result.
        factor, scenario = wanted[0]
        axes = grids.told(named(scenario, factor))
        try:
            larger[factor].run(scenario)
        except UsageError as error:
            raise UsageError(f"{axes}: {error.message}", hint=error.hint) from error
    progress.phase("name the causes")
    counted = [begin, *(one for one in found if not isinstance(one, Cell))]
    ready = iter(name_cells(counted, threads=jobs))
    cells = (next(ready), *(one if isinstance(one, Cell) else next(ready) for one in found))
    return cells, 1 + len(wanted), doubted


def _goes_by_keys(baseline: Scenario, grid: Grid) -> bool:
    """Return whether some cell routes by keys, or cuts blocks into pages; all others need the forest alone."""
    from prefixledger.config.grid import AS_LOGGED

    return bool(grid.routing or grid.replicas) or any(
        pool.fleet.routing != AS_LOGGED or pool.cache.page_size is not None for pool in baseline.pool
    )


def _sized(trials: Trials, first: Trial, grid: Grid, progress: Progress) -> Grid:
    """Put the smallest capacity that hits as much in the place of every hit rate, and say it in every unit."""
    from prefixledger.config.grid import share_of

    shares = [share_of(capacity) for capacity in grid.capacity]
    if all(share is None for share in shares):
        return grid
    if grid.ttl or grid.routing or grid.replicas or grid.residence:
        raise UsageError(
            "a capacity for a hit rate is found for the baseline, and each other setting needs another",
            hint="give --capacity 90% alone, with a --scenario that has the routing and lifetime",
        )
    sizes = []
    for capacity, share in zip(grid.capacity, shares, strict=True):
        if share is None:
            sizes.append(capacity)
            continue
        blocks = trials.smallest_capacity(first, share)
        progress.say(f"{capacity} of the prompt tokens hit from {_in_units(first, blocks)} per replica on")
        sizes.append(f"{blocks} blocks")
    return replace(grid, capacity=tuple(dict.fromkeys(sizes)))


def _in_units(first: Trial, blocks: int) -> str:
    """Return a capacity in blocks and tokens, and in GiB where the shape of the model is given."""
    from prefixledger.config.kv_size import bytes_per_token

    plan = first.pools[0].plan
    tokens = blocks * plan.block_size
    text = f"{blocks:,} blocks, {tokens:,} tokens"
    if plan.pool.model is None:
        return text
    return f"{text}, {float(bytes_per_token(plan.pool.model) * tokens) / (1 << 30):,.2f} GiB"


def _in_parallel(
    tried: Callable[[tuple[float, Scenario]], Counted | Cell],
    scenarios: Sequence[tuple[float, Scenario]],
    progress: Progress,
    jobs: int,
) -> list[Counted | Cell]:
    """Try scenarios beside each other; kernels let other threads run. What is done when Ctrl-C comes is kept, in order."""
    done: dict[int, Counted | Cell] = {}
    pool = ThreadPoolExecutor(max_workers=jobs)
    try:
        running = {pool.submit(tried, scenario): number for number, scenario in enumerate(scenarios)}
        for future in as_completed(running):
            done[running[future]] = future.result()
            progress.advance(1)
    except KeyboardInterrupt:
        progress.say("interrupted: what is done is kept")
    finally:
        pool.shutdown(cancel_futures=True)
    return [done[number] for number in sorted(done)]
