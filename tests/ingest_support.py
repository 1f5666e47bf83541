"""Helpers for the tests of the ingest stage: small logs, and a workspace read back as plain Python."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from prefixledger.ingest import IngestOptions, NoRequestError, TooManyRejectsError, run
from prefixledger.workspace import Workspace
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from prefixledger.ingest import IngestSummary

FIXTURES = ROOT / "sample_traces" / "formats"


@dataclass(frozen=True, slots=True)
class Result:
    """A workspace after a call of ingest.

    Attributes:
        summary: The account.
        root: Folder of the workspace.
        too_many: True where the call raised for too many rejects, after writing.
    """

    summary: IngestSummary
    root: Path
    too_many: bool = False

    @property
    def account(self) -> Any:
        """The account of the only input."""
        (account,) = self.summary.inputs
        return account

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Rows in order of file and line."""
        return sorted(
            _rows(self.root.glob("requests/date=*/*.parquet")),
            key=lambda r: (r["source_file"], r["source_line"]),
        )

    @property
    def rejects(self) -> list[dict[str, Any]]:
        """Rejects in order of file and record."""
        return sorted(
            _rows(self.root.glob("rejects/*.parquet")), key=lambda r: (r["source_file"], r["record"])
        )

    @property
    def manifest(self) -> Any:
        """The manifest."""
        return json.loads((self.root / "manifest.json").read_text())

    def labels(self, request: dict[str, Any]) -> list[tuple[int, int]]:
        """Return the labels (high, low) of a request's full blocks, first block first."""
        table = pq.ParquetFile(self.root / "paths" / f"{request['source']}.parquet").read().to_pylist()
        path, node = [], request["source_node"]
        while node is not None and node >= 0:
            path.append((table[node]["label_hi"], table[node]["label_lo"]))
            assert table[node]["parent"] < node
            node = table[node]["parent"]
        return path[::-1]

    def ids(self, request: dict[str, Any]) -> list[int]:
        """Return the block ids of a request's full blocks."""
        labels = self.labels(request)
        assert all(high == 0 for high, _ in labels)
        return [low for _, low in labels]


def ingest(root: Path, *sources: object, **options: Any) -> Result:
    """Run the stage; rejects above the limit and logs without a request do not raise here, everything else does."""
    try:
        summary = run([str(source) for source in sources], Workspace(root), IngestOptions(**options))
    except TooManyRejectsError as error:
        return Result(error.summary, root, too_many=True)
    except NoRequestError as error:
        return Result(error.summary, root)
    return Result(summary, root)


def write_lines(path: Path, rows: Iterable[object]) -> Path:
    """Write one line a row: bytes and text as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_line(row) + b"\n" for row in rows))
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows under a header, values that are no scalars as JSON."""
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in row.items()})
    return path


def plain_rows(result: Result) -> list[dict[str, Any]]:
    """Return rows without what names their input, or depends on its container."""
    drop = {"source", "source_file", "source_line", "source_node", "content_node", "labels"}
    return [{k: v for k, v in row.items() if k not in drop} for row in result.requests]


def mooncake(at_ms: float, ids: Sequence[int], tokens: int | None = None, **more: Any) -> dict[str, Any]:
    """Return one Mooncake record with blocks of 16 tokens; all blocks are full unless ``tokens`` says otherwise."""
    length = 16 * len(ids) if tokens is None else tokens
    return {"timestamp": at_ms, "input_length": length, "output_length": 5, "hash_ids": list(ids), **more}


def tree(root: Path) -> dict[str, bytes]:
    """Return every file below a folder that another program may read."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def closes(summary: IngestSummary) -> bool:
    """Return whether every account of a call closes."""
    return all(a.records == a.kept + a.rejected + a.duplicates + a.joined + a.skipped for a in summary.inputs)


def _rows(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [row for path in sorted(paths) for row in pq.ParquetFile(path).read().to_pylist()]


def _line(row: object) -> bytes:
    if isinstance(row, bytes):
        return row
    return row.encode() if isinstance(row, str) else json.dumps(row, separators=(",", ":")).encode()
