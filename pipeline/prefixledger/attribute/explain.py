"""Finds one request by its id and tells its life in one replay, through the statements of ``sql/80_explain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.attribute.explained import Explanation, Limits, segment, told
from prefixledger.attribute.find import STEPS as FIND_STEPS
from prefixledger.attribute.find import find_request
from prefixledger.attribute.inputs import read_scenario
from prefixledger.attribute.session import Session
from prefixledger.errors import InputError, UsageError
from prefixledger.index.load import load
from prefixledger.replay.fingerprint import fingerprint
from prefixledger.resources import read_text
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.config.scenario import Scenario
    from prefixledger.workspace import Workspace

_AGAIN = "run prefixledger replay again"
_TELL = ("80_explain/life", "80_explain/spans")
STEPS = (*FIND_STEPS, *_TELL)

_COLUMNS = (
    "request_id", "started_at", "model", "release", "tenant", "session_id", "block_size", "prompt_tokens", "status",
    "adapter", "source_file", "source_line",
)  # fmt: skip


def statements() -> tuple[str, ...]:
    """Return the statements that find a request and tell its life, in the order in which they run, each under its name."""
    return tuple(f"-- {step}.sql\n{read_text('sql', f'{step}.sql')}" for step in STEPS)


def explain(
    workspace: Workspace, request_id: str, *, scenario: str | None = None, show_ids: bool = False
) -> Explanation:
    """Tell the life of one request.

    Args:
        workspace: Holds at least one replay.
        request_id: Id as logged, its beginning or short form, or ``source_file:source_line``.
        scenario: Name of the replay; None is the one that was asked for last.
        show_ids: Whether ids are told whole.

    Raises:
        UsageError: There is no such replay, or the id names no request or several.
        InputError: The replay is older than what was ingested, or another version made it or the workspace.
    """
    name = choose_replay(workspace, scenario)
    folder = workspace.replay(name)
    requests = load(workspace, columns=list(_COLUMNS), keys=False).requests
    requests = requests.append_column("request_row", pa.array(range(len(requests)), pa.int64()))
    with Session() as session:
        session.bind({"requests": requests})
        row = find_request(session, request_id, show_ids=show_ids)
        mine = [("request_row", "=", row)]
        session.bind(
            {
                "lookups": pq.read_table(folder / "lookups.parquet", filters=mine),
                "segments": pq.read_table(folder / "segments.parquet", filters=mine),
                "events": pq.read_table(folder / "events.parquet"),
            }
        )
        session.run(_TELL, {"row": row})
        (life,) = session.table("life").to_pylist()
        spans = session.table("spans").to_pylist()
    limits = _limits(read_scenario(folder), life)
    return told(
        name, life, tuple(segment(each, limits, show_ids=show_ids) for each in spans), show_ids=show_ids
    )


def choose_replay(workspace: Workspace, asked: str | None) -> str:
    """Return the name of a replay that this version made from what the workspace holds now.

    Args:
        workspace: Where it is.
        asked: Its name; None is the one that was asked for last.

    Raises:
        UsageError: There is no workspace, or no such replay.
        InputError: It is older than what was ingested, or another version made it.
    """
    name = last_replay(workspace, asked)
    kept = json.loads((workspace.replay(name) / "fingerprint.json").read_text(encoding="utf-8"))
    made_from, now = kept["made_from"], fingerprint(workspace, "")
    if made_from["workspace"] != now["workspace"]:
        raise InputError(
            f"the replay {name!r} was made from other requests than {workspace.name} holds now", hint=_AGAIN
        )
    if any(made_from.get(part) != now[part] for part in ("code", "version")):
        raise InputError(
            f"other code made the replay {name!r}, of version {made_from.get('version')}, and this is {now['version']}",
            hint=_AGAIN,
        )
    if not all((workspace.replay(name) / file).is_file() for file in kept["files"]):
        raise InputError(f"the replay {name!r} lacks some of its files", hint=_AGAIN)
    return name


def last_replay(workspace: Workspace, asked: str | None = None) -> str:
    """Return the name of a replay, whatever it was made from; see ``choose_replay``."""
    read_manifest(workspace)
    # The books are written whenever a replay is asked for, also where it is used again.
    books = [
        (path.stat().st_mtime_ns, path.parent.name) for path in workspace.replay("").glob("*/lookups.parquet")
    ]
    names = [name for _, name in sorted(books)]
    if not names:
        raise UsageError(f"there is no replay in {workspace.name}", hint="run prefixledger replay first")
    if asked is not None and asked not in names:
        known = ", ".join(sorted(names))
        raise UsageError(f"there is no replay {asked!r} in {workspace.name}", hint=f"replays: {known}")
    return asked or names[-1]


def _limits(scenario: Scenario, life: Mapping[str, Any]) -> Limits:
    if life["pool"] is None or not life["block_size"]:
        return Limits(None, None)
    pool = scenario.pool[life["pool"]]
    ttl_us = pool.cache.ttl_us
    return Limits(None if ttl_us is None else ttl_us / 1e6, pool.capacity_blocks(life["block_size"]))
