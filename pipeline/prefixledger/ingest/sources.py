"""From SOURCE arguments to a list of inputs in a fixed order."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prefixledger.errors import InputError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN: Final = "-"
_GLOB = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Source:
    """One input.

    Attributes:
        path: The file; None for standard input.
        label: What outputs call it: its name, or its path below the folder or pattern that was given.
        named: True where the user named the file itself; one found in a folder may turn out to be no log.
    """

    path: Path | None
    label: str
    named: bool

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.label.rpartition("/")[2]

    @property
    def place(self) -> Place:
        """Where messages about it point."""
        return Place(STDIN if self.path is None else str(self.path))


def resolve(arguments: Sequence[str], *, outside: Path) -> tuple[Source, ...]:
    """List the inputs of a call: arguments in order, the files of a folder or pattern by name.

    Args:
        arguments: Files, folders, patterns or ``-``.
        outside: The workspace; files in it are no logs.

    Raises:
        InputError: An argument names nothing, or a folder holds no file.
    """
    found: list[Source] = []
    workspace = outside.resolve()
    for argument in arguments:
        path = Path(argument)
        if argument == STDIN:
            found.append(Source(None, STDIN, named=True))
        elif path.is_dir():
            inside = [
                Source(file, file.relative_to(path).as_posix(), named=False)
                for file in _files(path, workspace)
            ]
            if not inside:
                raise InputError("the folder holds no file", place=Place(argument))
            found += inside
        elif path.exists():
            found.append(Source(path, path.name, named=True))
        elif _GLOB.search(argument):
            found += _matches(argument, workspace)
        else:
            raise InputError("there is no such file or folder", place=Place(argument))
    return tuple(found)


def _matches(pattern: str, workspace: Path) -> list[Source]:
    fixed = _GLOB.split(pattern, maxsplit=1)[0].rpartition("/")[0]
    base = Path(fixed or ("/" if pattern.startswith("/") else "."))
    found: list[Source] = []
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207  # absolute patterns, too
        path = Path(match)
        files = _files(path, workspace) if path.is_dir() else [path]
        found += [Source(file, Path(os.path.relpath(file, base)).as_posix(), named=False) for file in files]
    if not found:
        raise InputError("the pattern matches no file", place=Place(pattern))
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
