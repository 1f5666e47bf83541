"""What a caller knows better than the log: who is named in the names of files, and which models are one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest.records import Row

FIELDS: Final = (
    "replica", "tenant", "model", "release", "client", "session_id", "provider", "adapter", "service_tier", "namespace",
)  # fmt: skip
"""Fields that a name of a file may hold."""
LOGGED_MODEL: Final = "logged_model"
"""Label that keeps the name of a model as logged, where an alias takes its place."""
_WILD: Final = frozenset("*?[")

Aliases = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What is put into every row of an input.

    Attributes:
        named: Fields and values from the name of the input.
        aliases: Names of models, or patterns with ``*``, and what they stand for.
    """

    named: tuple[tuple[str, str], ...] = ()
    aliases: Aliases = ()

    def apply(self, row: Row) -> None:
        """Change a row in place."""
        for name, value in self.named:
            setattr(row, name, value)
        if self.aliases and row.model is not None:
            model = alias_of(row.model, self.aliases)
            if model != row.model:
                row.extras = {**row.extras, LOGGED_MODEL: row.model}
                row.model = model


@lru_cache(maxsize=4_096)
def alias_of(model: str, aliases: Aliases) -> str:
    """Return what a model is called: its own alias, else that of the first pattern that it fits, else its name."""
    exact = dict(aliases).get(model)
    if exact is not None:
        return exact
    return next((name for pattern, name in aliases if fnmatchcase(model, pattern)), model)


def load_aliases(path: Path) -> Aliases:
    """Read a table of model names: TOML, ``"name or pattern" = "what it is"``, on top or under ``[models]``.

    Raises:
        UsageError: It cannot be read, or holds something else.
    """
    from prefixledger.config.toml_file import read_toml  # noqa: PLC0415  # keeps pydantic out of runs without a table

    data = read_toml(path).data
    table = data.get("models", data)
    if not isinstance(table, dict):
        raise UsageError(
            "models is no table",
            place=Place(str(path)),
            hint='write [models], then "prod-chat-*" = "gpt-4.1"',
        )
    wrong = [name for name, value in table.items() if not isinstance(value, str) or not value]
    if wrong:
        raise UsageError(
            f"the alias of {wrong[0]!r} is no text",
            place=Place(str(path)),
            hint='write "prod-chat-*" = "gpt-4.1"',
        )
    return tuple(table.items())


def compile_names(pattern: str) -> re.Pattern[str]:
    """Read a pattern for the names of files.

    Args:
        pattern: Regular expression whose named groups are ``FIELDS``; a single group without a name is the replica.

    Raises:
        UsageError: It is none, or names a field that there is not.
    """
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--from-name {pattern!r} is no regular expression: {error}") from error
    unknown = sorted(set(found.groupindex) - set(FIELDS))
    if unknown:
        raise UsageError(f"--from-name has no field {unknown[0]!r}", hint=f"fields: {', '.join(FIELDS)}")
    if not found.groups or (not found.groupindex and found.groups > 1):
        raise UsageError(
            "--from-name needs named groups, or one group for the replica",
            hint=r"write (?P<replica>[^/]+)_\d+\.log",
        )
    return found


def named_in(label: str, pattern: re.Pattern[str]) -> tuple[tuple[str, str], ...] | None:
    """Return fields and values that the name of an input holds, None where it does not fit.

    Args:
        label: Path of the input below what the caller gave.
        pattern: See ``compile_names``; found anywhere in the label.
    """
    match = pattern.search(label)
    if match is None:
        return None
    if not pattern.groupindex:
        return (("replica", match[1]),) if match[1] else ()
    return tuple((name, value) for name, value in sorted(match.groupdict().items()) if value)
