"""What became of every record: the account of an input, of a call, and the error when too many were bad."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prefixledger.cards import Card, frame_card
from prefixledger.errors import InputError, InternalError, Place
from prefixledger.frames import Tabled, objects_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl


_SHARES: Final = ("kept", "rejected", "duplicates", "joined", "skipped")
"""What becomes of records; they sum to them."""
_LISTS: Final = ("namespaces", "notes", "facts", "text_scales", "beside")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an ingest is.

    Attributes:
        path: Input that is being read.
        bytes_done: Bytes read so far over all inputs, as they lie on disk.
        bytes_total: Bytes of all inputs; None while one of them is standard input.
        records: Records read so far.
        rejects: Of them rejected so far.
    """

    path: str
    bytes_done: int
    bytes_total: int | None
    records: int
    rejects: int


@dataclass(frozen=True, slots=True)
class InputAccount:
    """Account of one input.

    Attributes:
        path: Its label.
        source: First 16 hex digits of the digest of its bytes; names it in the workspace.
        format: Name of its format.
        why: Why it was taken for that.
        bytes: Decompressed bytes.
        records: Lines, CSV rows, or requests inside documents.
        kept: Rows in ``requests``.
        rejected: Records in ``rejects``.
        duplicates: Records seen before.
        joined: Second halves of requests logged in two parts.
        skipped: Records that are no requests.
        reasons: Rejects and skips by reason.
        truncated_at: Where the input was cut off, in decompressed bytes; None where it was not.
        seen_before: True where all of it had been read already.
        identical_lines: Kept rows without id whose line equals an earlier one.
        block_size: Tokens a block; None where sizes differ or no row has keys.
        block_ids: ``floor``, ``ceil``, or ``exact`` where no prompt had a partial block; None without block ids.
        id_scope: ``file`` or ``global``; None without block ids.
        clock: ``relative`` or ``absolute``.
        clock_zero_us: What was added to the times of a relative clock.
        timelines: Conversations with a clock of their own, placed 30 s apart.
        ids: ``prefix`` or ``content``; None without block ids.
        first_at_us: Start of the first kept row.
        last_at_us: Start of the last kept row.
        namespaces: ``{"name", "block_size"}`` of each namespace, in the order that ``paths`` refers to.
        notes: Sentences for the report.
        facts: What the log says of the engine itself: ``{"kind", "line", "at_us", …}``, in order of the input; kinds
            are ``start`` (a process began), ``capacity`` and ``block_size``; see ``engine_lines.engine_fact``.
        beside: Tables that it brought beside requests: ``kv_events``, ``series``.
        text_scales: Size in bytes of the blocks of each model whose prompts are text; see ``text.scale.Scale``.
    """

    path: str
    source: str
    format: str
    why: str
    bytes: int
    records: int
    kept: int
    rejected: int
    duplicates: int
    joined: int
    skipped: int
    reasons: Mapping[str, int]
    truncated_at: int | None = None
    seen_before: bool = False
    identical_lines: int = 0
    block_size: int | None = None
    block_ids: str | None = None
    id_scope: str | None = None
    clock: str = "absolute"
    clock_zero_us: int = 0
    timelines: int = 0
    ids: str | None = None
    first_at_us: int | None = None
    last_at_us: int | None = None
    namespaces: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[Mapping[str, Any], ...] = ()
    text_scales: tuple[Mapping[str, Any], ...] = ()
    beside: tuple[str, ...] = ()

    def check(self) -> None:
        """Verify that every record is accounted for.

        Raises:
            InternalError: The account does not close.
        """
        parts = self.kept + self.rejected + self.duplicates + self.joined + self.skipped
        if (
            parts != self.records
            or min(self.kept, self.rejected, self.duplicates, self.joined, self.skipped) < 0
        ):
            raise InternalError(
                f"the account does not close: {self.records} records, but {self.kept} kept, {self.rejected} rejected, "
                f"{self.duplicates} duplicates, {self.joined} joined and {self.skipped} skipped",
                place=Place(self.path),
            )

    def to_json(self) -> dict[str, Any]:
        """Return it as the manifest holds it."""
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return asdict(self) | lists

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> InputAccount:
        """Read it back from a manifest; keys that are not known are left out."""
        known = {f.name for f in fields(cls)}
        values = {name: value for name, value in entry.items() if name in known}
        return cls(**{**values, **{name: tuple(values.get(name, ())) for name in _LISTS}})


@dataclass(frozen=True, slots=True)
class IngestSummary(Tabled):
    """Account of one call.

    Attributes:
        inputs: One account for each input, in order of reading.
        messages: Sentences for people: what was detected and why, what was left out and why.
    """

    inputs: tuple[InputAccount, ...]
    messages: tuple[str, ...]

    @property
    def records(self) -> int:
        """Records of all inputs."""
        return sum(account.records for account in self.inputs)

    @property
    def rejected(self) -> int:
        """Rejects of all inputs."""
        return sum(account.rejected for account in self.inputs)

    @property
    def shares(self) -> Mapping[str, int]:
        """What became of the records of all inputs, those ways that some went; they sum to the records."""
        sums = {name: sum(getattr(one, name) for one in self.inputs) for name in _SHARES}
        return {name: count for name, count in sums.items() if count or name == "kept"}

    def _frames(self) -> Mapping[str, Callable[[], pl.DataFrame]]:
        return {"inputs": partial(objects_frame, self.inputs, InputAccount)}

    def _card(self) -> Card:
        shown = self.frame().select("path", "format", "records", *_SHARES)
        title = f"{self.records:,} records of {len(self.inputs)} inputs were read, and {self.rejected:,} rejected."
        return frame_card(title, shown, self.messages)


class TooManyRejectsError(InputError):
    """More records were rejected than allowed; everything else was written.

    Attributes:
        summary: The account of the call.
    """

    def __init__(self, message: str, *, summary: IngestSummary, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.summary = summary


class NoRequestError(InputError):
    """Every record of a call was read and none is a request; the account of it was written.

    Attributes:
        summary: The account of the call.
    """

    def __init__(self, message: str, *, summary: IngestSummary, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.summary = summary
