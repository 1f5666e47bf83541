"""What ingest left, source by source, and which of it is indexed already."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from prefixledger.workspace import damaged, read_manifest, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.workspace import Workspace

_SCHEMA_VERSION = 1
_FOOTER_TAIL_BYTES = 8  # length of the footer, then the magic number


@dataclass(frozen=True, slots=True)
class Source:
    """One input file as ingest left it.

    Attributes:
        name: Digest that names it.
        first_at_us: Start of its first request, None if it has none.
        namespaces: Names of its namespaces, by index.
        paths: Parquet file of its forest; it may be absent.
        requests: Parquet files of its rows, by date.
        made_from: Digest of all of the above.
    """

    name: str
    first_at_us: int | None
    namespaces: tuple[str, ...]
    paths: Path
    requests: tuple[Path, ...]
    made_from: str


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """One source in the index.

    Attributes:
        source: Digest that names it.
        made_from: ``Source.made_from`` when it was indexed.
        first_block: Number of the first block that it brought.
        blocks: How many it brought.
        requests: How many rows it has.
    """

    source: str
    made_from: str
    first_block: int
    blocks: int
    requests: int


def read_sources(workspace: Workspace) -> tuple[Source, ...]:
    """Return the sources of a workspace in order of their first request, whatever order they were given in.

    Raises:
        UsageError: Nothing was ingested.
        InputError: The manifest cannot be read, or another version wrote it.
    """
    manifest = read_manifest(workspace)
    try:
        entries = [(e["source"], e.get("first_at_us"), _names(e)) for e in manifest["sources"]]
    except (KeyError, TypeError) as error:
        raise damaged(workspace) from error
    files: dict[str, list[Path]] = {}
    for path in sorted(workspace.requests.glob("date=*/*.parquet")):
        files.setdefault(path.stem, []).append(path)
    sources = [
        _source(
            name, first_at_us, namespaces, workspace.paths / f"{name}.parquet", tuple(files.get(name, ()))
        )
        for name, first_at_us, namespaces in entries
    ]
    return tuple(sorted(sources, key=lambda s: (s.first_at_us is None, s.first_at_us or 0, s.name)))


def read_indexed(workspace: Workspace) -> tuple[IndexedSource, ...]:
    """Return the sources in the index, in order of their block numbers; none if there is no index."""
    try:
        index = json.loads(workspace.index.read_text(encoding="utf-8"))
        if index["schema_version"] != _SCHEMA_VERSION:
            return ()
        return tuple(IndexedSource(**entry) for entry in index["sources"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ()  # an index that cannot be read is made again


def write_indexed(workspace: Workspace, indexed: tuple[IndexedSource, ...]) -> None:
    """Say which sources are indexed; written after their files, so a crash leaves them out."""
    write_json(
        workspace.index, {"schema_version": _SCHEMA_VERSION, "sources": [asdict(entry) for entry in indexed]}
    )


def still_valid(sources: tuple[Source, ...], indexed: tuple[IndexedSource, ...]) -> bool:
    """Tell whether everything in the index is still what ingest left."""
    now = {source.name: source.made_from for source in sources}
    return all(now.get(entry.source) == entry.made_from for entry in indexed)


def _names(entry: dict[str, list[dict[str, str]]]) -> tuple[str, ...]:
    return tuple(namespace["name"] for namespace in entry["namespaces"])


def _source(
    name: str, first_at_us: int | None, namespaces: tuple[str, ...], paths: Path, requests: tuple[Path, ...]
) -> Source:
    digest = blake2b(json.dumps(namespaces).encode(), digest_size=16)
    for path in (paths, *requests):
        digest.update(f"\n{path.parent.name}/".encode())
        if path.exists():
            digest.update(_footer(path))
    return Source(name, first_at_us, namespaces, paths, requests, digest.hexdigest())


def _footer(path: Path) -> bytes:
    """Return the footer of a Parquet file: sizes, places and bounds of all columns, a few KB of any file."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _FOOTER_TAIL_BYTES))
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(0, size - _FOOTER_TAIL_BYTES - length))
        return stream.read(length)
