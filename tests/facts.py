"""Builds a small workspace with one replay in it, row by row, for tests of what is made from facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger import schema, schema_contents, schema_curves, schema_engines
from prefixledger.index.load import Forest, Index
from prefixledger.workspace import WORKSPACE_VERSION, Workspace, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

NAME = "as-is"
SOURCE = "00000000000000aa"
_NOTHING: dict[str, Any] = {
    "labels": [],
    "namespace": "n",
    "usage_state": "absent",
    "weight": 1.0,
    "prompt_complete": True,
    "bypassed": False,
    "status": "ok",
    "keyed": True,
    "source": SOURCE,
    "source_file": "log.jsonl",
}


def at(seconds: float) -> datetime:
    """Return a time so many seconds after 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def key(block: int) -> bytes:
    """Return the key of a block: any 16 bytes of its own."""
    return hashlib.blake2b(str(block).encode(), digest_size=16).digest()


@dataclass
class Facts:
    """A replay in the making; requests are numbered in the order in which they are added.

    Attributes:
        replicas: Names.
        block_size: Tokens per block.
        scenario: Text of the scenario file.
    """

    replicas: tuple[str, ...] = ("r0",)
    block_size: int = 10
    scenario: str = f'name = "{NAME}"\n'
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> int:
        """Add one row to a file of the replay (or to ``requests``) and return its number."""
        rows = self.tables.setdefault(table, [])
        rows.append(row)
        return len(rows) - 1

    def request(self, seconds: float, prompt_tokens: int, **columns: Any) -> int:
        """Add a request that asks no cache unless ``lookup`` is called for it."""
        number = len(self.tables.get("requests", ()))
        return self.add(
            "requests",
            **{
                **_NOTHING,
                "request_id": f"q{number}",
                "started_at": at(seconds),
                "prompt_tokens": prompt_tokens,
                "source_line": number + 1,
                "block_size": self.block_size,
                "n_blocks": prompt_tokens // self.block_size,
                **columns,
            },
        )

    def lookup(
        self, seconds: float, prompt_tokens: int, *, replica: int = 0, refused: bool = False, **columns: Any
    ) -> int:
        """Add a request and its lookup, all cold until ``piece`` says otherwise; return the number of the lookup."""
        row = self.request(seconds, prompt_tokens, **columns)
        number = len(self.tables.get("lookup_facts", ()))
        full = prompt_tokens // self.block_size
        self.add(
            "lookup_facts",
            lookup=number,
            request_row=row,
            admitted_at=at(seconds),
            queued_at=at(seconds),
            pool=0,
            replica=replica,
            block_size=self.block_size,
            prompt_tokens=prompt_tokens,
            full_blocks=full,
            cap_blocks=max(0, (prompt_tokens - 1) // self.block_size),
            hit_blocks=0,
            hit_host_blocks=0,
            recompute_tokens=0,
            refused=refused,
            last_block=100 * number + full - 1 if full else None,
        )
        return number

    def piece(
        self, lookup: int, first_block: int, n_blocks: int, *, hit: bool = False, **columns: Any
    ) -> None:
        """Add one row of facts."""
        self.add(
            "facts",
            lookup=lookup,
            first_block=first_block,
            n_blocks=n_blocks,
            last_block=100 * lookup + first_block + n_blocks - 1,
            hit=hit,
            **columns,
        )
        if hit:
            self.tables["lookup_facts"][lookup]["hit_blocks"] += n_blocks

    def write(self, root: Path) -> Workspace:
        """Write everything; facts and ladder that were not given are filled in: all cold, nothing shared."""
        workspace = Workspace(root)
        lookups = self.tables.setdefault("lookup_facts", [])
        given = {row["lookup"] for row in self.tables.setdefault("facts", [])}
        for row in lookups:
            if row["lookup"] not in given and row["cap_blocks"] and not row["refused"]:
                self.piece(row["lookup"], 0, row["cap_blocks"])
        shared = {row["lookup"] for row in self.tables.setdefault("lookup_shared", [])}
        for row in lookups:
            if row["lookup"] not in shared and row["full_blocks"]:
                self.add("lookup_shared", lookup=row["lookup"], first_block=0, n_blocks=row["full_blocks"])
        if "ladder" not in self.tables:
            rungs = ("pooled", "per_replica", "resets", "ttl", "capacity", "ideal_blocks")
            self.tables["ladder"] = [
                {"lookup": row["lookup"], **dict.fromkeys(rungs, row["hit_blocks"])} for row in lookups
            ]
        if "replicas" not in self.tables:
            self.tables["replicas"] = [
                {"replica": n, "name": name, "pool": 0, "live_from": at(0)}
                for n, name in enumerate(self.replicas)
            ]
        folder = workspace.replay(NAME)
        for table in (
            schema.LOOKUP_FACTS,
            schema.SEGMENT_FACTS,
            schema_contents.CHANGES,
            schema.EVENTS,
            schema.REPLICAS,
            schema_curves.HELD,
            schema.REMOVALS,
            schema.WARMUPS,
            schema_curves.LADDER,
            schema_curves.DRAWS,
            schema.SHARED,
            schema.LOOKUP_SHARED,
            schema_engines.KV_CHANGES,
            schema_engines.KV_LOOKUPS,
            schema_engines.COUNTERS,
        ):
            write_table(folder / f"{table.name}.parquet", self._arrow(table))
        (folder / "scenario.toml").write_text(self.scenario, encoding="utf-8")
        self._manifest(workspace)
        return workspace

    def _arrow(self, table: schema.Table) -> pa.Table:
        return pa.Table.from_pylist(self.tables.get(table.name, []), schema=table.arrow())

    def load(self, _workspace: Workspace, *, columns: list[str], keys: bool = True) -> Index:
        """Stand in for ``index.load``: these requests, and blocks whose keys are those of ``key``."""
        ends = [row["last_block"] for name in ("facts", "lookup_facts") for row in self.tables.get(name, [])]
        n = 1 + max((end for end in ends if end is not None), default=-1)
        words = np.frombuffer(b"".join(key(block) for block in range(n if keys else 0)), "<u8").reshape(-1, 2)
        none = np.full(n, -1)
        forest = Forest(none, words, none.astype(np.int32), none, ("n",))
        requests = self._arrow(schema.REQUESTS)
        order = [(name, "ascending") for name in ("started_at", "source_file", "source_line")]
        assert requests.equals(requests.sort_by(order)), "add requests in order of arrival"
        return Index(
            forest, requests.select(columns).append_column("last_block", pa.nulls(len(requests), pa.int64()))
        )

    def _manifest(self, workspace: Workspace) -> None:
        times = [
            (row["started_at"] - at(0)) // timedelta(microseconds=1)
            for row in self.tables.get("requests", [])
        ]
        source = {
            "source": SOURCE,
            "clock": "absolute",
            "first_at_us": min(times, default=None),
            "last_at_us": max(times, default=None),
        }
        write_json(
            workspace.manifest, {"schema_version": WORKSPACE_VERSION, "sources": [source], "history": []}
        )
