"""Results as polars frames, and as what a notebook shows of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

    from prefixledger.cards import Card


class Tabled(ABC):
    """A result that gives its tables as frames and shows itself in a notebook."""

    __slots__ = ()

    @abstractmethod
    def _frames(self) -> Mapping[str, Callable[[], pl.DataFrame]]:
        """Return how each table is made, the one that matters most first."""

    @abstractmethod
    def _card(self) -> Card:
        """Return what a notebook shows."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self._frames())

    def frame(self, name: str | None = None) -> pl.DataFrame:
        """Return a table.

        Args:
            name: One of ``tables``; None is the first of them.

        Raises:
            UsageError: There is no such table.
        """
        made = self._frames()
        if name is None:
            name = next(iter(made))
        if name not in made:
            raise UsageError(f"there is no table {name!r}", hint=f"tables: {', '.join(made)}")
        return made[name]()

    def _repr_html_(self) -> str:
        from prefixledger.cards import card_html  # noqa: PLC0415  # the command line shows no card

        return card_html(self._card())


def objects_frame(rows: Iterable[Any], kind: type, **more: Sequence[Any]) -> pl.DataFrame:
    """Return one row for each dataclass object; what is itself made of objects is left out.

    Args:
        rows: The objects.
        kind: Their class, which names the columns of no row.
        more: Columns to put first.
    """
    rows = list(rows)
    made: dict[str, Sequence[Any]] = dict(more)
    for field in fields(kind):
        values = [_plain(getattr(row, field.name)) for row in rows]
        if not any(is_dataclass(one) or isinstance(one, dict) for one in _flat(values)):
            made[field.name] = values
    return rows_frame(list(made), list(zip(*made.values(), strict=True)))


def rows_frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Return rows as a frame; money becomes a float, and columns of ISO times moments in UTC."""
    import polars as pl  # noqa: PLC0415  # takes time to load, and the command line makes no frame

    plain = [[_plain(value) for value in row] for row in rows]
    frame = pl.DataFrame(plain, schema=list(columns), orient="row", infer_schema_length=None)
    times = [name for name in ("at", "from", "to") if frame.schema.get(name) == pl.String]
    return frame.with_columns(
        pl.col(name).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", time_zone="UTC")
        for name in times
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return list(value) if isinstance(value, tuple) else value


def _flat(values: Sequence[Any]) -> Iterable[Any]:
    for value in values:
        yield from value if isinstance(value, list) else (value,)
