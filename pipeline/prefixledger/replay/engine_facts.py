"""What engines said of themselves in the logs of a workspace, and which replica each of them was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger.replay.fleet import logged_names
from prefixledger.replay.pools import assign_pools
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.config.scenario import Scenario
    from prefixledger.replay.lookups import Log
    from prefixledger.workspace import Workspace

_RANK = re.compile(r"dp(\d+)$", re.IGNORECASE)
_SUFFIXES = frozenset({".log", ".txt", ".out", ".err", ".jsonl", ".json", ".prom", ".metrics", ".gz", ".zst"})


@dataclass(frozen=True, slots=True)
class EngineFact:
    """One line in which an engine spoke of itself.

    Attributes:
        source: Digest that names the input.
        path: Its label.
        line: 1-based line.
        at_us: When, microseconds since 1970; None where the line has no time.
        said: ``kind`` and what belongs to it, see ``ingest.engine_lines``.
    """

    source: str
    path: str
    line: int
    at_us: int | None
    said: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """``capacity``, ``start`` or ``block_size``."""
        return str(self.said["kind"])

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.path}:{self.line}"

    @property
    def rank(self) -> str | None:
        """Data-parallel rank of the process that wrote it, where it says so."""
        match = _RANK.search(str(self.said.get("process", "")))
        return None if match is None else match[1]


@dataclass(frozen=True, slots=True)
class LoggedReplica:
    """A replica as the log names it.

    Attributes:
        pool: Index of its pool.
        name: Its name.
        rows: int64[k], its rows.
    """

    pool: int
    name: str
    rows: NDArray[np.int64]


def read_engine_facts(workspace: Workspace) -> tuple[EngineFact, ...]:
    """Return what the manifest holds of engines, in order of inputs and lines."""
    if not workspace.manifest.is_file():
        return ()
    manifest = read_manifest(workspace)
    return tuple(
        EngineFact(entry["source"], entry["path"], fact["line"], fact.get("at_us"), fact)
        for entry in manifest.get("sources", ())
        for fact in entry.get("facts", ())
        if "kind" in fact and "line" in fact
    )


def source_paths(workspace: Workspace) -> dict[str, str]:
    """Return the label of each input, by its digest."""
    if not workspace.manifest.is_file():
        return {}
    manifest = read_manifest(workspace)
    return {entry["source"]: str(entry.get("path", "")) for entry in manifest.get("sources", ())}


def logs_weights(workspace: Workspace) -> bool:
    """Tell whether some input is of an engine that says which weights answered (SGLang)."""
    if not workspace.manifest.is_file():
        return False
    manifest = read_manifest(workspace)
    return any(str(entry.get("format", "")).startswith("sglang") for entry in manifest.get("sources", ()))


def logged_replicas(log: Log, scenario: Scenario) -> list[LoggedReplica]:
    """Return the replicas that the rows of each pool name, in order of pool and name."""
    assigned = assign_pools(log.rows, scenario)
    found = []
    for pool in np.unique(assigned[assigned >= 0]).tolist():
        rows = np.flatnonzero(assigned == pool)
        names, position = logged_names(log.rows.table["replica"].take(pa.array(rows)))
        found += [LoggedReplica(pool, name, rows[position == at]) for at, name in enumerate(names)]
    return found


def speaker(fact: EngineFact, replicas: Sequence[LoggedReplica]) -> LoggedReplica | None:
    """Return the one replica that wrote a line, by the name of its file and its rank; None where that is not certain."""
    found = [replica for replica in replicas if _speaks(fact, replica.name)]
    return found[0] if len(found) == 1 else None


def _speaks(fact: EngineFact, name: str) -> bool:
    """Tell whether a file and rank are those of a replica, which may be called ``host``, ``host/dp1`` or ``dp1``."""
    host, _, rank = name.rpartition("/") if _RANK.search(name.rpartition("/")[2]) else (name, "", "")
    own_rank = _RANK.search(rank)
    if own_rank is not None and fact.rank != own_rank[1]:
        return False
    return any(_names(part, host) for part in _parts(fact.path)) if host else own_rank is not None


def _parts(path: str) -> Iterable[str]:
    *folders, last = PurePosixPath(path).parts or ("",)
    while PurePosixPath(last).suffix in _SUFFIXES:
        last = PurePosixPath(last).stem
    return (*folders, last)


def _names(part: str, host: str) -> bool:
    """Tell whether a part of a path is a name, or holds it as a word of its own."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", part) is not None
