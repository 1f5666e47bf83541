"""Looks an installation and a workspace over: is everything there, and does everything fit together?"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from prefixledger.errors import InputError, InternalError, PrefixledgerError, UsageError
from prefixledger.locking import holder
from prefixledger.mirror import workspace_at
from prefixledger.resources import Kind, resource_dir
from prefixledger.schema import CAUSES
from prefixledger.workspace import DEFAULT_WORKSPACE, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.workspace import Workspace

State = Literal["ok", "note", "wrong"]

_MANIFEST = "manifest"
_OF_WORKSPACE = (_MANIFEST, "index", "source ", "replay ")
"""How the subjects of checks begin that are about files of the workspace."""
_EXTRAS = {
    "tokenizers": "reads tokenizer.json for --tokenizer",
    "tiktoken": "knows OpenAI's encodings for --tokenizer",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        subject: What.
        state: ``ok``, ``note`` (works, but worth knowing) or ``wrong``.
        found: What is there.
        hint: What to do; empty where nothing is to be done.
    """

    subject: str
    state: State
    found: str
    hint: str = ""


def doctor(*, workspace: str | Path = DEFAULT_WORKSPACE) -> tuple[Check, ...]:
    """Look the installation over, and a workspace if there is one; nothing is written.

    Args:
        workspace: Folder of the stages' files.

    Returns:
        What was looked at, in order; a check that is ``wrong`` needs a repair before results can be trusted.
    """
    return (*_installation(), *_workspace(workspace_at(workspace)))


def _installation() -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Check("cores", "ok", str(len(os.sched_getaffinity(0))))
    yield from _libraries()
    for name, use in _EXTRAS.items():
        there = find_spec(name) is not None
        yield Check(
            name, "ok" if there else "note", metadata.version(name) if there else f"not installed; it {use}",
            "" if there else f"pip install 'prefixledger[{name}]'",
        )  # fmt: skip
    for kind in get_args(Kind):
        yield _resource(kind)
    yield _kernels()


def _libraries() -> Iterator[Check]:
    there: list[str] = []
    for requirement in metadata.requires("prefixledger") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if "extra ==" in requirement:
            continue
        try:
            there.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Check(name, "wrong", f"not installed; {requirement} is needed", "pip install prefixledger")
    yield Check("libraries", "ok", ", ".join(there))


def _resource(kind: Kind) -> Check:
    try:
        return Check(kind, "ok", f"{sum(1 for _ in resource_dir(kind).iterdir())} entries")
    except InternalError as error:
        return Check(kind, "wrong", error.message, error.hint or "")


def _kernels() -> Check:
    """Say where compiled kernels are kept: without a place for them each run compiles anew, for some 20 s."""
    from prefixledger.kernels.trie_kernel import walk_rows

    place = walk_rows.stats.cache_path
    if place and os.access(_nearest(Path(place)), os.W_OK):
        return Check("kernels", "ok", "compiled once and kept")
    return Check(
        "kernels", "note", "compiled anew in each run, for some 20 s: their place cannot be written",
        "set NUMBA_CACHE_DIR to a folder that can be written",
    )  # fmt: skip


def _nearest(place: Path) -> Path:
    return next(folder for folder in (place, *place.parents) if folder.exists())


def _workspace(workspace: Workspace) -> Iterator[Check]:
    if not workspace.manifest.is_file():
        there = workspace.root.is_dir() and any(workspace.root.iterdir())
        found = "a folder without a manifest" if there else "none yet"
        yield Check(
            f"workspace {workspace.root}", "note", found, "prefixledger ingest LOG…, or name one with --workspace"
        )  # fmt: skip
        return
    writer = holder(workspace)
    yield Check("lock", "note" if writer else "ok", f"process {writer} is writing" if writer else "free")
    left = sorted(workspace.root.rglob(".*.part"))
    if left:
        yield Check(
            "leftovers", "note", f"{len(left)} files of runs that were killed, such as {left[0].name}",
            "nothing reads them; they may be deleted while nothing runs",
        )  # fmt: skip
    try:
        manifest = read_manifest(workspace)
    except InputError as error:
        yield Check(_MANIFEST, "wrong", error.message, error.hint or "")
        return
    gone = manifest.get("pruned", {}).get("rows", {})
    yield from _sources(workspace, manifest["sources"], gone)
    yield _index(workspace)
    for folder in sorted(path.parent for path in workspace.root.glob("replays/*/fingerprint.json")):
        yield _replay(folder)


def _sources(
    workspace: Workspace, sources: list[dict[str, int | str]], pruned: dict[str, int]
) -> Iterator[Check]:
    """Hold the rows that are there, and those that were cut off, to the account in the manifest."""
    import pyarrow.parquet as pq

    for source in sources:
        files = sorted(workspace.requests.glob(f"*/{source['source']}.parquet"))
        name = f"source {source['path']}"
        try:
            rows = sum(pq.read_metadata(path).num_rows for path in files)
            rows += pruned.get(str(source["source"]), 0)
        except (OSError, ValueError) as error:
            yield Check(name, "wrong", f"a table cannot be read: {error}", "ingest it again with --force")
            continue
        parts = sum(int(source[key]) for key in ("kept", "rejected", "duplicates", "joined", "skipped"))
        if rows != source["kept"] or parts != source["records"]:
            found = f"{source['records']} records, accounted for {parts}; {source['kept']} kept, {rows} rows"
            yield Check(name, "wrong", found, "ingest it again with --force")
        else:
            yield Check(name, "ok", f"{source['records']:,} records accounted for, {rows:,} rows")


def _index(workspace: Workspace) -> Check:
    from prefixledger.index.sources import read_indexed, read_sources, still_valid

    try:
        sources, indexed = read_sources(workspace), read_indexed(workspace)
    except PrefixledgerError as error:
        return Check("index", "wrong", error.message, error.hint or "")
    if not still_valid(sources, indexed):
        return Check("index", "note", "older than the logs", "made again by the next replay")
    behind = len(sources) - len(indexed)
    blocks = sum(entry.blocks for entry in indexed)
    state: State = "note" if behind else "ok"
    return Check(
        "index", state, f"{blocks:,} distinct blocks of {len(indexed)} sources",
        f"{behind} sources are added by the next replay" if behind else "",
    )  # fmt: skip


def _replay(folder: Path) -> Check:
    """Add the books of a replay up once more."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    name = f"replay {folder.name}"
    books = folder / "lookups.parquet"
    if not books.is_file():
        return Check(name, "note", "no causes named yet", "prefixledger replay names them")
    columns = ["prompt_tokens", "hit_tokens", *(f"miss_{cause}_tokens" for cause in CAUSES)]
    try:
        table = pq.read_table(books, columns=columns)
    except (OSError, ValueError) as error:
        return Check(
            name, "wrong", f"its books cannot be read: {error}", f"delete {folder.name} and replay again"
        )
    asked, hits, *misses = (int(pc.sum(table[column]).as_py() or 0) for column in columns)
    if asked != hits + sum(misses):
        found = f"{asked:,} tokens asked, {hits + sum(misses):,} accounted for"
        return Check(name, "wrong", found, f"delete {folder.name} and replay again")
    return Check(name, "ok", f"{table.num_rows:,} lookups, {asked:,} prompt tokens, the books close")


def broken(checks: tuple[Check, ...]) -> UsageError | InputError | None:
    """Return what a command line ends with: that of what is installed, else that of the workspace, else None."""
    wrong = [check for check in checks if check.state == "wrong"]
    if not wrong:
        return None
    installed = any(not check.subject.startswith(_OF_WORKSPACE) for check in wrong)
    return (UsageError if installed else InputError)(
        f"{len(wrong)} of {len(checks)} checks failed: {', '.join(check.subject for check in wrong)}",
        hint=wrong[0].hint,
    )
