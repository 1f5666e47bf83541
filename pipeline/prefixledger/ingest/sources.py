"""From SOURCE arguments to a list of inputs in a fixed order."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prefixledger import objects
from prefixledger.errors import NoInputError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN: Final = "-"
_GLOB = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Source:
    """One input.

    Attributes:
        path: The file; None for standard input, and for what lies on object storage.
        label: What outputs call it: its name, or its path below the folder or pattern that was given.
        named: True where the user named the file itself; one found in a folder may turn out to be no log.
        url: Where it lies on object storage, else None.
    """

    path: Path | None
    label: str
    named: bool
    url: str | None = None

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.label.rpartition("/")[2]

    @property
    def place(self) -> Place:
        """Where messages about it point."""
        return Place(self.at)

    @property
    def at(self) -> str:
        """The argument that names it alone."""
        return self.url or (STDIN if self.path is None else str(self.path))

    def resolved(self) -> Source:
        """Return the same for processes that work in another folder."""
        return self if self.path is None else replace(self, path=self.path.resolve())


def named_source(argument: str) -> Source:
    """Return the one input that an argument names."""
    if argument == STDIN:
        return Source(None, STDIN, named=True)
    if objects.is_url(argument):
        return Source(None, argument.rpartition("/")[2], named=True, url=argument)
    return Source(Path(argument), Path(argument).name, named=True)


def resolve(arguments: Sequence[str], *, outside: Path, outside_url: str | None = None) -> tuple[Source, ...]:
    """List the inputs of a call: arguments in order, the files of a folder or pattern by name.

    Args:
        arguments: Files, folders, patterns, each on this machine or ``s3://…``, or ``-``.
        outside: The workspace; files in it are no logs.
        outside_url: Where it is published, if it is; objects below it are no logs.

    Raises:
        NoInputError: An argument names nothing, or a folder holds no file.
    """
    found: list[Source] = []
    workspace = outside.resolve()
    for argument in arguments:
        path = Path(argument)
        if argument == STDIN:
            found.append(named_source(argument))
        elif objects.is_url(argument):
            found += _stored(argument, outside_url)
        elif path.is_dir():
            inside = [
                Source(file, file.relative_to(path).as_posix(), named=False)
                for file in _files(path, workspace)
            ]
            if not inside:
                raise NoInputError("the folder holds no file", place=Place(argument))
            found += inside
        elif path.exists():
            found.append(named_source(argument))
        elif _GLOB.search(argument):
            found += _matches(argument, workspace)
        else:
            raise NoInputError("there is no such file or folder", place=Place(argument))
    return tuple(found)


def _stored(url: str, outside: str | None) -> list[Source]:
    """List what lies on object storage; a name that is an object and a folder is the object."""
    if objects.is_pattern(url):
        base, inside = objects.fixed_part(url), objects.find_matches(url)
        nothing = "the pattern matches no object"
    elif objects.find(url) is not None:
        return [named_source(url)]
    else:
        base, inside = url.rstrip("/"), objects.find_below(url)
        nothing = "there is no such object or folder"
    found = [
        Source(None, one.url.removeprefix(base + "/"), named=False, url=one.url)
        for one in inside
        if outside is None or not one.url.startswith(outside + "/")
    ]
    if not found:
        raise NoInputError(nothing, place=Place(url))
    return found


def _matches(pattern: str, workspace: Path) -> list[Source]:
    fixed = _GLOB.split(pattern, maxsplit=1)[0].rpartition("/")[0]
    base = Path(fixed or ("/" if pattern.startswith("/") else "."))
    found: list[Source] = []
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207  # absolute patterns, too
        path = Path(match)
        files = _files(path, workspace) if path.is_dir() else [path]
        found += [Source(file, Path(os.path.relpath(file, base)).as_posix(), named=False) for file in files]
    if not found:
        raise NoInputError("the pattern matches no file", place=Place(pattern))
    return list({source.path: source for source in found}.values())


def _files(folder: Path, workspace: Path) -> Iterator[Path]:
    """Yield regular files below a folder by name; hidden ones, links to folders and the workspace are left out."""
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        if entry.name.startswith(".") or entry.resolve() == workspace:
            continue
        if entry.is_dir():
            if not entry.is_symlink():
                yield from _files(entry, workspace)
        elif entry.is_file():
            yield entry
