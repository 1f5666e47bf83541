"""The account book of a workspace: every input it holds, and what each call brought."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from prefixledger import locking
from prefixledger.ingest.account import InputAccount
from prefixledger.ingest.write import remove_source
from prefixledger.workspace import WORKSPACE_VERSION, damaged, read_manifest, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from prefixledger.workspace import Workspace

_HISTORY: Final = (
    "path", "source", "format", "records", "kept", "rejected", "duplicates", "joined", "skipped", "seen_before",
)  # fmt: skip


class Manifest:
    """What ``manifest.json`` says."""

    def __init__(self, workspace: Workspace) -> None:
        """Read it; a workspace without one is empty.

        Raises:
            InputError: It is damaged, or of a later version.
        """
        self._path = workspace.manifest
        self.sources: dict[str, InputAccount] = {}
        self._heads: dict[str, str] = {}
        self._history: list[list[dict[str, Any]]] = []
        self._cut_off: list[dict[str, Any]] = []
        self._pruned: dict[str, Any] = {}
        if not self._path.is_file():
            return
        held = read_manifest(workspace)
        try:
            for entry in held["sources"]:
                self.sources[entry["source"]] = InputAccount.from_json(entry)
                self._heads[entry["source"]] = entry["head"]
            self._history = held["history"]
            self._pruned = held.get("pruned", {})
            if held.get("open"):
                self._cut_off = self._history.pop()
        except (KeyError, TypeError, IndexError) as error:
            raise damaged(workspace) from error

    def begin_call(self) -> None:
        """Open a new entry in the history."""
        self._history.append([])

    def was_cut_off_after(self, source: str, path: str) -> bool:
        """Return whether an input was read by the call before this one, which never came to its end."""
        return any(entry["source"] == source and entry["path"] == path for entry in self._cut_off)

    def has_head(self, digest: str) -> bool:
        """Return whether some input begins with bytes of this digest."""
        return digest in self._heads.values()

    def add(self, account: InputAccount, head: str) -> None:
        """Take in an input that is complete in the workspace."""
        self.sources[account.source] = account
        self._heads[account.source] = head
        self.note(account)

    def note(self, account: InputAccount) -> None:
        """Enter an account into the history of this call.

        A call that gives nothing which an earlier one did not give is no news and leaves no entry, so that a command
        that was cut off and given again leaves what it would have left at once.
        """
        entry = account.to_json()
        self._history[-1].append({name: entry[name] for name in _HISTORY})

    def forget(self, source: str) -> None:
        """Strike an input out, on disk too, before its files go: a run that is cut off then reads it again."""
        del self.sources[source]
        del self._heads[source]
        self._pruned.get("rows", {}).pop(source, None)
        self._write(ended=False)

    def save(self, *, ended: bool) -> None:
        """Write the book, if this call brought anything.

        A call that has not ended is marked: the one after it goes on with it, and leaves the book that one call would have
        left if it gives the same inputs.
        """
        if self._history[-1] or self._cut_off:
            self._write(ended=ended)

    def _write(self, *, ended: bool) -> None:
        *before, now = self._history
        left = [entry for entry in self._cut_off if not _given([entry]) <= _given(now)]
        if not ended:
            calls = [*before, [*left, *now]]
        else:
            calls = [*before, self._cut_off] if left else before
            calls = [*calls, now] if _given(now) - _most_given(calls) else calls
        content: dict[str, Any] = {
            "schema_version": WORKSPACE_VERSION,
            "sources": [{**a.to_json(), "head": self._heads[name]} for name, a in self.sources.items()],
            "history": calls,
        }
        if not ended:
            content["open"] = True
        if self._pruned:
            content["pruned"] = self._pruned
        write_json(self._path, content)


def _most_given(calls: Iterable[Iterable[Mapping[str, Any]]]) -> Counter[tuple[str, str]]:
    """Return how often the call that gave it most often gave each input."""
    most: Counter[tuple[str, str]] = Counter()
    for call in calls:
        most |= _given(call)
    return most


def _given(call: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((entry["source"], entry["path"]) for entry in call)


@contextmanager
def locked(workspace: Workspace) -> Iterator[Path]:
    """Hold the workspace for one writer; yield a folder for what is put aside meanwhile, deleted afterwards.

    Raises:
        UsageError: Another process holds it.
    """
    with locking.locked(workspace):
        aside = workspace.root / ".aside"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def remove_orphans(workspace: Workspace, manifest: Manifest) -> None:
    """Delete what an interrupted call left of inputs that never got into the book."""
    on_disk = {path.stem for path in workspace.requests.glob("date=*/*.parquet")}
    folders = (
        workspace.paths, workspace.rejects, workspace.parts, workspace.texts, workspace.contents, workspace.pieces,
        workspace.kv_events, workspace.series,
    )  # fmt: skip
    on_disk |= {path.stem for folder in folders for path in folder.glob("*.parquet")}
    for source in sorted(on_disk - manifest.sources.keys()):
        remove_source(workspace, source)
    for path in workspace.seen.glob("*/*.parquet"):
        if path.stem not in manifest.sources:
            path.unlink()
