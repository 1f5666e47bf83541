"""The replay stage: from an indexed workspace and a scenario to the files of one replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger import schema_contents
from prefixledger.config.scenario import default_scenario, dump
from prefixledger.index import load
from prefixledger.index.conversations import conversations
from prefixledger.replay import tables
from prefixledger.replay.chains import build_chains
from prefixledger.replay.changes import find_changes, with_changes
from prefixledger.replay.contents import needed, read_contents
from prefixledger.replay.curve_tables import curve_files
from prefixledger.replay.engine_events import tell_events
from prefixledger.replay.engine_facts import logs_weights, read_engine_facts
from prefixledger.replay.facts import pool_evidence, pool_warm_ups
from prefixledger.replay.fingerprint import fingerprint
from prefixledger.replay.held import held_table
from prefixledger.replay.keyless import keyless
from prefixledger.replay.ladder import climb, ideal_hits
from prefixledger.replay.logged_capacity import settle_capacity
from prefixledger.replay.lookups import COLUMNS, Log, number_sources, read_lookups, read_rows
from prefixledger.replay.named_events import name_events
from prefixledger.replay.notes import run_notes
from prefixledger.replay.numbering import number_all
from prefixledger.replay.observed_engines import observe
from prefixledger.replay.pages import in_pages
from prefixledger.replay.plan import make_plan
from prefixledger.replay.pool_run import run_pool
from prefixledger.replay.pools import replayed_rows
from prefixledger.replay.seeds import drawn_again
from prefixledger.replay.shared_nodes import shared_nodes
from prefixledger.replay.short_sharing import short_notes
from prefixledger.replay.store import check_name, keep, reuse
from prefixledger.replay.summary import summarize
from prefixledger.replay.suspects import checked_notes
from prefixledger.replay.touches import find_touches
from prefixledger.replay.warmup import covered_since
from prefixledger.workspace import pruned_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.replay.named_events import NamedEvent
    from prefixledger.replay.numbering import Numbering
    from prefixledger.replay.pool_run import PoolRun
    from prefixledger.replay.summary import ReplaySummary
    from prefixledger.replay.warmup import WarmUp
    from prefixledger.workspace import Workspace


def run(
    workspace: Workspace,
    scenario: Scenario | None = None,
    *,
    name: str | None = None,
    events: Sequence[Event] = (),
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    engine: Engine | None = None,
) -> ReplaySummary:
    """Replay an indexed workspace under a scenario and keep what was found in ``replays/<name>/``.

    A replay that is there already and was made from the same requests, scenario and code is used as it is.

    Args:
        workspace: Where requests and index are.
        scenario: Its pools, fleets and events; None is the default: everything as logged, unlimited, under vLLM.
        name: Name of the replay, else that of the scenario.
        events: More events, from a file beside the log; they may name replicas that the log lacks.
        force: Whether to replay again even if nothing changed.
        progress: Called with a few words whenever a step begins.
        engine: What may replay the replicas of a pool apart; None: this process replays all of them.

    Returns:
        What was found, in a few numbers.

    Raises:
        UsageError: The scenario does not fit the log, or the log cannot be looked up at all.
        InputError: The workspace holds nothing to replay.
    """
    tell = progress or _say_nothing
    scenario = scenario or default_scenario()
    if name is not None:
        scenario = scenario.model_copy(update={"name": check_name(name)})
    scenario.check_events(tuple(events))
    facts = read_engine_facts(workspace)
    folder = workspace.replay(scenario.name)
    tell("compare with the replay that is there")
    made_of = made_from(workspace, scenario, events)
    if not force and (found := reuse(folder, made_of)) is not None:
        return found
    tell("load the index")
    log = read_log(workspace, scenario)
    paged = in_pages(log, scenario)
    scenario, notes = settle_capacity(scenario, paged.log, facts)
    told = tell_events(scenario, log, facts)
    named = name_events(scenario, (*events, *told.events))
    files, found = replay_log(paged.log, scenario, named, tell, engine)
    files = paged.as_logged(files)
    engines = observe(workspace, scenario, log, files)
    files |= engines.files
    found = found.stored(folder, made_of["digest"]).with_notes(
        (*pruned_notes(workspace), *notes, *told.notes, *engines.notes)
    )
    tell("write")
    keep(folder, made_of, _dumped(scenario, named), files, found)
    return found


def made_from(workspace: Workspace, scenario: Scenario, events: Sequence[Event] = ()) -> dict[str, str]:
    """Return what a replay is made from; see ``fingerprint``."""
    named = name_events(scenario, events)
    facts = read_engine_facts(workspace)
    besides = [*(event.event_id for event in named if event.from_file), *map(str, facts)]
    return fingerprint(workspace, _dumped(scenario, named), besides)


def _dumped(scenario: Scenario, named: Sequence[NamedEvent]) -> str:
    """Return the scenario as TOML, with the events of everywhere."""
    return dump(scenario.model_copy(update={"event": tuple(each.event for each in named)}))


def _say_nothing(_step: str) -> None:
    pass


def read_log(
    workspace: Workspace, scenario: Scenario, columns: Iterable[str] = (), *, keys: bool = True
) -> Log:
    """Read the requests and the forest of an indexed workspace.

    Args:
        workspace: Where they are.
        scenario: For the columns that its pools are matched by.
        columns: Columns of requests beside those that every replay reads.
        keys: Whether the keys of blocks are needed; without them the forest has none.

    Raises:
        UsageError: The log cannot be looked up at all.
        InputError: The index is older than what was ingested.
        InputError: The workspace holds nothing to replay.
    """
    matched = {field for pool in scenario.pool if pool.match is not None for field in pool.match.fields}
    matched |= set(columns)
    if logs_weights(workspace):
        matched = {*matched, "labels"}
    index = load(workspace, columns=needed([*COLUMNS, *sorted(matched)], workspace), keys=keys)
    rows = replayed_rows(read_rows(index.requests), scenario)
    lookups = read_lookups(rows)
    contents = read_contents(workspace, rows, lookups)
    return Log(rows, lookups, index.forest, workspace.parts, conversations(index), contents)


def replay_log(
    log: Log,
    scenario: Scenario,
    named: Sequence[NamedEvent],
    tell: Callable[[str], None] = _say_nothing,
    engine: Engine | None = None,
) -> tuple[dict[str, pa.Table], ReplaySummary]:
    """Replay a log in memory.

    Args:
        log: All rows, lookups and blocks.
        scenario: Pools, fleets and seed.
        named: All events, those of the scenario included, in order of time.
        tell: Called with a few words whenever a step begins.
        engine: See ``run``.

    Returns:
        The tables of the replay by file name, and its summary, which is kept nowhere yet.

    Raises:
        UsageError: The scenario does not fit the log.
    """
    if not len(log.lookups):
        return keyless(scenario.name, log)
    tell("place lookups")
    plan = make_plan(log, scenario, named)
    chains = build_chains(log.forest.parent)
    tell("replay")
    runs = [run_pool(pool, log, chains, engine=engine) for pool in plan.pools]
    numbering = number_all(runs)
    tell("draw again")
    drawn = drawn_again(log, scenario, runs, chains)
    tell("climb the ladder")
    rungs = [climb(run) for run in runs]
    ideal = ideal_hits(runs, log.lookups, chains)
    tell("collect evidence")
    touches = [find_touches(run.log, resets) for run, resets in zip(runs, numbering.resets, strict=True)]
    evidence = [pool_evidence(run, touched) for run, touched in zip(runs, touches, strict=True)]
    of_lookups, facts = tables.lookup_facts(runs, numbering, log), tables.facts(runs, evidence, numbering)
    if log.contents is not None:
        tell("look for changed keys")
        changes = find_changes(log.contents, facts, of_lookups, _arrival(runs, numbering))
        facts = with_changes(facts, changes, log.forest.parent)
    shared = shared_nodes(log.forest.parent, _in_order(runs, numbering))
    files = {
        "lookup_facts.parquet": of_lookups,
        "facts.parquet": facts,
        "changes.parquet": schema_contents.CHANGES.arrow().empty_table()
        if log.contents is None
        else changes.table,
        "removals.parquet": tables.removals(runs, numbering, chains, touches),
        "events.parquet": tables.events(runs, numbering),
        "replicas.parquet": tables.replicas(runs),
        "held.parquet": held_table(runs, log.lookups),
        "draws.parquet": tables.draws(drawn, runs, numbering),
        "warmups.parquet": tables.warmups(_warm_ups(log, runs)),
        "ladder.parquet": tables.ladder(runs, rungs, ideal, numbering),
        "shared.parquet": tables.shared(shared, log),
        "lookup_shared.parquet": tables.lookup_shared(shared),
        **curve_files(runs, touches, log.forest.key),
    }
    if (survival := tables.survival(runs)) is not None:
        files["survival.parquet"] = survival
    checked = () if log.contents is None else checked_notes(log.contents)
    short = () if log.contents is None else short_notes(log.contents, log.lookups.block_size, ideal)
    notes = (*plan.notes, *run_notes(runs), *checked, *short)
    return files, summarize(scenario.name, log, runs, rungs, ideal, notes, drawn)


def _arrival(runs: Sequence[PoolRun], numbering: Numbering) -> NDArray[np.int64]:
    return np.concatenate([run.lookup for run in runs])[numbering.order]


def _in_order(runs: Sequence[PoolRun], numbering: Numbering) -> NDArray[np.int64]:
    return np.concatenate([run.last_block for run in runs])[numbering.order]


def _warm_ups(log: Log, runs: Sequence[PoolRun]) -> Iterator[WarmUp]:
    started_us = log.rows.started_us
    since_us = covered_since(number_sources(log.rows), started_us)[log.lookups.request_row]
    for run in runs:
        yield from pool_warm_ups(run, since_us, int(started_us[-1] - started_us[0]))
