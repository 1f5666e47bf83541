"""Reads what a replay left behind, and the requests it was made from, as Arrow tables for SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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

_REPLAY_FILES = {
    "lookup_facts": "lookup_facts",
    "facts": "facts",
    "changes": "changes",
    "events": "events",
    "replicas": "replicas",
    "warm_ups": "warmups",
    "ladder": "ladder",
}

_COLUMNS = (
    "request_id", "started_at", "admitted_at", "provider", "model", "release", "client", "tenant", "replica",
    "adapter", "service_tier", "inference_geo", "labels", "block_size", "prompt_tokens", "output_tokens", "cached_tokens_observed",
    "cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed", "cache_write_other_tokens_observed", "usage_state", "bypassed", "status", "keyed", "source", "source_node", "content_node",
    "source_file", "source_line",
)  # fmt: skip
"""What ``sql/`` reads of a request; a namespace alone is 150 characters long."""
_OF_TURNS = ("session_id", "finished_at")


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


def read_replay(workspace: Workspace, name: str) -> dict[str, pa.Table]:
    """Return every input of the attribution under the name that ``sql/`` calls it by.

    Args:
        workspace: Where everything is.
        name: Name of the scenario.

    Raises:
        UsageError: This scenario was never replayed.
        InputError: The index is older than what was ingested.
    """
    folder = workspace.replay(name)
    scenario = read_scenario(folder)
    tables = {table: pq.read_table(folder / f"{file}.parquet") for table, file in _REPLAY_FILES.items()}
    index = load(workspace, columns=[*_columns(scenario), *_OF_TURNS])
    requests = with_pools(index.requests, scenario)
    tables["turns"] = turns(requests, tables["lookup_facts"], scenario)
    tables["conversations"] = _openers(conversations(index), tables["turns"])
    tables["requests"] = requests.drop_columns(list(_OF_TURNS))
    tables["pools"] = _pools(scenario, tables["lookup_facts"])
    tables["block_keys"] = _block_keys(index.forest.key, tables["facts"], tables["lookup_facts"])
    return tables


def _openers(by_keys: NDArray[np.int64], turns: pa.Table) -> pa.Table:
    """Return which request began the conversation of each, told by keys where there are any, else by usage."""
    rows, numbers = np.flatnonzero(by_keys >= 0), by_keys[by_keys >= 0]
    alone = ~np.isin(turns["request_row"].to_numpy(), rows)
    rows = np.concatenate([rows, turns["request_row"].to_numpy()[alone]])
    numbers = np.concatenate([numbers, -1 - turns["thread"].to_numpy()[alone]])
    order = np.argsort(rows, kind="stable")
    _, first, of = np.unique(numbers[order], return_index=True, return_inverse=True)
    return pa.table({"request_row": rows[order], "opener_row": rows[order][first][of]})


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
    names = np.empty(len(requests), dtype=object)
    for number in np.unique(pool):
        mine = np.flatnonzero(pool == number)
        order, position = logged_names(requests["replica"].take(pa.array(mine)))
        names[mine] = np.asarray(order, dtype=object)[position]
    return (
        requests.append_column("request_row", pa.array(np.arange(len(requests))))
        .append_column("pool", pa.array(pool, pa.int32(), mask=pool < 0))
        .append_column("replica_name", pa.array(names, pa.string()))
    )


def _columns(scenario: Scenario) -> list[str]:
    matched = {field for pool in scenario.pool if pool.match is not None for field in pool.match.fields}
    return [*_COLUMNS, *sorted(matched - set(_COLUMNS))]


def _pools(scenario: Scenario, lookup_facts: pa.Table) -> pa.Table:
    sizes = lookup_facts.group_by("pool").aggregate([("block_size", "max")]).sort_by("pool").to_pylist()
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


def _block_keys(key: NDArray[np.uint64], facts: pa.Table, lookup_facts: pa.Table) -> pa.Table:
    """Return the keys of the blocks that end a segment: 50 thousand of 3.45 million in the agentic trace."""
    wanted = np.zeros(len(key), np.bool_)  # a mask: sorting the numbers takes 30 times as long
    for table in (facts, lookup_facts):
        wanted[table["last_block"].drop_null().to_numpy()] = True
    block = np.flatnonzero(wanted)
    words = pa.py_buffer(np.ascontiguousarray(key[block], dtype="<u8"))
    keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), block.size, [None, words])
    return pa.table({"block": block, "key": keys})
