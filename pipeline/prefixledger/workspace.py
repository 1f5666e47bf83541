"""Where each stage keeps its files, and how a file is written so that a crash leaves no half of it."""

from __future__ import annotations

import glob
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefixledger.errors import InputError, Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa


DEFAULT_WORKSPACE = ".prefixledger"
"""Where the stages keep their files unless told otherwise."""
WORKSPACE_VERSION = 4
"""Of what ingest leaves, in ``manifest.json``; index and replays are made again whenever they do not fit it."""
RUN = "run.json"
"""Clock, machine and arguments of the last command; nothing else has them."""
_GROUP_ROWS = 1 << 20
"""Rows of a group in a Parquet file: no more than these are copied at a time on the way to it."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder with the results of all stages.

    Attributes:
        root: The folder; it need not exist yet.
        url: Where it is published on object storage, if the folder is a copy of that.
    """

    root: Path
    url: str | None = None

    @property
    def name(self) -> str | Path:
        """What its user calls it: its URL, else its folder."""
        return self.url or self.root

    @property
    def manifest(self) -> Path:
        """Account of every input ever read."""
        return self.root / "manifest.json"

    @property
    def requests(self) -> Path:
        """``date=YYYY-MM-DD/<source>.parquet``."""
        return self.root / "requests"

    @property
    def paths(self) -> Path:
        """``<source>.parquet``: the forest of one source."""
        return self.root / "paths"

    @property
    def rejects(self) -> Path:
        """``<source>.parquet``."""
        return self.root / "rejects"

    @property
    def parts(self) -> Path:
        """``<source>.parquet``: what prompts given as text are made of."""
        return self.root / "parts"

    @property
    def texts(self) -> Path:
        """``<source>.parquet``: the texts of parts, where they are kept."""
        return self.root / "texts"

    @property
    def contents(self) -> Path:
        """``<source>.parquet``: the forest of the pieces that prompts are made of."""
        return self.root / "contents"

    @property
    def pieces(self) -> Path:
        """``<source>.parquet``: what is known of pieces of text."""
        return self.root / "pieces"

    @property
    def kv_events(self) -> Path:
        """``<source>.parquet``: blocks that engines said they stored and removed."""
        return self.root / "kv_events"

    @property
    def series(self) -> Path:
        """``<source>.parquet``: counters of engines over time."""
        return self.root / "series"

    @property
    def seen(self) -> Path:
        """``ids/<source>.parquet`` and ``lines/<source>.parquet``: what later inputs must not bring again."""
        return self.root / "seen"

    @property
    def blocks(self) -> Path:
        """``<source>.parquet``: blocks first indexed with that source."""
        return self.root / "blocks"

    @property
    def last_blocks(self) -> Path:
        """``<source>.parquet``: last block of each request of the source."""
        return self.root / "last_blocks"

    @property
    def index(self) -> Path:
        """Which sources are indexed, from what, and which block numbers each brought."""
        return self.root / "index.json"

    def replay(self, name: str) -> Path:
        """Folder of one replayed scenario."""
        return self.root / "replays" / name


def read_manifest(workspace: Workspace) -> dict[str, Any]:
    """Return what ingest says of a workspace; every verb that reads one asks here, so all of them refuse it alike.

    Raises:
        UsageError: There is no workspace.
        InputError: Another version filled it, or it is damaged.
    """
    path = workspace.manifest
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        _check_version(manifest, path)
        _ = [entry["source"] for entry in manifest["sources"]]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{workspace.name} is not a workspace",
            hint="make one: prefixledger ingest SOURCE --workspace DIR",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(workspace) from error
    return dict(manifest)


def pruned_before_us(manifest: Mapping[str, Any]) -> int | None:
    """Return the moment before which requests were cut off; None where none were."""
    at_us = manifest.get("pruned", {}).get("before_us")
    return None if at_us is None else int(at_us)


def pruned_notes(workspace: Workspace) -> tuple[str, ...]:
    """Say what sums over a whole log hold of what was cut off."""
    told = read_manifest(workspace).get("pruned", {})
    if not told.get("kept_before"):
        return ()
    kept = f"{told['kept_before']:,} of the requests that were pruned are kept, as they decide what caches held then"
    return (f"{kept}: sums over the whole log count them, reports do not",)


def damaged(workspace: Workspace) -> InputError:
    """Return what a manifest that says too little ends with."""
    return InputError(
        "the workspace is damaged",
        place=Place(str(workspace.manifest)),
        hint="ingest the logs into a new workspace",
    )


def _check_version(manifest: Mapping[str, Any], path: Path) -> None:
    """Refuse a workspace that another version filled: its logs are read again rather than its rows guessed at."""
    version = manifest["schema_version"]
    if version != WORKSPACE_VERSION:
        raise InputError(
            f"this workspace is of version {version}, and this prefixledger reads version {WORKSPACE_VERSION}",
            place=Place(str(path)),
            hint="ingest the logs into a new workspace, or use the prefixledger that made it",
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name; on success sync it and rename it to ``path``, else delete it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as done:
            os.fsync(done.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(workspace: Workspace) -> None:
    """Delete what killed processes left half written; only for who holds the workspace, as these may be in use."""
    left = [*workspace.root.rglob(".*.part"), *workspace.root.glob("replays/.*.old")]
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sweep_beside(path: Path) -> None:
    """Delete what killed processes left half written of one file that lies outside of workspaces."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        owner = left.name.removesuffix(".part").rpartition(".")[2]
        if owner.isdigit() and not _runs(int(owner)):
            left.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # somebody else's, or no number of a process: not ours to judge
    return True


def write_json(path: Path, value: Any) -> None:
    """Write sorted, indented JSON; refuses NaN and infinities."""
    with replacing(path) as temporary:
        text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def packing(schema: pa.Schema, encodings: Mapping[str, str]) -> dict[str, Any]:
    """Return how a Parquet writer packs a table: columns that hardly repeat without a dictionary, which costs more than it saves.

    Args:
        schema: Its columns, lists not among them.
        encodings: Name of the encoding of each such column; all others have a dictionary.
    """
    import pyarrow as pa  # noqa: PLC0415  # 0.3 s that --help must not pay

    repeated: list[str] = []
    for field in schema:
        if pa.types.is_map(field.type):
            repeated += (f"{field.name}.key_value.key", f"{field.name}.key_value.value")
        elif field.name not in encodings:
            repeated.append(field.name)
    return {"compression": "zstd", "use_dictionary": repeated, "column_encoding": dict(encodings)}


def write_table(path: Path, table: pa.Table, encodings: Mapping[str, str] | None = None) -> None:
    """Write one Parquet file whose bytes depend on the rows alone; see ``writing_table``."""
    with writing_table(path, table.schema, encodings) as write:
        write(table)


@contextmanager
def writing_table(
    path: Path, schema: pa.Schema, encodings: Mapping[str, str] | None = None
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield what takes the rows of one Parquet file piece by piece; the file is there once all of them are.

    Its bytes depend on the rows alone, not on the pieces: the writer may end a page, and give up a dictionary that grows
    beyond 1 MiB, only where a chunk of a table ends, and DuckDB cuts chunks by its number of threads. So each group of
    rows is made one chunk first.

    Args:
        path: The file.
        schema: Its columns.
        encodings: See ``packing``.
    """
    import pyarrow as pa  # noqa: PLC0415  # 0.3 s that --help must not pay
    import pyarrow.parquet as pq  # noqa: PLC0415

    waiting = [schema.empty_table()]

    def take(table: pa.Table) -> None:
        waiting.append(table)
        while sum(map(len, waiting)) > _GROUP_ROWS:
            put()

    def put() -> None:
        rows = pa.concat_tables(waiting)
        writer.write_table(rows.slice(0, _GROUP_ROWS).combine_chunks(), row_group_size=_GROUP_ROWS)
        waiting[:] = [rows.slice(_GROUP_ROWS)]

    packed = {"compression": "zstd"} if encodings is None else packing(schema, encodings)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, **packed) as writer:
        yield take
        put()  # the last group, if only one without rows
