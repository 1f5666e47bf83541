"""vLLM's own block keys, recomputed from token ids, so that what an engine reports can be told by content."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

Algorithm = Literal["sha256", "sha256_cbor"]

DEFAULT_SEED: Final = "vllm-none-hash"
"""What the chain begins with since 0.30 where PYTHONHASHSEED is not set; before, 32 random bytes of the process."""

_PROTOCOL: Final = 5
"""Highest pickle protocol of every Python that vLLM runs on."""
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY = 0, 1, 2, 3, 4
_FALSE, _TRUE, _NULL = b"\xf4", b"\xf5", b"\xf6"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How an engine makes keys.

    Attributes:
        algorithm: ``prefix_caching_hash_algo``: ``sha256`` (over a pickle, the default) or ``sha256_cbor``.
        seed: PYTHONHASHSEED of the engine; None is the fixed seed of 0.30 and later.
    """

    algorithm: Algorithm = "sha256"
    seed: str | None = None

    @property
    def root(self) -> bytes:
        """The parent of every first block (``NONE_HASH``)."""
        return self.digest(DEFAULT_SEED if self.seed is None else self.seed)

    def digest(self, value: Any) -> bytes:
        """Return the 32 bytes of a value."""
        packed = cbor(value) if self.algorithm == "sha256_cbor" else pickle.dumps(value, protocol=_PROTOCOL)
        return sha256(packed).digest()


def block_keys(
    tokens: Sequence[int],
    block_size: int,
    rule: KeyRule,
    *,
    extra: Sequence[tuple[Any, ...] | None] = (),
    parent: bytes | None = None,
) -> list[bytes]:
    """Return the 32-byte keys of the full blocks of a prompt, in order.

    Args:
        tokens: Token ids.
        block_size: Tokens a block.
        rule: How the engine makes keys.
        extra: Extra keys of each block, None where it has none; see ``extra_keys``.
        parent: Key of the block before; None for the start of a prompt.

    Raises:
        UsageError: ``sha256`` over extra keys in which something occurs twice: a pickle depends on whether both are one
            object, so only ``sha256_cbor`` can be recomputed then.
    """
    key = rule.root if parent is None else parent
    keys = []
    for number in range(len(tokens) // block_size):
        beside = extra[number] if number < len(extra) else None
        if rule.algorithm == "sha256" and _repeats(beside):
            raise UsageError(
                "the sha256 key of a block whose extra keys repeat a value cannot be recomputed",
                hint="run the engine with --prefix-caching-hash-algo sha256_cbor",
            )
        content = tuple(int(token) for token in tokens[number * block_size : (number + 1) * block_size])
        key = rule.digest((key, content, beside))
        keys.append(key)
    return keys


def extra_keys(
    n_blocks: int,
    block_size: int,
    *,
    lora: str | int | None = None,
    images: Sequence[tuple[str, int, int]] = (),
    salt: str | None = None,
    image_offsets: bool = True,
    tagged_salt: bool = False,
) -> list[tuple[Any, ...] | None]:
    """Return what goes into the key of each block beside its tokens: adapter, images, salt, in this order.

    Args:
        n_blocks: Full blocks of the prompt.
        block_size: Tokens a block.
        lora: Adapter, in every block: its name from 0.16 to 0.30, its number in 0.11.
        images: Identifier, first token and number of tokens of each, in order of the prompt; in every block that it
            overlaps.
        salt: Cache salt, in the first block alone.
        image_offsets: Whether the place of an image, counted from the start of the block, goes in too (0.20 and later).
        tagged_salt: Whether the salt has its name beside it (0.32 and later).
    """
    found = []
    for number in range(n_blocks):
        start, end = number * block_size, (number + 1) * block_size
        beside: list[Any] = [] if lora is None else [lora]
        for name, first, length in images:
            if first < end and first + length > start:
                beside.append((name, first - start) if image_offsets else name)
        if salt and number == 0:
            beside.append(("cache_salt", salt) if tagged_salt else salt)
        found.append(tuple(beside) or None)
    return found


def low64(key: bytes) -> int:
    """Return a key as KV events carry it (``VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES``, on by default)."""
    return int.from_bytes(key, "big") & 0xFFFF_FFFF_FFFF_FFFF


def cbor(value: Any) -> bytes:
    """Return the canonical CBOR (RFC 8949) of integers below 2**64, bytes, text, null, booleans and sequences of these.

    Raises:
        UsageError: The value is none of them.
    """
    out = bytearray()
    _append(out, value)
    return bytes(out)


def _append(out: bytearray, value: Any) -> None:
    if value is None:
        out += _NULL
    elif isinstance(value, bool):
        out += _TRUE if value else _FALSE
    elif isinstance(value, int):
        out += _head(_NEGATIVE, -1 - value) if value < 0 else _head(_UNSIGNED, value)
    elif isinstance(value, bytes):
        out += _head(_BYTES, len(value)) + value
    elif isinstance(value, str):
        text = value.encode()
        out += _head(_TEXT, len(text)) + text
    elif isinstance(value, (tuple, list)):
        out += _head(_ARRAY, len(value))
        for item in value:
            _append(out, item)
    else:
        raise UsageError(f"a {type(value).__name__} cannot be part of a block key")


def _head(kind: int, number: int) -> bytes:
    """Return type and argument in the fewest bytes that hold them."""
    if number < 24:  # CBOR keeps numbers up to 23 in the first byte
        return bytes([kind << 5 | number])
    for extent in (1, 2, 4, 8):
        if number < 1 << 8 * extent:
            return bytes([kind << 5 | 24 + extent.bit_length() - 1]) + number.to_bytes(extent, "big")
    raise UsageError("an integer of more than 64 bits cannot be part of a block key")


def _repeats(value: tuple[Any, ...] | None) -> bool:
    """Tell whether some text, bytes or tuple stands twice in extra keys: pickle writes one object only once."""
    seen: list[Any] = []

    def walk(item: Any) -> bool:
        if not isinstance(item, (str, bytes, tuple)) or item == ():
            return False
        if any(type(other) is type(item) and other == item for other in seen):
            return True
        seen.append(item)
        return isinstance(item, tuple) and any(walk(inner) for inner in item)

    return value is not None and walk(value)
