"""Sequence hashes of NVIDIA Dynamo, which its request traces name blocks by, from the block hashes of its KV events."""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_SEED: Final = 1337
# XXH3 of 16 bytes with a seed, from the words of its secret at bytes 24, 32, 40 and 48 (xxHash specification, XXH3).
_FLIP_LOW: Final = ((0x1F67B3B7A4A44072 ^ 0x78E5C0CC4EE679CB) + _SEED) & _MASK
_FLIP_HIGH: Final = ((0x2172FFCC7DD05A82 ^ 0x8E2443F7744608B8) - _SEED) & _MASK
_PRIME: Final = 0x165667919E3779F9
_LENGTH: Final = 16


def sequence_hash(parent: int, block: int) -> int:
    """Return the hash of a block and all before it: xxh3_64(parent || block), both 8 bytes little-endian, seed 1337.

    The first block of a prompt has its own hash as sequence hash.

    Args:
        parent: Sequence hash of the block before.
        block: Hash of the block's own tokens (``tokens_hash``).
    """
    low, high = parent ^ _FLIP_LOW, block ^ _FLIP_HIGH
    product = low * high
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    mixed = (_LENGTH + swapped + high + ((product & _MASK) ^ (product >> 64))) & _MASK
    mixed = (mixed ^ (mixed >> 37)) * _PRIME & _MASK
    return mixed ^ (mixed >> 32)
