"""The verb ``prune``: cuts off what is old, and keeps of it what decides what caches hold."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefixledger.errors import UsageError
from prefixledger.progress import SILENT
from prefixledger.running import running
from prefixledger.workspace import DEFAULT_WORKSPACE, read_manifest, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from prefixledger.index.kept import KeptRows
    from prefixledger.progress import Progress
    from prefixledger.workspace import Workspace


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was cut off.

    Attributes:
        workspace: Where.
        before: The moment, ISO 8601 in UTC.
        removed: Requests that went.
        kept_before: Requests before the moment that stay.
        kept: Requests from the moment on.
        replays: Names of the replays that went: they were made from other requests.
        done: False where it was only tried.
    """

    workspace: str
    before: str
    removed: int
    kept_before: int
    kept: int
    replays: tuple[str, ...]
    done: bool


def prune(
    workspace: str | Path = DEFAULT_WORKSPACE,
    *,
    before: str,
    warm_up: str = "1d",
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> PruneResult:
    """Cut off the requests before a moment, but for those that decide what caches hold at it.

    Those are the last request to use each block that others use, too, on each replica, and all of the warm-up before the
    moment. A replay begins with them, so its hits from the moment on are what they were, where caches turn over or expire
    within the warm-up; a larger cache lacks only what a single request had earlier. Reports begin at the moment. Reports that were written stay as they are, and so does the
    account of every input: a log that was read is not read again. A run that is cut off is finished by giving it again.

    Args:
        workspace: Folder of the stages' files.
        before: The moment, ISO 8601, UTC unless it says.
        warm_up: How long before the moment every request stays: as long as the slowest cache takes to turn over.
        dry_run: Only say what would go.
        progress: See ``ingest``.

    Returns:
        What went, and what stays.

    Raises:
        UsageError: There is no workspace, the moment is none, or nothing would be left.
        InputError: Another version filled the workspace, or it is damaged.
    """
    from prefixledger import index
    from prefixledger.config.units import parse_duration_us, parse_time_us
    from prefixledger.index.kept import kept_rows
    from prefixledger.mirror import workspace_at
    from prefixledger.report.numbers import iso

    before_us = parse_time_us(before)
    warm_up_us = parse_duration_us(warm_up)
    if warm_up_us is None:
        raise UsageError(f"{warm_up!r} is no length of time", hint='write "1d", "6h" …')
    place = workspace_at(workspace)
    manifest = read_manifest(place)
    with running(place, "prune", force=False):
        progress.phase("index")
        index.update(place)
        progress.phase("find what caches still hold")
        rows = kept_rows(place, before_us, warm_up_us)
        if not rows.later:
            raise UsageError(
                f"no request starts at {iso(before_us)} or later, so nothing would be left to report on",
                hint="give an earlier --before, or delete the workspace",
            )
        replays = sorted(path.parent for path in place.replay("").glob("*/fingerprint.json"))
        if not dry_run:
            progress.phase("cut off")
            _write_manifest(place, manifest, rows, before_us)
            _cut_requests(place, rows)
            _cut_parts(place)
            for folder in replays:
                shutil.rmtree(folder)
            index.update(place)
    return PruneResult(
        str(place.name), iso(before_us), rows.removed, rows.kept - rows.later, rows.later,
        tuple(folder.name for folder in replays), not dry_run,
    )  # fmt: skip


def _write_manifest(
    workspace: Workspace, manifest: Mapping[str, Any], rows: KeptRows, before_us: int
) -> None:
    """Say it before anything goes: from now on no report begins earlier, and the account of each input still closes."""
    lines = rows.lines
    gone = {
        entry["source"]: entry["kept"] - len(lines[entry["source"]])
        if entry["source"] in lines
        else entry["kept"]
        for entry in manifest["sources"]
    }
    told = manifest.get("pruned", {"before_us": before_us})
    pruned = {
        "before_us": max(before_us, told["before_us"]),
        "rows": {source: count for source, count in gone.items() if count},
        "kept_before": rows.kept - rows.later,
    }
    write_json(workspace.manifest, {**manifest, "pruned": pruned})


def _cut_requests(workspace: Workspace, rows: KeptRows) -> None:
    """Write every file of requests without those that go; each is whole before or after, and doing it again changes nothing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(workspace.requests.glob("date=*/*.parquet")):
        table = pq.ParquetFile(path).read()
        stays = _among(table["source_line"].to_numpy(), rows.lines.get(path.stem))
        if stays.all():
            continue
        if stays.any():
            write_table(path, table.filter(pa.array(stays)))
            continue
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def _cut_parts(workspace: Workspace) -> None:
    """Remove what is known of the prompts that went, and the texts that no prompt has any more."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    lines: dict[str, list[NDArray[np.int64]]] = {}
    for path in sorted(workspace.requests.glob("date=*/*.parquet")):
        lines.setdefault(path.stem, []).append(
            pq.ParquetFile(path).read(["source_line"])["source_line"].to_numpy()
        )
    hashes = [pa.array([], pa.binary(16))]
    for path in sorted(workspace.parts.glob("*.parquet")):
        table = pq.ParquetFile(path).read()
        stays = _among(table["source_line"].to_numpy(), _joined(lines.get(path.stem, [])))
        left = table.filter(pa.array(stays))
        hashes.append(pc.unique(left["raw_hash"]))
        if not stays.all():
            write_table(path, left)
    known = pa.concat_arrays(hashes)
    for path in sorted(workspace.texts.glob("*.parquet")):
        table = pq.ParquetFile(path).read()
        left = table.filter(pc.is_in(table["raw_hash"], value_set=known))
        if left.num_rows < table.num_rows:
            write_table(path, left)


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64] | None:
    import numpy as np

    return np.concatenate(pieces) if pieces else None


def _among(values: NDArray[np.int64], wanted: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    import numpy as np

    return np.zeros(values.size, np.bool_) if wanted is None else np.isin(values, wanted)
