"""Reads what a replay left behind, and the requests it was made from, as Arrow tables for SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.attribute.parts import Whole
from prefixledger.attribute.session import Session
from prefixledger.attribute.turns import turns
from prefixledger.config.scenario import load_scenario
from prefixledger.errors import UsageError
from prefixledger.index.conversations import conversations
from prefixledger.index.load import load
from prefixledger.replay.fleet import logged_names
from prefixledger.replay.lookups import Rows
from prefixledger.replay.pools import assign_pools

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.workspace import Workspace

_SMALL_FILES = {"events": "events", "replicas": "replicas", "warm_ups": "warmups"}
"""What every part of a replay is given whole, and its file."""
_COLUMNS = (
    "request_id", "started_at", "admitted_at", "provider", "model", "release", "client", "tenant", "replica",
    "adapter", "service_tier", "inference_geo", "labels", "block_size", "prompt_tokens", "output_tokens", "cached_tokens_observed",
    "cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed", "cache_write_other_tokens_observed", "usage_state", "bypassed", "status", "keyed", "source", "source_node", "content_node",
    "source_file", "source_line",
)  # fmt: skip
"""What ``sql/`` reads of a request; a namespace alone is 150 characters long."""
_OF_TURNS = ("session_id", "finished_at")
_OF_BOOKS = (
    "request_id", "started_at", "admitted_at", "prompt_tokens", "output_tokens", "cached_tokens_observed",
    "cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed", "cache_write_other_tokens_observed", "usage_state",
    "bypassed", "status", "source", "source_file", "source_line",
)  # fmt: skip
"""What causes and books say of a request; the pool and the replica are added to it."""
_TO_PLACE = ("keyed", "replica", "provider", "model", "client", "tenant", *_OF_TURNS)
"""What it takes to find pools, replicas and conversations."""
_CHANGED = "20_causes/changed"


def read_scenario(folder: Path) -> Scenario:
    """Return the scenario that a replay was made with.

    Raises:
        UsageError: There is no replay in this folder.
    """
    path = folder / "scenario.toml"
    if not path.is_file():
        raise UsageError(
            f"there is no replay {folder.name!r} in this workspace", hint="run prefixledger replay first"
        )
    return load_scenario(path)


def read_whole(workspace: Workspace, name: str) -> Whole:
    """Return what the parts of a replay are cut from.

    Args:
        workspace: Where everything is.
        name: Name of the scenario.

    Raises:
        UsageError: This scenario was never replayed.
        InputError: The index is older than what was ingested.
    """
    folder = workspace.replay(name)
    scenario = read_scenario(folder)
    lookups = pq.read_table(
        folder / "lookup_facts.parquet", columns=["request_row", "admitted_at", "pool", "block_size"]
    ).combine_chunks()
    wanted = dict.fromkeys((*_OF_BOOKS, *_TO_PLACE, *matched_fields(scenario)))
    index = load(workspace, columns=wanted)
    requests = with_pools(index.requests, scenario)
    by_usage = turns(requests, lookups, scenario)
    requests = requests.select([*_OF_BOOKS, "request_row", "pool", "replica_name"])
    of_facts = pq.read_table(folder / "facts.parquet", columns=["lookup"])["lookup"].to_numpy()
    return Whole(
        folder=folder,
        requests=requests,
        lookups=lookups,
        pieces=np.bincount(of_facts, minlength=len(lookups)),
        changed=_changed(folder, lookups, requests),
        turns=by_usage,
        opener_row=_openers(conversations(index), by_usage),
        key=index.forest.key,
        small={"pools": _pools(scenario, lookups)}
        | {table: pq.read_table(folder / f"{file}.parquet") for table, file in _SMALL_FILES.items()},
    )


def _changed(folder: Path, lookups: pa.Table, requests: pa.Table) -> pa.Table:
    """Say what varies from prompt to prompt, which takes the changes of all of them."""
    facts = lookups.select(["request_row"]).append_column("lookup", pa.array(np.arange(len(lookups))))
    with Session(1) as session:
        session.bind({"changes": pq.read_table(folder / "changes.parquet")})
        session.bind({"lookup_facts": facts, "requests": requests.select(["request_row", "started_at"])})
        session.run([_CHANGED])
        return session.table("changed")


def _openers(by_keys: NDArray[np.int64], turns: pa.Table) -> NDArray[np.int64]:
    """Return the row that began the conversation of each, told by keys where there are any, else by usage; -1 for none."""
    number = by_keys.copy()
    rows, thread = turns["request_row"].to_numpy(), turns["thread"].to_numpy()
    alone = by_keys[rows] < 0
    number[rows[alone]] = 1 + by_keys.max(initial=-1) + thread[alone]
    opener = np.full(number.size, -1)
    told = np.flatnonzero(number >= 0)
    _, first, of = np.unique(number[told], return_index=True, return_inverse=True)
    opener[told] = told[first][of]
    return opener


def read_requests(workspace: Workspace, scenario: Scenario) -> pa.Table:
    """Return all kept rows in order of arrival; see ``with_pools``."""
    return with_pools(load(workspace, columns=_columns(scenario), keys=False).requests, scenario)


def with_pools(requests: pa.Table, scenario: Scenario) -> pa.Table:
    """Add ``request_row``, ``pool`` (null where none matches) and ``replica_name`` to the requests of an index.

    The replica of a row that names none is ``(all)``, or ``(unknown)`` beside rows of its pool that name one.
    """
    is_lookup = pc.and_(requests["keyed"], pc.not_equal(requests["status"], "failed")).to_numpy()
    started_us = requests["started_at"].cast(pa.int64()).to_numpy()
    rows = Rows(table=requests, started_us=started_us, is_lookup=is_lookup)
    pool = assign_pools(rows, scenario) if len(requests) else np.empty(0, np.int64)
    name = np.zeros(len(requests), np.int32)
    names: list[str] = []
    for number in np.unique(pool):
        mine = np.flatnonzero(pool == number)
        order, position = logged_names(requests["replica"].take(pa.array(mine)))
        name[mine] = len(names) + position
        names += order
    return (
        requests.append_column("request_row", pa.array(np.arange(len(requests))))
        .append_column("pool", pa.array(pool, pa.int32(), mask=pool < 0))
        .append_column("replica_name", pa.array(names, pa.string()).take(pa.array(name)))
    )


def _columns(scenario: Scenario) -> list[str]:
    return [*_COLUMNS, *sorted(matched_fields(scenario) - set(_COLUMNS))]


def matched_fields(scenario: Scenario) -> set[str]:
    """Return the columns that the pools of a scenario are matched by."""
    return {field for pool in scenario.pool if pool.match is not None for field in pool.match.fields}


def _pools(scenario: Scenario, lookups: pa.Table) -> pa.Table:
    sizes = lookups.group_by("pool").aggregate([("block_size", "max")]).sort_by("pool").to_pylist()
    rows = [(row["pool"], scenario.pool[row["pool"]], row["block_size_max"]) for row in sizes]
    return pa.table(
        {
            "pool": pa.array([number for number, _, _ in rows], pa.int32()),
            # What expires above is kept below: it is missed where the tier had to give it up.
            "ttl_us": pa.array(
                [None if pool.tier is not None else pool.cache.ttl_us for _, pool, _ in rows], pa.int64()
            ),
            "capacity_blocks": pa.array([pool.capacity_blocks(size) for _, pool, size in rows], pa.int64()),
        }
    )
