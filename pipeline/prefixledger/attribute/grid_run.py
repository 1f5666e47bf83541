"""Runs a grid: the baseline, and every combination on the log that has its keys and its traffic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.attribute.cell import Cell, count, name_cells, refused
from prefixledger.attribute.other_keys import OtherKeys, with_keys
from prefixledger.attribute.policy import doubts
from prefixledger.attribute.trial import grown_trials
from prefixledger.config import grid as grids
from prefixledger.config.kv_size import bytes_per_token
from prefixledger.engine import Work
from prefixledger.errors import UsageError
from prefixledger.replay.sampled import SHARED_BY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prefixledger.attribute.cell import Counted
    from prefixledger.attribute.trial import Trial, Trials
    from prefixledger.config.grid import Asked, Grid, Keys
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.progress import Progress
    from prefixledger.replay.sampled import Sample
    from prefixledger.workspace import Workspace

CELLS = Work("cells", "tries a scenario", threads=True)
_AS_THEY_ARE = grids.Keys()


@dataclass(frozen=True, slots=True)
class GridFound:
    """What a grid came to.

    Attributes:
        cells: The baseline and every combination that was replayed, in order.
        asked: How many cells there were to be.
        notes: What to doubt in the baseline.
        sizes: For every hit rate that was asked for the capacity that has it, in every unit; one sentence each.
    """

    cells: tuple[Cell, ...]
    asked: int
    notes: tuple[str, ...]
    sizes: tuple[str, ...]


def run_grid(
    trials: Trials,
    baseline: Scenario,
    grid: Grid,
    growth: tuple[float, ...],
    *,
    workspace: Workspace,
    reread: Callable[[int], Workspace],
    progress: Progress,
    jobs: int,
    engine: Engine,
) -> GridFound:
    """Replay every combination; what is done when Ctrl-C comes is kept.

    Args:
        trials: The log.
        baseline: What is changed.
        grid: The values to try.
        growth: Times the sessions of the log, beside the log itself.
        workspace: Where the log is.
        reread: See ``with_keys``.
        progress: Told how far it is.
        jobs: Threads of DuckDB.
        engine: What tries the cells.

    Raises:
        UsageError: A combination is refused before any replay, there are too many, or nothing at all can be replayed.
    """
    sample = trials.prepared.sample
    if sample is not None and (growth or grid.block_size or grid.salt or grid.layout):
        raise UsageError(
            "a sample is drawn by the keys and the traffic of the log, which this grid changes",
            hint="leave out --sample, or --growth, --block-sizes, --salt and --layout",
        )
    progress.phase("replay the baseline")
    first = trials.run(baseline)
    hit_tokens, written_tokens = (first.by_arrival(f"{name}_tokens") for name in ("hit", "written"))
    doubted = doubts(trials.requests, hit_tokens, written_tokens)
    size = _block_size(first, grid)
    logged = {
        tally.plan.index: [replica.name for replica in tally.plan.fleet.replicas] for tally in first.pools
    }
    asked = grids.cells(baseline, grid, logged, size)
    names = _Names(grid, tuple(tally.plan.index for tally in first.pools), size)
    wanted = [] if grid == grids.Grid() else [(1.0, one) for one in asked]
    today = names.axes(grids.Asked(first.scenario))
    same = any(names.axes(one) == today for one in asked)
    begins = () if same else (grids.Asked(baseline),)
    wanted += [(factor, one) for factor in growth for one in (*begins, *asked)]
    if len(wanted) > grids.MOST_CELLS:
        raise UsageError(
            f"the grid has {len(wanted):,} cells, and each is a replay", hint=f"at most {grids.MOST_CELLS:,}"
        )
    names = replace(names, factor=1.0 if growth else None)
    run = _Run(trials, first, names, workspace, reread, progress, engine)
    begin = count(
        first,
        names.axes(grids.Asked(first.scenario)),
        trials.loads(first),
        sample_error_pp=trials.sample_error_pp(first),
    )
    run.all(wanted)
    found = [run.done[number] for number in sorted(run.done)]
    if found and all(isinstance(one, Cell) for one in found):
        # A grid in which nothing can be replayed is a mistake, not a result.
        axes, error = run.errors[min(run.errors)]
        raise UsageError(f"{axes}: {error.message}", hint=error.hint) from error
    progress.phase("name the causes")
    counted = [begin, *(one for one in found if not isinstance(one, Cell))]
    ready = iter(name_cells(counted, threads=jobs))
    cells = (next(ready), *(one if isinstance(one, Cell) else next(ready) for one in found))
    if sample is not None:
        doubted = (_of_sample(sample, cells), *doubted)
    sizes = tuple(run.sizes[number] for number in sorted(run.sizes))
    for sentence in sizes:
        progress.say(sentence)
    return GridFound(cells, 1 + len(wanted), doubted, sizes)


def _of_sample(sample: Sample, cells: Sequence[Cell]) -> str:
    """Say what was drawn, and how far off it may be."""
    most = max(float(cell.totals.get("sample_error_pp") or 0) for cell in cells)
    return (
        f"a sample of {100 * sample.share:.3g} % of {sample.lookups:,} requests, of {sample.units:,} subtrees below the "
        f"{sample.shared_blocks:,} blocks that more than {100 * SHARED_BY:g} % of them share and all go on to use, with so much less memory: counts are "
        f"those of the sample, and 95 of 100 samples have hit rates within {most:.2f} points or less of those of the whole log, "
        "where a smaller cache does as a large one"
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """How cells are called.

    Attributes:
        grid: The values to try.
        pools: Indexes of the pools that the log asks.
        block_size: Tokens per block of the log as it is.
        factor: Times the sessions of the log; None where growth is no axis.
    """

    grid: Grid
    pools: tuple[int, ...]
    block_size: int
    factor: float | None = None

    def axes(self, asked: Asked) -> dict[str, str | int | None]:
        """Return the value of every axis in a cell; those of keys and growth where some cell changes them."""
        named: dict[str, str | int | None] = {} if self.factor is None else {"growth": f"{self.factor:g}"}
        if self.grid.block_size:
            named["block_size"] = asked.keys.block_size or self.block_size
        if self.grid.salt:
            named["salt"] = asked.keys.salt
        if self.grid.layout:
            named["layout"] = asked.keys.layout
        if any(grids.share_of(capacity) is not None for capacity in self.grid.capacity):
            named["target"] = None if asked.share is None else f"{100 * asked.share:g}%"
        named |= grids.axes_of(asked.scenario, self.pools)
        return {**named, "capacity": None} if asked.open else named

    def grown(self, factor: float) -> _Names:
        """Return the names of cells on a log of so many times the sessions."""
        return self if self.factor is None else replace(self, factor=factor)

    def told(self, axes: dict[str, str | int | None]) -> str:
        """Name a cell by what the grid asks for."""
        return grids.told({name: value for name, value in axes.items() if getattr(self.grid, name, (value,))})


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is the same for all cells on one log.

    Attributes:
        names: How they are called.
        trials: The log as it is.
        first: The baseline on it.
        other: The log of these cells.
    """

    names: _Names
    trials: Trials
    first: Trial
    other: OtherKeys


@dataclass(frozen=True, slots=True)
class _Tried:
    """A cell.

    Attributes:
        cell: What it came to.
        size: The capacity that has the hit rate that was asked for, in every unit.
        error: How it is called, and why it could not be replayed.
    """

    cell: Counted | Cell
    size: str | None = None
    error: tuple[str, UsageError] | None = None


@dataclass(slots=True)
class _Run:
    """A grid while it is run; what is done is kept by the number of its cell."""

    trials: Trials
    first: Trial
    names: _Names
    workspace: Workspace
    reread: Callable[[int], Workspace]
    progress: Progress
    engine: Engine
    done: dict[int, Counted | Cell] = field(default_factory=dict)
    errors: dict[int, tuple[str, UsageError]] = field(default_factory=dict)
    sizes: dict[int, str] = field(default_factory=dict)

    def all(self, wanted: Sequence[tuple[float, Asked]]) -> None:
        """Replay all cells, those on one log together: a log under other keys, or a larger one, is there once."""
        groups: dict[tuple[Keys, float], list[tuple[int, Asked]]] = {}
        for number, (factor, one) in enumerate(wanted):
            keys = self._keys(one)
            groups.setdefault((keys, factor), []).append((number, one))
        logs: dict[Keys, OtherKeys] = {}
        try:
            for (keys, factor), cells in groups.items():
                if keys not in logs:
                    logs = {_AS_THEY_ARE: OtherKeys(self.trials)} if keys == _AS_THEY_ARE else {}
                try:
                    other = logs.get(keys) or self._indexed(keys)
                except UsageError as error:
                    for number, one in cells:
                        self._keep(number, _refused(self.names.grown(factor), one, error))
                    continue
                logs[keys] = other
                self._on(self._grown(other, factor), factor, cells)
        except KeyboardInterrupt:
            self.progress.say("interrupted: what is done is kept")

    def _keys(self, one: Asked) -> Keys:
        """Return the keys of a cell, so that keys as they are are called one thing."""
        return one.keys if one.keys.block_size != self.names.block_size else grids.as_logged(one.keys)

    def _indexed(self, keys: Keys) -> OtherKeys:
        told = [
            *([] if keys.block_size is None else [f"in blocks of {keys.block_size} tokens"]),
            *([] if keys.salt == grids.AS_LOGGED else [f"with salt {keys.salt}"]),
            *([] if keys.layout == grids.AS_LOGGED else [f"laid out {keys.layout}"]),
        ]
        self.progress.phase(f"index the log {', '.join(told)}")
        return with_keys(self.trials, self.first, self.workspace, keys, self.reread)

    def _grown(self, other: OtherKeys, factor: float) -> OtherKeys:
        if factor == 1:
            return other
        self.progress.phase(f"copy sessions to {factor:g} times the traffic")
        return OtherKeys(grown_trials(other.trials, factor, self.first.scenario.seed), other.notes)

    def _on(self, other: OtherKeys, factor: float, cells: Sequence[tuple[int, Asked]]) -> None:
        """Replay cells beside each other on one log."""
        self.progress.phase("replay the grid", len(cells), "cells")
        ground = _Ground(self.names.grown(factor), self.trials, self.first, other)
        for place, tried in self.engine.unordered(CELLS, _try_cell, [one for _, one in cells], ground):
            self._keep(cells[place][0], tried)
            self.progress.advance(1)

    def _keep(self, number: int, tried: _Tried) -> None:
        self.done[number] = tried.cell
        if tried.error is not None:
            self.errors[number] = tried.error
        if tried.size is not None:
            self.sizes[number] = tried.size


def _try_cell(ground: _Ground, one: Asked) -> _Tried:
    """Replay one cell, and draw the intervals of its change."""
    on, size = ground.other.trials, None
    try:
        if one.share is not None:
            one, size = _sized(ground, one)
        trial = on.run(one.scenario)
    except UsageError as error:
        return _refused(ground.names, one, error)
    intervals = ground.trials.compare(trial, ground.first, on)
    counted = count(trial, ground.names.axes(one), on.loads(trial), intervals, on.sample_error_pp(trial))
    return _Tried(counted.with_notes(ground.other.notes), size)


def _refused(names: _Names, one: Asked, error: UsageError) -> _Tried:
    axes = names.axes(one)
    return _Tried(refused(axes, error.message), error=(names.told(axes), error))


def _sized(ground: _Ground, one: Asked) -> tuple[Asked, str]:
    """Return a cell with the smallest capacity that hits as much as is asked for, and that in every unit."""
    assert one.share is not None
    plan, blocks = ground.other.trials.smallest_capacity(one.scenario, one.share)
    told = ground.names.told({**ground.names.axes(one), "target": None, "capacity": None})
    before = f"{told}: " if told else ""
    tokens = blocks * plan.block_size
    units = [f"{blocks:,} blocks", f"{tokens:,} tokens"]
    if plan.pool.model is not None:
        units.append(f"{float(bytes_per_token(plan.pool.model) * tokens) / (1 << 30):,.2f} GiB")
    today = ground.first.pools[0].plan
    if today.capacity_blocks is not None:
        times = tokens / (today.capacity_blocks * today.block_size)
        units.append(f"the memory of {times:.3g} of today's replicas")
    size = f"{before}{100 * one.share:g}% of the prompt tokens hit from {', '.join(units)} per replica on"
    return grids.with_capacity(one, f"{blocks} blocks"), size


def _block_size(first: Trial, grid: Grid) -> int:
    """Return the tokens per block of the pools of engines; of several the smallest, which may not be changed then."""
    sizes = sorted({tally.plan.block_size for tally in first.pools if not tally.plan.pool.hosted})
    if grid.block_size and len(sizes) > 1:
        raise UsageError(
            f"pools with blocks of {', '.join(map(str, sizes))} tokens cannot be cut into blocks of one size",
            hint="leave pools out by the match of a --scenario",
        )
    return int(np.min(sizes)) if sizes else 0
