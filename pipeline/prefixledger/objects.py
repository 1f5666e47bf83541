"""Files on object storage, by URL, through Arrow's own clients: told from paths, listed, read, put and deleted."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from prefixledger.errors import InputError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyarrow.fs import FileInfo, FileSystem

SCHEME: Final = "s3://"
_GLOB: Final = re.compile(r"[*?[]")
_READ_BYTES: Final = 8 << 20
"""Of one request for a part of an object: every request waits for the store once, so few are better than many."""
_HINT: Final = (
    "the bucket, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION must fit; "
    "AWS_ENDPOINT_URL names a server other than that of Amazon"
)


@dataclass(frozen=True, slots=True)
class Object:
    """What a URL leads to.

    Attributes:
        url: Where it is.
        size: Its bytes.
        modified_ns: When it was put, nanoseconds since 1970.
    """

    url: str
    size: int
    modified_ns: int

    @property
    def version(self) -> tuple[int, ...]:
        """Tells apart what one URL named at different times."""
        return self.size, self.modified_ns


def is_url(place: object) -> bool:
    """Return whether a place is on object storage rather than a path."""
    return isinstance(place, str) and place.startswith(SCHEME)


def joined(url: str, *names: str) -> str:
    """Return the URL of something below another."""
    return "/".join((url.rstrip("/"), *names))


def find(url: str) -> Object | None:
    """Return the object that a URL names, or None; a folder is none.

    Raises:
        InputError: The store cannot be asked.
    """
    store, path = _store(url)
    with _said(url):
        return _object(store.get_file_info(path))


def find_below(url: str) -> tuple[Object, ...]:
    """Return all objects below a folder by name, hidden ones left out.

    Raises:
        InputError: The store cannot be asked.
    """
    from pyarrow.fs import FileSelector  # noqa: PLC0415  # 0.2 s that runs without a store must not pay

    store, path = _store(url)
    with _said(url):
        listed = store.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    found = (_object(info) for info in listed if not _hidden(info.path.removeprefix(path)))
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.url))


def is_pattern(url: str) -> bool:
    """Return whether a URL stands for all that it matches."""
    return _GLOB.search(url.removeprefix(SCHEME)) is not None


def fixed_part(pattern: str) -> str:
    """Return the folder of a pattern in front of its first wildcard."""
    return SCHEME + _GLOB.split(pattern.removeprefix(SCHEME), maxsplit=1)[0].rpartition("/")[0]


def find_matches(pattern: str) -> tuple[Object, ...]:
    """Return all objects that a pattern matches, by name; ``**`` stands for any folders.

    Raises:
        InputError: The store cannot be asked.
    """
    wanted = pattern.split("/")
    return tuple(one for one in find_below(fixed_part(pattern)) if _matches(one.url.split("/"), wanted))


def open_to_read(url: str) -> BinaryIO:
    """Open an object to be read from front to end, a few MiB at a time.

    Raises:
        FileNotFoundError: There is none.
        OSError: The store does not give it.
    """
    store, path = _store(url)
    return cast("BinaryIO", store.open_input_stream(path, compression=None, buffer_size=_READ_BYTES))


def read_part(url: str, offset: int, length: int) -> bytes:
    """Return some bytes from the middle of an object, fewer where it ends before.

    Raises:
        FileNotFoundError: There is none.
        OSError: The store does not give it.
    """
    store, path = _store(url)
    with store.open_input_file(path) as file:
        return cast("bytes", file.read_at(length, offset))


def put(local: Path, url: str) -> None:
    """Put a file: it is there whole or not at all; large ones go in several parts.

    Raises:
        InputError: The store does not take it.
    """
    store, path = _store(url)
    with (
        _said(url),
        local.open("rb") as source,
        store.open_output_stream(path, compression=None) as out,
    ):
        while block := source.read(_READ_BYTES):
            out.write(block)


def get(url: str, local: Path) -> None:
    """Fetch an object into a file.

    Raises:
        InputError: The store does not give it.
    """
    with _said(url), open_to_read(url) as source, local.open("wb") as out:
        while block := source.read(_READ_BYTES):
            out.write(block)


def delete(url: str) -> None:
    """Delete an object, if it is there.

    Raises:
        InputError: The store does not do it.
    """
    store, path = _store(url)
    with _said(url), suppress(FileNotFoundError):
        store.delete_file(path)


def _store(url: str) -> tuple[FileSystem, str]:
    path = url.removeprefix(SCHEME).strip("/")
    bucket = path.partition("/")[0]
    with _said(url):
        return _client(bucket), path


@lru_cache(maxsize=8)
def _client(bucket: str) -> FileSystem:
    from pyarrow.fs import FileSystem  # noqa: PLC0415  # 0.2 s that runs without a store must not pay

    client, _ = FileSystem.from_uri(SCHEME + bucket)
    return client


def _object(info: FileInfo) -> Object | None:
    return Object(SCHEME + info.path, info.size, info.mtime_ns) if info.is_file else None


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Match folder by folder, as a shell does: a star ends at a slash."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_matches(parts[at:], wanted[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _matches(parts[1:], wanted[1:])


@contextmanager
def _said(url: str) -> Iterator[None]:
    """Say plainly what a store refuses; Arrow's errors are those of the system, or of values."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise InputError("there is no such object", place=Place(url)) from error
        raise InputError(
            f"the store does not answer as it should: {error}", place=Place(url), hint=_HINT
        ) from error
