"""KV cache events in every spelling, turned into one row a block."""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prefixledger.errors import UsageError
from prefixledger.ingest.fields import (
    checked_count,
    integer,
    mapping,
    maybe_count,
    maybe_text,
    shown,
    wrong_type,
)
from prefixledger.ingest.moments import moment_us
from prefixledger.ingest.records import BadRecordError
from prefixledger.kernels.vllm_keys import KeyRule, block_keys, low64

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STORED, REMOVED, CLEARED = "stored", "removed", "cleared"
_KINDS: Final = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": CLEARED}
_FIELDS: Final = {
    STORED: (
        "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
        "group_idx",
    ),
    REMOVED: ("block_hashes", "medium", "group_idx"),
    CLEARED: (),
}  # fmt: skip
"""Order of the positional arrays that vLLM up to 0.22 and SGLang up to 0.5.10 send."""
_RULES: Final = tuple(
    KeyRule(algorithm, seed) for algorithm in ("sha256", "sha256_cbor") for seed in (None, "0")
)
_HEX: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{32}|[0-9a-fA-F]{64})")
_U64: Final = (1 << 64) - 1
_MAX_U32: Final = (1 << 32) - 1


class KVRow(NamedTuple):
    """One block of one event, or one event without blocks; see ``schema.KV_EVENTS``."""

    at_us: int
    replica: str | None
    rank: int | None
    kind: str
    block_hash: int | None = None
    parent_hash: int | None = None
    block_size: int | None = None
    medium: str | None = None
    group: int | None = None
    adapter: str | None = None
    cache_salt: str | None = None
    label: bytes | None = None
    hash_rule: str | None = None
    tokens_hash: int | None = None


def is_event(item: Any) -> bool:
    """Tell whether a value is an event of vLLM or SGLang: a map with its type, or an array that begins with it."""
    kind = (
        item.get("type") if isinstance(item, dict) else item[0] if isinstance(item, list) and item else None
    )
    return isinstance(kind, str) and kind in _KINDS


def kv_rows(value: Any) -> tuple[KVRow, ...] | None:
    """Return the rows of one record, or None where it has no time, without which nothing can be held against it.

    Args:
        value: A batch of vLLM or SGLang (map, or ``[ts, events, rank]``), or a router event of Dynamo.

    Raises:
        BadRecordError: An event in it is malformed.
    """
    if isinstance(value, list):
        record: dict[str, Any] = dict(zip(("ts", "events", "dp_rank"), value, strict=False))
    else:
        record = mapping(value)
    if isinstance(record.get("events"), list):
        at_us = _time(record.get("ts"))
        if at_us is None:
            return None
        rank = _rank(record, "dp_rank", "data_parallel_rank", "attn_dp_rank")
        replica = maybe_text(record, "replica")
        return tuple(
            row._replace(at_us=at_us, replica=replica, rank=rank)
            for event in record["events"]
            if is_event(event)
            for row in _rows_of(event)
        )
    return _dynamo(record)


def _time(value: Any) -> int | None:
    """Return a moment in microseconds since 1970; None for what is no date of our time."""
    try:
        return None if value is None else moment_us(value, "ts")[0]
    except BadRecordError:
        return None


def _rank(record: Mapping[str, Any], *names: str) -> int | None:
    return next((rank for name in names if (rank := maybe_count(record, name)) is not None), None)


def _rows_of(event: Any) -> Iterator[KVRow]:
    if isinstance(event, list):
        kind = _KINDS[event[0]]
        fields: Mapping[str, Any] = dict(zip(_FIELDS[kind], event[1:], strict=False))
    else:
        kind, fields = _KINDS[event["type"]], event
    if kind == CLEARED:
        yield KVRow(0, None, None, CLEARED)
        return
    medium, group = maybe_text(fields, "medium"), maybe_count(fields, "group_idx")
    hashes = [block_hash(item) for item in _listed(fields, "block_hashes")]
    if kind == REMOVED:
        yield from (KVRow(0, None, None, REMOVED, item, medium=medium, group=group) for item in hashes)
        return
    yield from _stored(fields, hashes, medium, group)


def _stored(
    fields: Mapping[str, Any], hashes: Sequence[int], medium: str | None, group: int | None
) -> Iterator[KVRow]:
    size = checked_count(fields.get("block_size"), "block_size")
    parent = fields.get("parent_block_hash")
    before = None if parent is None else block_hash(parent)
    tokens = fields.get("token_ids")
    if tokens is not None and (not isinstance(tokens, list) or len(tokens) != size * len(hashes) or not size):
        raise BadRecordError(f"token count: {shown(tokens)} are not {len(hashes)} blocks of {size} tokens")
    adapter, salts, plain = _beside(fields, len(hashes))
    tokens = tokens if plain else None
    rule = (
        _rule(tokens[:size], size, hashes[0])
        if tokens and before is None and not (adapter or salts[0])
        else None
    )
    for number, item in enumerate(hashes):
        yield KVRow(
            0, None, None, STORED, item, before, size, medium, group, adapter, salts[number],
            None if tokens is None else label_of(tokens[number * size : (number + 1) * size]), rule if number == 0 else None,
        )  # fmt: skip
        before = item


def _beside(fields: Mapping[str, Any], n_blocks: int) -> tuple[str | None, list[str | None], bool]:
    """Return adapter, the salt of each block, and whether nothing else but tokens makes the keys.

    vLLM puts adapter, images, salt and embeddings side by side and names none of them; a text beside the adapter's name
    in the first block of a prompt is its salt, and what is no single text is an image or worse.
    """
    adapter = maybe_text(fields, "lora_name")
    salts = [maybe_text(fields, "cache_salt")] + [None] * (n_blocks - 1)
    plain = fields.get("lookahead_token_ids") is None and (
        adapter is not None or fields.get("lora_id") is None
    )
    listed = fields.get("extra_keys")
    if listed is None:
        return adapter, salts, plain
    if not isinstance(listed, list) or len(listed) != n_blocks:
        raise wrong_type("extra_keys", listed, "a list of one entry a block")
    for number, extra in enumerate(listed):
        rest = [item for item in (extra or []) if item != adapter]
        first = number == 0 and fields.get("parent_block_hash") is None
        if rest and first and len(rest) == 1 and isinstance(rest[0], str):
            salts[0] = rest[0]
        elif rest:
            plain = False
    return adapter, salts, plain


def _rule(tokens: Sequence[int], size: int, found: int) -> str | None:
    """Return the rule of vLLM that gives a first block its key: then keys mean the same in every process."""
    try:
        return next(
            (f"{rule.algorithm}/{rule.seed or 'default'}" for rule in _RULES
             if low64(block_keys(tokens, size, rule)[0]) == found),
            None,
        )  # fmt: skip
    except (UsageError, TypeError, ValueError):
        return None


def label_of(tokens: Sequence[int]) -> bytes | None:
    """Return the label under which the same block of a request stands in ``paths``; None for ids above 32 bits.

    Raises:
        BadRecordError: They are no token ids.
    """
    try:
        if max(tokens) > _MAX_U32:
            return None
        packed = array("I", tokens)
    except (TypeError, OverflowError, ValueError):
        raise BadRecordError("wrong type: token_ids is no list of numbers") from None
    return blake2b(packed.tobytes(), digest_size=16).digest()


def block_hash(value: Any) -> int:
    """Return a block hash as 64 bits: an integer of either sign, or the last 8 bytes of a digest.

    Raises:
        BadRecordError: It is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value <= _U64:
        return value & _U64
    if isinstance(value, str):
        match = _HEX.fullmatch(value)
        if match is not None:
            return int(match[1], 16) & _U64
        number = integer(value)
        if number is not None and 0 <= number <= _U64:
            return number
    if isinstance(value, list) and value and all(type(item) is int and item >> 8 == 0 for item in value):
        return int.from_bytes(bytes(value), "big") & _U64
    raise wrong_type("block hash", value, "a number or a digest")


def _listed(fields: Mapping[str, Any], name: str) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list):
        raise wrong_type(name, found, "a list")
    return found


def _dynamo(record: Mapping[str, Any]) -> tuple[KVRow, ...] | None:
    """Read ``{worker_id, event: {data, dp_rank}}``, bare or wrapped as ``{timestamp, event}`` by a recorder."""
    at_us = _time(record.get("timestamp", record.get("ts")))
    if at_us is None:
        return None
    inner = mapping(record, "event")
    if "worker_id" not in record and isinstance(inner.get("event"), dict):
        record, inner = inner, inner["event"]
    worker = maybe_count(record, "worker_id", limit=_U64)
    replica = None if worker is None else str(worker)
    medium, rank = maybe_text(record, "storage_tier"), maybe_count(inner, "dp_rank")
    medium = "GPU" if medium is None or medium.lower() in ("gpu", "device") else medium
    data = inner.get("data")
    if data == CLEARED:
        return (KVRow(at_us, replica, rank, CLEARED),)
    known = mapping({"data": data}, "data")
    rows: list[KVRow] = []
    if STORED in known:
        stored = mapping(known, STORED)
        before = None if stored.get("parent_hash") is None else block_hash(stored["parent_hash"])
        for block in _listed(stored, "blocks"):
            item, own = block_hash(mapping(block).get("block_hash")), block.get("tokens_hash")
            plain = own is not None and not block.get("mm_extra_info")
            hashed = block_hash(own) if plain else None
            rows.append(KVRow(at_us, replica, rank, STORED, item, before, medium=medium, tokens_hash=hashed))
            before = item
    if REMOVED in known:
        gone = _listed(mapping(known, REMOVED), "block_hashes")
        rows += [KVRow(at_us, replica, rank, REMOVED, block_hash(item), medium=medium) for item in gone]
    return tuple(rows)
