"""An input as it was when it was opened: its bytes, how many, and what tells it from what its name leads to later."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO

from prefixledger import objects

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest.sources import Source


class Opened:
    """Standard input, which can be read once and told from nothing.

    Attributes:
        file: Its bytes, as they lie.
        size: How many there are; None where only reading tells.
        version: Tells apart what one name led to at different times; None where nothing does.
        modified_us: When it was last written before it was opened, microseconds since 1970; None where nobody knows.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size: int | None = None
        self.version: tuple[int, ...] | None = None
        self.modified_us: int | None = None

    def close(self) -> None:
        """Leave standard input open."""

    def is_shorter(self) -> bool:
        """Return whether it has fewer bytes now than when it was opened."""
        return False

    def version_now(self) -> tuple[int, ...] | None:
        """Return the version of what the name leads to now.

        Raises:
            OSError: It leads nowhere.
        """
        return self.version

    @property
    def may_be_replaced(self) -> bool:
        """Whether bytes read late may be those of a later version."""
        return False


class _File(Opened):
    """A file: what was opened stays what it is, whatever its name is given to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.open("rb"))
        self._path = path
        found = os.fstat(self.file.fileno())
        self.version, self.modified_us = _version(found), found.st_mtime_ns // 1_000
        if stat.S_ISREG(found.st_mode):
            self.size = found.st_size

    def close(self) -> None:
        self.file.close()

    def is_shorter(self) -> bool:
        return bool(self.size) and os.fstat(self.file.fileno()).st_size < (self.size or 0)

    def version_now(self) -> tuple[int, ...] | None:
        return _version(self._path.stat())


class _Object(Opened):
    """An object in a store: it is read part by part, and each part is that of the version at that moment."""

    def __init__(self, url: str) -> None:
        found = objects.find(url)
        if found is None:
            raise FileNotFoundError(2, "there is no such object", url)
        super().__init__(objects.open_to_read(url))
        self._url = url
        self.size, self.version, self.modified_us = found.size, found.version, found.modified_ns // 1_000

    def close(self) -> None:
        self.file.close()

    def version_now(self) -> tuple[int, ...] | None:
        found = objects.find(self._url)
        return None if found is None else found.version

    @property
    def may_be_replaced(self) -> bool:
        return True


def opened(source: Source) -> Opened:
    """Open an input.

    Raises:
        OSError: It cannot be opened.
        InputError: The store cannot be asked.
    """
    if source.url is not None:
        return _Object(source.url)
    return Opened(sys.stdin.buffer) if source.path is None else _File(source.path)


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
