"""The log of a grid under other keys: blocks of another size, other salts, prompts laid out anew."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.attribute.askers import COLUMNS
from prefixledger.attribute.laid_out import LATE, lay_out_trials
from prefixledger.attribute.trial import Trials
from prefixledger.config.grid_values import AS_LOGGED
from prefixledger.errors import UsageError
from prefixledger.index import rekeyed
from prefixledger.replay.isolated import isolated
from prefixledger.replay.layout import varying
from prefixledger.replay.pages import in_pages_of
from prefixledger.replay.pools import assign_pools
from prefixledger.replay.prepared import prepared
from prefixledger.replay.stage import read_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.attribute.trial import Trial
    from prefixledger.config.grid import Keys
    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.lookups import Log
    from prefixledger.workspace import Workspace

UNTOLD = "what was served before under another key counts as new here"


@dataclass(frozen=True, slots=True)
class OtherKeys:
    """A log under other keys.

    Attributes:
        trials: On which scenarios are tried.
        notes: What the reader of its cells must know.
    """

    trials: Trials
    notes: tuple[str, ...] = ()


def with_keys(
    trials: Trials,
    baseline: Trial,
    workspace: Workspace,
    keys: Keys,
    reread: Callable[[int], Workspace],
) -> OtherKeys:
    """Index the log of a grid under other keys.

    Args:
        trials: The log as it is.
        baseline: Its replay.
        workspace: Where it is.
        keys: What its keys are made of.
        reread: Reads the logs again into blocks of a size; raises UsageError where that cannot be done.

    Raises:
        UsageError: The log does not say enough for such keys.
    """
    scenario, old = baseline.scenario, trials.prepared
    blocks = _blocks(trials, baseline, workspace, keys, reread)
    log, notes = _cut(blocks.log, scenario, blocks.page), []
    if keys.layout != AS_LOGGED:
        log = _late(Trials(prepared(log, old.facts, old.events), trials.noise), scenario, keys.salt)
        notes.append(UNTOLD)
    elif keys.salt == "off":
        log = _cut(_one_salt(blocks.log, blocks.place), scenario, blocks.page)
    if keys.salt == "on":
        log = isolated(log, _tenants(log))
        notes.append(UNTOLD)
    if notes:
        log = replace(log, contents=None)
    made = Trials(prepared(log, old.facts, old.events), trials.noise)
    return OtherKeys(made, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A log that is yet to be cut into pages, their size, None for the blocks as they are, and where it was read from."""

    log: Log
    page: int | None
    place: Workspace


def _blocks(
    trials: Trials, baseline: Trial, workspace: Workspace, keys: Keys, reread: Callable[[int], Workspace]
) -> _Blocks:
    scenario, log = baseline.scenario, trials.prepared.log
    paged = next((pool.cache.page_size for pool in scenario.pool if pool.cache.page_size is not None), None)
    wanted = paged if keys.block_size is None else keys.block_size
    if paged is not None:
        log = read_log(workspace, scenario, COLUMNS)
    if wanted is None:
        return _Blocks(log, None, workspace)
    engines = [pool.plan.mine for pool in baseline.pools if not pool.plan.pool.hosted]
    sizes = np.unique(log.lookups.block_size[np.concatenate(engines)]).tolist()
    if len(sizes) == 1 and wanted % sizes[0] == 0:
        return _Blocks(log, wanted, workspace)
    place = reread(wanted)
    return _Blocks(read_log(place, scenario, COLUMNS), None, place)


def _cut(log: Log, scenario: Scenario, page: int | None) -> Log:
    """Return a log whose engines see it in pages; a provider's blocks are not ours to size and stay beside them."""
    if page is None:
        return log
    hosted = [number for number, pool in enumerate(scenario.pool) if pool.hosted]
    theirs = np.isin(assign_pools(log.rows, scenario)[log.lookups.request_row], hosted)
    times = page // int(log.lookups.block_size[~theirs][0])
    if times == 1:
        return log
    paged = in_pages_of(log, times)
    if not theirs.any():
        return paged
    old, new, known, cut = log.forest, paged.forest, log.lookups, paged.lookups
    begin = old.parent.size
    moved = np.where(cut.last_block >= 0, cut.last_block + begin, -1)
    return replace(
        log,
        forest=replace(
            old,
            parent=np.concatenate([old.parent, np.where(new.parent >= 0, new.parent + begin, -1)]),
            key=np.concatenate([old.key, new.key]),
            namespace=np.concatenate([old.namespace, new.namespace]),
            first_seen_us=np.concatenate([old.first_seen_us, new.first_seen_us]),
        ),
        lookups=replace(
            known,
            block_size=np.where(theirs, known.block_size, cut.block_size),
            n_blocks=np.where(theirs, known.n_blocks, cut.n_blocks),
            last_block=np.where(theirs, known.last_block, moved),
        ),
    )


def without_salt(name: str) -> str:
    """Return the name of a namespace with no salt in it."""
    return json.dumps({**json.loads(name), "cache_salt": None}, sort_keys=True)


def _one_salt(log: Log, workspace: Workspace) -> Log:
    told = [json.loads(name) for name in log.forest.namespaces]
    salted = [one for one in told if one.get("cache_salt") is not None]
    if not salted:
        raise UsageError("no prompt of the log has a salt, so there is none to turn off")
    forest, last = rekeyed(workspace, without_salt)
    hashed = any(str(one.get("scope")).startswith("ids:") for one in salted)
    if hashed and forest.parent.size == log.forest.parent.size:
        raise UsageError(
            "the log has only hashes of blocks, and none of one salt occurs under another: the salt may be in them, and "
            "without it they would be others",
            hint="log token ids or text",
        )
    return replace(log, forest=forest, lookups=replace(log.lookups, last_block=last[log.lookups.request_row]))


def _tenants(log: Log) -> NDArray[np.int64]:
    tenant = log.rows.table["tenant"].take(pa.array(log.lookups.request_row)).combine_chunks()
    if not pc.any(pc.is_valid(tenant)).as_py():
        raise UsageError(
            "the log names no tenant, and salt on means one salt for each", hint="map tenant to a column"
        )
    codes = pc.fill_null(tenant.dictionary_encode().indices, -1)
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64) + 1


def _late(trials: Trials, scenario: Scenario, salt: str) -> Log:
    """Return the log with what varies at the end of its prompts, once its contents are seen to give the hits of its keys."""
    contents = trials.prepared.log.contents
    if contents is None or not (contents.kind >= 0).any():
        raise UsageError(
            f"prompts with {LATE} could not be tried: the log does not say what its prompts are made of",
            hint="log text or messages",
        )
    late = varying(contents)
    if not late.any():
        raise UsageError(f"prompts with {LATE} could not be tried: nothing at their heads varies")
    namespace = contents.namespace
    if salt == "off":
        names = [without_salt(name) for name in contents.namespaces]
        namespace = np.asarray([names.index(name) for name in names], np.int64)[namespace]
    laid = lay_out_trials(trials, late, namespace, LATE)
    before, control = (
        each.run(scenario, causes=False).by_arrival("hit_tokens") for each in (trials, laid.as_it_is)
    )
    laid.check(before, control)
    return laid.changed.prepared.log
