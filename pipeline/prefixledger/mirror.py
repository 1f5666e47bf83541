"""A workspace on object storage: worked on in a local copy, published so that others see a whole state or the one before.

Every file is put under a name that holds its digest, and the listing that names them all is put last: until then readers see
the listing before, whose objects are all still there. What no listing names any more is deleted afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prefixledger import objects
from prefixledger.errors import InputError, Place, UsageError
from prefixledger.locking import locked
from prefixledger.workspace import RUN, Workspace, replacing, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTING: Final = "published.json"
LISTING_VERSION: Final = 1
_STATE: Final = ".copy.json"
_TRIES: Final = 3
"""A listing can be replaced, and its objects deleted, while they are fetched; then the next one is fetched."""
_CHANGED: Final = "run the command again: it begins with what the other machine published"


@dataclass(frozen=True, slots=True)
class _Listing:
    """What is published.

    Attributes:
        version: Digest of the object that says so; None where nothing is published.
        put_ns: When it was put, by the clock of the store, nanoseconds since 1970.
        digests: Digest of each file, by its path in the workspace.
    """

    version: str | None
    put_ns: int
    digests: Mapping[str, str]


def workspace_at(place: str | Path) -> Workspace:
    """Return a workspace on this machine, or the local copy of one on object storage, as it is published now.

    Raises:
        InputError: The store cannot be asked, or what it holds is damaged.
        UsageError: Another process works on the copy.
    """
    if not objects.is_url(place):
        return Workspace(Path(place))
    url = str(place).rstrip("/")
    workspace = Workspace(_copies() / blake2b(url.encode(), digest_size=8).hexdigest(), url)
    with locked(workspace):
        _fetch(workspace)
    return workspace


def is_published(url: str) -> bool:
    """Return whether a URL leads to a workspace."""
    return objects.find(objects.joined(url, LISTING)) is not None


def publish(workspace: Workspace) -> None:
    """Make the state of a local copy what others see; of a workspace on this machine there is nothing to do.

    What an interrupted run has put already is not put again.

    Raises:
        InputError: The store does not take it.
        UsageError: Another machine published meanwhile.
    """
    if workspace.url is None:
        return
    url, known = workspace.url, _State.read(workspace)
    digests = {name: known.digest(workspace.root / name, name) for name in _files(workspace.root)}
    before = _listed(url)
    if before.version is not None and digests == before.digests:
        known.keep(workspace, before.version)
        return
    _check_ours(url, known, before)
    there = {one.url: one for one in objects.find_below(url)}
    for name, digest in digests.items():
        local, target = workspace.root / name, objects.joined(url, _object_name(name, digest))
        if target not in there or there[target].size != local.stat().st_size:
            objects.put(local, target)
    _check_ours(url, known, _listed(url))
    _put_listing(workspace, digests)
    now = _listed(url)
    known.keep(workspace, now.version)
    # Older than the listing before and named by neither: left by a run that was cut off, or replaced long ago.
    wanted = {objects.joined(url, _object_name(name, digest)) for name, digest in digests.items()}
    replaced = {objects.joined(url, _object_name(name, digest)) for name, digest in before.digests.items()}
    for one in there.values():
        stale = one.modified_ns < before.put_ns
        if (
            one.url not in wanted
            and one.url != objects.joined(url, LISTING)
            and (one.url in replaced or stale)
        ):
            objects.delete(one.url)


def _copies() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "prefixledger" / "workspaces"


def _files(root: Path) -> list[str]:
    """Return what a workspace consists of; hidden files, and the clock of the last run, are this machine's own."""
    found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    return [
        path.as_posix()
        for path in found
        if path.name != RUN and not any(part.startswith(".") for part in path.parts)
    ]


def _object_name(name: str, digest: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}.{digest[:16]}.{suffix}" if dot else f"{name}.{digest[:16]}"


def _listed(url: str) -> _Listing:
    place = objects.joined(url, LISTING)
    found = objects.find(place)
    if found is None:
        return _Listing(None, 0, {})
    try:
        with objects.open_to_read(place) as source:
            content = source.read()
        value = json.loads(content)
        if value["schema_version"] != LISTING_VERSION:
            raise InputError(
                f"this workspace was published in version {value['schema_version']}, and this prefixledger reads "
                f"version {LISTING_VERSION}",
                place=Place(place),
                hint="use the prefixledger that made it, or ingest the logs into a new workspace",
            )
        digests = {str(name): str(entry) for name, entry in value["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError("the listing of the workspace cannot be read", place=Place(place)) from error
    for name in digests:
        if name.startswith("/") or ".." in name.split("/"):
            raise InputError(f"the listing names {name!r}, outside of the workspace", place=Place(place))
    return _Listing(blake2b(content, digest_size=16).hexdigest(), found.modified_ns, digests)


def _put_listing(workspace: Workspace, digests: Mapping[str, str]) -> None:
    assert workspace.url is not None
    local = workspace.root / f".{LISTING}"
    write_json(local, {"schema_version": LISTING_VERSION, "files": dict(digests)})
    objects.put(local, objects.joined(workspace.url, LISTING))
    local.unlink()


def _check_ours(url: str, known: _State, listing: _Listing) -> None:
    if listing.version != known.version:
        raise UsageError(
            "another machine published to this workspace meanwhile", place=Place(url), hint=_CHANGED
        )


def _fetch(workspace: Workspace) -> None:
    """Bring the copy up to date; what it holds beyond the listing that it was made from is work to go on with."""
    assert workspace.url is not None
    known = _State.read(workspace)
    listing = _listed(workspace.url)
    for left in range(_TRIES, 0, -1):
        if listing.version == known.version:
            return
        try:
            _take(workspace, known, listing)
        except (InputError, OSError):
            newer = _listed(workspace.url)
            if left == 1 or newer.version == listing.version:
                raise
            listing = newer
        else:
            known.keep(workspace, listing.version)
            return


def _take(workspace: Workspace, known: _State, listing: _Listing) -> None:
    assert workspace.url is not None
    root = workspace.root
    for name in _files(root):
        if name not in listing.digests:
            (root / name).unlink()
    for name, digest in listing.digests.items():
        path = root / name
        if path.is_file() and known.digest(path, name) == digest:
            continue
        with replacing(path) as fresh:
            source = objects.joined(workspace.url, _object_name(name, digest))
            objects.get(source, fresh)
            if _digest(fresh) != digest:
                raise InputError("its bytes are not those that were published", place=Place(source))
        known.digest(path, name)
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            shutil.rmtree(folder)


class _State:
    """What this machine knows of its copy: the listing that it was made from, and the digests of files as they were.

    A file of the same size and time of change has the digest that it had: hashing takes 1.2 s of the processor a GB.
    """

    def __init__(self, version: str | None, seen: dict[str, Any]) -> None:
        self.version = version
        self._seen = seen

    @classmethod
    def read(cls, workspace: Workspace) -> _State:
        """Read what was kept; a copy without it, or with a damaged one, knows nothing."""
        try:
            value = json.loads((workspace.root / _STATE).read_text(encoding="utf-8"))
            return cls(value["listing"], dict(value["files"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(None, {})

    def digest(self, path: Path, name: str) -> str:
        """Return the digest of a file."""
        found = path.stat()
        mark = [found.st_size, found.st_mtime_ns, found.st_ino]
        held = self._seen.get(name)
        if held is None or held[:3] != mark:
            held = [*mark, _digest(path)]
            self._seen[name] = held
        return str(held[3])

    def keep(self, workspace: Workspace, version: str | None) -> None:
        """Note which listing the copy agrees with."""
        self.version = version
        there = set(_files(workspace.root))
        self._seen = {name: held for name, held in self._seen.items() if name in there}
        write_json(workspace.root / _STATE, {"listing": version, "files": self._seen})


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, lambda: blake2b(digest_size=16)).hexdigest()
