"""Which rows a pool takes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from prefixledger.config.provider_rules import has_rules
from prefixledger.config.toml_file import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

Globs = Annotated[
    tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v), Field(strict=False)
]


class Match(Part):
    """Which rows a pool takes: every field given must match one of its globs; null matches no glob.

    With ``ruled`` only rows of models whose cache rules are known: what others store cannot be told.
    """

    provider: Globs | None = None
    model: Globs | None = None
    release: Globs | None = None
    client: Globs | None = None
    tenant: Globs | None = None
    replica: Globs | None = None
    adapter: Globs | None = None
    cache_salt: Globs | None = None
    service_tier: Globs | None = None
    namespace: Globs | None = None
    source_file: Globs | None = None
    ruled: Literal[True] | None = None

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields that are given, with their globs."""
        given = {name: globs for name, globs in self if globs is not None and name != "ruled"}
        # Which rules there are depends on both.
        return {"provider": ("*",), "model": ("*",), **given} if self.ruled else given

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Say whether a row (column name to value) belongs here."""
        fits = all(_fits(row.get(name), globs) for name, globs in self.fields.items())
        return fits and (not self.ruled or has_rules(str(row["provider"]), str(row["model"])))


def _fits(value: object, globs: tuple[str, ...]) -> bool:
    return value is not None and any(fnmatchcase(str(value), glob) for glob in globs)
