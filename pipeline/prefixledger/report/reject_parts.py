"""The first rejects of every reason: where they are, for the reader who wants to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefixledger.workspace import Workspace

OF_EACH = 3
MOST_REASONS = 12
"""A reason begins with its short name; what follows is the value at fault, which differs from line to line."""


@dataclass(frozen=True, slots=True)
class RejectReason:
    """What was rejected for one reason.

    Attributes:
        reason: Its short name.
        records: How many.
        first: The first of them: file, line (the number of the record where there are no lines), and what was wrong.
    """

    reason: str
    records: int
    first: tuple[tuple[str, int, str], ...]


def first_rejects(workspace: Workspace) -> tuple[RejectReason, ...]:
    """Return the reasons for which records were rejected, the most frequent first, with where each occurs first.

    Args:
        workspace: Holds ``rejects/``, or not.
    """
    if not any(workspace.rejects.glob("*.parquet")):
        return ()
    import polars as pl  # noqa: PLC0415  # takes 0.2 s to load, and most logs have no rejects

    name = pl.col("reason").str.split(":").list.first().str.strip_chars()
    place = ("source_file", "record")
    found = (
        pl.scan_parquet(workspace.rejects / "*.parquet")
        .with_columns(name.alias("name"), pl.coalesce("line", "record").alias("at"))
        .sort(place)
        .group_by("name")
        .agg(pl.len().alias("records"), pl.col("source_file", "at", "reason").head(OF_EACH))
        .sort(["records", "name"], descending=[True, False])
        .head(MOST_REASONS)
        .collect()
    )
    return tuple(
        RejectReason(
            row["name"],
            row["records"],
            tuple(zip(row["source_file"], row["at"], row["reason"], strict=True)),
        )
        for row in found.to_dicts()
    )
