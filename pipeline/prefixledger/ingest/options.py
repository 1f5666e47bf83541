"""What a caller may choose about an ingest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prefixledger.errors import UsageError
from prefixledger.ingest.chunks import CHUNK_BYTES
from prefixledger.ingest.overrides import compile_names
from prefixledger.ingest.zones import check_zone

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest.reader import BlockIds, IdScope

MIN_REJECTS: Final = 10
FIRST_YEAR: Final = 2001
LAST_YEAR: Final = 2099
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)(%?)")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Choices; every one left out is found in the input itself.

    Attributes:
        format: Name of the format; None detects it.
        map_file: Map file; excludes ``format``.
        block_size: Tokens a block.
        block_ids: Whether the trailing partial block has an id.
        id_scope: Over what block ids are unique.
        t0: Microseconds since 1970 at which relative clocks begin.
        year: Year of the first time of a log that writes none; None goes by the time of the file.
        zone: Time zone of local times that name none; None reads them as UTC unless the log itself tells.
        after: Input, by label or path, at whose last request the relative clocks begin.
        tokenizer: ``tokenizer.json`` or name that turns text into tokens; see ``text.tokenizers.load_tokenizer``.
        template: Chat template, in Jinja, that turns messages into text.
        models: Table of aliases of models; see ``overrides.load_aliases``.
        from_name: Pattern that finds fields in the names of inputs; see ``overrides.compile_names``.
        keep_text: Whether the texts of prompts are kept in the workspace.
        jobs: Processes that parse; no output depends on it.
        max_rejects: ``N`` records or ``N%`` of them; more raise after everything was written.
        chunk_bytes: Bytes parsed at a time; no output depends on it.
        force: Read inputs that were seen before again and replace what they left.
    """

    format: str | None = None
    map_file: Path | None = None
    block_size: int | None = None
    block_ids: BlockIds | None = None
    id_scope: IdScope | None = None
    t0: int | None = None
    after: str | None = None
    year: int | None = None
    zone: str | None = None
    tokenizer: str | None = None
    template: Path | None = None
    models: Path | None = None
    from_name: str | None = None
    keep_text: bool = False
    jobs: int = 1
    max_rejects: str | int = "1%"
    chunk_bytes: int = CHUNK_BYTES
    force: bool = False

    def __post_init__(self) -> None:
        """Refuse choices that exclude each other or mean nothing."""
        if self.format is not None and self.map_file is not None:
            raise UsageError("--format and --map exclude each other", hint="a map file names its own format")
        if self.t0 is not None and self.after is not None:
            raise UsageError(
                "--t0 and --after exclude each other", hint="both say where a relative clock begins"
            )
        for name, value in (
            ("--block-size", self.block_size),
            ("--jobs", self.jobs),
            ("chunk size", self.chunk_bytes),
        ):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        if self.year is not None and not FIRST_YEAR <= self.year <= LAST_YEAR:
            raise UsageError(f"--year must lie between {FIRST_YEAR} and {LAST_YEAR}, not {self.year}")
        if self.zone is not None:
            check_zone(self.zone)
        if self.from_name is not None:
            compile_names(self.from_name)
        reject_limit(self.max_rejects, 0)


def reject_limit(max_rejects: str | int, records: int) -> int:
    """Return how many rejects are allowed among so many records.

    A share allows at least 10, so that a short log is not lost to one bad line.

    Raises:
        UsageError: The limit is neither a number nor a percentage.
    """
    match = _LIMIT.fullmatch(str(max_rejects).strip())
    if match is None or (not match[2] and "." in match[1]):
        raise UsageError(
            f"{max_rejects!r} is no limit for rejects", hint='write a number, "20", or a share, "1%"'
        )
    if match[2]:
        return max(MIN_REJECTS, int(float(match[1]) * records / 100))
    return int(match[1])
