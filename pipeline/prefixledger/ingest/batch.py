"""What one chunk became: rows as tuples, paths as flat arrays, and the fate of every record."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.fields import why_no_ids
from prefixledger.ingest.overrides import alias_of
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.text.batch import TextBatch
from prefixledger.ingest.usage import why_impossible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.kv_parse import KVRow
    from prefixledger.ingest.plain_rows import PlainRows
    from prefixledger.ingest.reader import Context
    from prefixledger.ingest.readers.prometheus import SeriesRow
    from prefixledger.ingest.records import Image, Row, Skip

ROW, REJECT, SKIP = 0, 1, 2
"""Fate of a record as parsing sees it."""
ROW_FIELDS: Final = (
    "started_us",
    "prompt_tokens",
    "request_id",
    "admitted_us",
    "first_token_us",
    "finished_us",
    "provider",
    "model",
    "release",
    "client",
    "tenant",
    "session_id",
    "replica",
    "adapter",
    "cache_salt",
    "service_tier",
    "inference_geo",
    "namespace",
    "output_tokens",
    "cached_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_write_other_tokens",
    "usage_state",
    "router_expected_tokens",
    "weight",
    "prompt_complete",
    "bypassed",
    "status",
    "scope",
    "space",
    "timeline",
    "parent",
    "join",
    "part",
    "rough_start",
    "local_clock",
    "zone_hint_us",
    "convention",
    "untimed",
    "after",
    "mark",
    "span",
    "parent_span",
    "recorder",
    "yearless",
    "extras",
)
"""Fields of ``Row`` that a batch carries as they are, in the order of its tuples."""
MAX_FIT_SAMPLES: Final = 10_000

_fields_of = attrgetter(*ROW_FIELDS)
_SHORT_LIST: Final = 64
"""Below this a look at every item is faster than one through numpy."""


@dataclass(slots=True)
class Fit:
    """How the lists of block ids fit the prompt lengths.

    Attributes:
        either: Rows whose prompt ends with a full block, so that both rules fit.
        floor: Rows that fit only without an id for the partial block.
        ceil: Rows that fit only with it.
        neither: Rows that fit no rule at this block size.
        samples: Prompt tokens and number of ids of the first 10,000 rows, flat.
    """

    either: int = 0
    floor: int = 0
    ceil: int = 0
    neither: int = 0
    samples: array[int] = field(default_factory=lambda: array("q"))

    def count(self, tokens: int, n_ids: int, block_size: int) -> str:
        """Count one row and return which rule it fits."""
        if len(self.samples) < 2 * MAX_FIT_SAMPLES:
            self.samples.extend((tokens, n_ids))
        full, rest = divmod(tokens, block_size)
        if n_ids == full:
            rule = "floor" if rest else "either"
        else:
            rule = "ceil" if rest and n_ids == full + 1 else "neither"
        setattr(self, rule, getattr(self, rule) + 1)
        return rule

    def merge(self, other: Fit) -> None:
        """Add the counts of the batch that follows."""
        self.either += other.either
        self.floor += other.floor
        self.ceil += other.ceil
        self.neither += other.neither
        if len(self.samples) < 2 * MAX_FIT_SAMPLES:
            self.samples.extend(other.samples[: 2 * MAX_FIT_SAMPLES - len(self.samples)])


@dataclass(slots=True)
class Batch:
    """The outcome of one chunk; everything in order of the records.

    Attributes:
        fates: One of ``ROW``, ``REJECT``, ``SKIP`` for each record.
        lines: 1-based line of each record.
        offsets: Byte offset of each record in the decompressed stream.
        digests: 64-bit hash of each record's bytes; 0 for all but the first record of a line.
        rows: Values of ``ROW_FIELDS`` of each row.
        row_records: Index in the batch of each row's record.
        block_sizes: Tokens a block of each row, 0 without keys.
        id_counts: Block ids of each row in ``ids``; -1 where it has token ids or no keys.
        ids: Block ids of full blocks, u64.
        token_counts: Token ids of each row in ``tokens``; -1 where it has block ids or no keys.
        tokens: Token ids, u32 or u64.
        text: Text of the rows that have any.
        extra: Row, block within the row, and bytes that its label takes in besides token ids.
        id_hashes: 16 bytes for each row: its request id within provider and format; zeros where it has none.
        retry_hashes: Likewise the id that it shares with other attempts at the same request, whoever served them.
        answered: 1 for each row whose request id is that of an answer, and not the one that attempts share.
        rejects: Record, reason and excerpt of each reject.
        skips: Record and reason of each skip.
        told: Record, and the skip itself, of each that tells something of other records.
        kv: Record and rows of each that holds KV events.
        series: Likewise samples of counters.
        fit: How block ids fit.
        plain: In place of ``rows`` and all that goes with them, rows as columns: then every record is one of them.
        labels: Of the blocks of rows with token ids: uint64[b] twice, and int64[rows with token ids + 1] where the blocks of
            each begin; None where no row has any, or they are not hashed yet.
    """

    fates: bytearray = field(default_factory=bytearray)
    lines: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))
    rows: list[tuple[object, ...]] = field(default_factory=list)
    row_records: array[int] = field(default_factory=lambda: array("q"))
    block_sizes: array[int] = field(default_factory=lambda: array("q"))
    id_counts: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    token_counts: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("I"))
    text: TextBatch = field(default_factory=TextBatch)
    extra: list[tuple[int, int, bytes]] = field(default_factory=list)
    id_hashes: bytearray = field(default_factory=bytearray)
    retry_hashes: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skips: list[tuple[int, str]] = field(default_factory=list)
    told: list[tuple[int, Skip]] = field(default_factory=list)
    kv: list[tuple[int, tuple[KVRow, ...]]] = field(default_factory=list)
    series: list[tuple[int, tuple[SeriesRow, ...]]] = field(default_factory=list)
    fit: Fit = field(default_factory=Fit)
    plain: PlainRows | None = None
    labels: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]] | None = None

    def add_row(self, row: Row, record: int, context: Context) -> None:
        """Append a row.

        Raises:
            BadRecordError: Its ids are no u64, or do not fit its prompt, or a template refuses its text; nothing is
                appended then.
        """
        context.overrides.apply(row)
        block_size = context.block_size or row.block_size or context.fallback_block_size
        n_ids = n_tokens = -1
        if row.block_ids is not None:
            n_ids = self._add_ids(row, block_size, context)
        elif row.token_ids is not None:
            n_tokens = self._add_tokens(row)
            if row.images:
                self._add_images(row.images, n_tokens, block_size)
        surely = row.convention is None  # else the rows of the source tell whether the count has them in it
        if surely and row.prompt_tokens is not None and (row.cached_tokens or 0) > row.prompt_tokens:
            self._forget(n_ids, n_tokens)
            assert row.cached_tokens is not None
            raise BadRecordError(why_impossible(row.prompt_tokens, row.cached_tokens, row.cached_tokens))
        keyed = n_ids >= 0 or n_tokens >= 0
        whole = bool(row.text_parts) and all(part.n_tokens is None for part in row.text_parts or ())
        if row.text_parts:
            self.text.add(
                len(self.rows), row.text_parts, context.text, row.started_us, hashed=whole and not keyed
            )
        self.block_sizes.append(block_size if keyed or whole else 0)
        self.id_counts.append(n_ids)
        self.token_counts.append(n_tokens)
        self.row_records.append(record)
        self.id_hashes += id_hash(context.format, row.provider, row.request_id)
        self.retry_hashes += id_hash(context.format, None, row.retry_id)
        self.answered.append(row.request_id != row.retry_id)
        self.rows.append(_fields_of(row))

    def add_skip(self, skip: Skip, context: Context) -> None:
        """Take note of the last record, which is no request."""
        record = len(self.fates) - 1
        self.skips.append((record, skip.reason))
        if skip.carry.get("model") is not None:
            alias = alias_of(skip.carry["model"], context.overrides.aliases)
            skip = replace(skip, carry={**skip.carry, "model": alias})
        if skip.kv:
            self.kv.append((record, skip.kv))
        if skip.series:
            self.series.append((record, skip.series))
        if skip.mark or skip.carry or skip.fact or skip.span:
            self.told.append((record, skip))

    def _add_ids(self, row: Row, block_size: int, context: Context) -> int:
        assert row.block_ids is not None
        tokens = row.prompt_tokens
        if tokens is None:
            raise BadRecordError("missing field: prompt tokens")
        before = len(self.ids)
        _extend(self.ids, row.block_ids, "block ids")
        n_ids = len(self.ids) - before
        if not row.prompt_complete and n_ids < tokens // block_size:
            return n_ids
        rule = self.fit.count(tokens, n_ids, block_size)
        if rule == "neither" or (context.block_ids not in (None, rule) and rule != "either"):
            del self.ids[before:]
            by_rule = f" by {context.block_ids}" if rule != "neither" else ""
            raise BadRecordError(
                f"block count: {n_ids} ids do not fit {tokens} tokens at {block_size} a block{by_rule}"
            )
        del self.ids[before + tokens // block_size :]  # the partial block has no key
        return len(self.ids) - before

    def _add_tokens(self, row: Row) -> int:
        assert row.token_ids is not None
        n_tokens = len(row.token_ids)
        if row.prompt_tokens is None and row.prompt_complete:
            row.prompt_tokens = n_tokens
        if row.prompt_tokens is not None and n_tokens > row.prompt_tokens:
            raise BadRecordError(f"token count: {n_tokens} ids, but {row.prompt_tokens} prompt tokens")
        if row.prompt_tokens is not None and n_tokens < row.prompt_tokens:
            row.prompt_complete = False
        before = len(self.tokens)
        try:
            _extend(self.tokens, row.token_ids, "token ids")
        except BadRecordError:
            if self.tokens.typecode == "Q":
                raise
            self.tokens = array("Q", self.tokens)  # some id needs more than 32 bits, or is none at all
            _extend(self.tokens, row.token_ids, "token ids")
        return len(self.tokens) - before

    def _add_images(self, images: tuple[Image, ...], n_tokens: int, block_size: int) -> None:
        by_block: dict[int, list[bytes]] = {}
        for image in images:
            last = min(image.first_token + image.n_tokens, n_tokens - n_tokens % block_size)
            for block in range(image.first_token // block_size, -(-last // block_size)):
                within = image.first_token - block * block_size
                by_block.setdefault(block, []).append(b"%d:%s\0" % (within, image.key.encode()))
        self.extra.extend(
            (len(self.rows), block, b"\0".join(parts)) for block, parts in sorted(by_block.items())
        )

    def _forget(self, n_ids: int, n_tokens: int) -> None:
        if n_ids > 0:
            del self.ids[-n_ids:]
        if n_tokens > 0:
            del self.tokens[-n_tokens:]
        while self.extra and self.extra[-1][0] == len(self.rows):
            self.extra.pop()


def _extend(target: array[int], items: object, name: str) -> None:
    if not isinstance(items, list):
        raise BadRecordError(f"wrong type: {name} is no list")
    before = len(target)
    try:
        target.extend(items)
    except (TypeError, OverflowError):
        del target[before:]
        raise BadRecordError(why_no_ids(items, name)) from None
    if _holds_boolean(target, before, items):
        del target[before:]
        raise BadRecordError(f"wrong type: {name} holds a boolean")


def _holds_boolean(target: array[int], before: int, items: list[object]) -> bool:
    """Return whether a list holds ``true`` or ``false``, which an array takes for 1 and 0: only those need a look."""
    if len(items) < _SHORT_LIST:
        return bool in set(map(type, items))
    suspects = np.flatnonzero(np.frombuffer(target, target.typecode)[before:] <= 1).tolist()
    return any(isinstance(items[at], bool) for at in suspects)


def id_hash(format_name: str, provider: str | None, request_id: str | None) -> bytes:
    """Return 16 bytes for a request id within provider and format; zeros where there is none."""
    if request_id is None:
        return bytes(16)
    text = f"{format_name}\0{provider or ''}\0{request_id}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
