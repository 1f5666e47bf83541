from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.errors import InternalError
from prefixledger.kernels.blake2b_kernel import WIDE_PERSON, chain_keys, key_bytes, root_keys, token_labels

_U64 = st.integers(0, 2**64 - 1)


def digest(data: bytes, person: bytes = b"") -> bytes:
    """Return the digest of the standard library."""
    return blake2b(data, digest_size=16, person=person).digest()


@settings(deadline=None)  # the first call compiles
@given(data=st.data(), names=st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_keys_equal_the_standard_library(data, names):
    """A key is BLAKE2b-128 of the parent's key and the label, byte for byte; roots are digests of names."""
    count = data.draw(st.integers(0, 12))
    parent = [data.draw(st.integers(-len(names), node - 1)) for node in range(count)]
    labels = data.draw(st.lists(st.tuples(_U64, _U64), min_size=count, max_size=count))
    high, low = (np.array([label[half] for label in labels], np.uint64) for half in (0, 1))

    keys = key_bytes(chain_keys(np.array(parent, np.int64), high, low, root_keys(names)))

    expected: list[bytes] = []
    for above, (hi, lo) in zip(parent, labels, strict=True):
        start = expected[above] if above >= 0 else digest(names[-1 - above].encode())
        expected.append(digest(start + hi.to_bytes(8, "little") + lo.to_bytes(8, "little")))
    assert keys == b"".join(expected)


def label_of(tokens: list[int], extra: bytes) -> tuple[int, int]:
    """Return the label of one block the plain way."""
    wide = max(tokens) > 0xFFFFFFFF
    data = b"".join(token.to_bytes(8 if wide else 4, "little") for token in tokens)
    found = digest(data + extra, WIDE_PERSON if wide else b"")
    return int.from_bytes(found[:8], "little"), int.from_bytes(found[8:], "little")


@settings(deadline=None)  # the first call compiles
@given(
    rows=st.lists(st.lists(st.integers(0, 2**32 - 1) | _U64, max_size=90), max_size=4),
    block_size=st.integers(1, 70),
    seed=st.integers(0, 3),
)
def test_labels_equal_the_standard_library(rows, block_size, seed):
    """Every full block is hashed as its ids, then its extra bytes; ids above 32 bits make the block wide."""
    expected, extra = [], {}
    for row in rows:
        for begin in range(0, len(row) - block_size + 1, block_size):
            block = len(expected)
            if block % 4 < seed:
                extra[block] = bytes([block % 256]) * (block % 3)
            expected.append(label_of(row[begin : begin + block_size], extra.get(block, b"")))
    tokens = np.array([token for row in rows for token in row], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)])

    high, low, block_offsets = token_labels(tokens, offsets, block_size, extra)

    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected
    assert np.diff(block_offsets).tolist() == [len(row) // block_size for row in rows]


@pytest.mark.parametrize("block_size", [16, 32, 33, 64, 65, 512])
def test_blocks_of_every_usual_size(block_size):
    """Messages of less than, exactly and more than one chunk of 128 bytes give the library's digest."""
    tokens = np.arange(2 * block_size, dtype=np.uint32) * np.uint32(2654435761)

    high, low, _ = token_labels(tokens, np.array([0, 2 * block_size]), block_size)

    ids = tokens.tolist()
    assert (int(high[1]), int(low[1])) == label_of(ids[block_size:], b"")
    assert (int(high[0]), int(low[0])) == label_of(ids[:block_size], b"")


def test_wide_ids_cannot_pass_for_narrow_ones_with_extra_bytes():
    """Eight-byte ids are hashed under another personalisation: equal bytes do not give an equal label."""
    wide = np.array([1 << 40, 2], np.uint64)
    as_words = np.frombuffer(wide.tobytes(), np.uint32)

    high, low, _ = token_labels(wide, np.array([0, 2]), 2)
    high_2, low_2, _ = token_labels(as_words, np.array([0, 2]), 2, {0: as_words[2:].tobytes()})

    assert (high[0], low[0]) != (high_2[0], low_2[0])


def test_bad_arguments_are_refused():
    """No kernel is started on arrays that do not fit each other."""
    one, two = np.zeros(1, np.uint64), np.zeros(2, np.uint64)
    with pytest.raises(InternalError, match="differ"):
        chain_keys(np.array([-1]), one, two, root_keys(["a"]))
    with pytest.raises(InternalError, match="before its child"):
        chain_keys(np.array([0]), one, one, root_keys(["a"]))
    with pytest.raises(InternalError, match="before its child"):
        chain_keys(np.array([-2]), one, one, root_keys(["a"]))
    with pytest.raises(InternalError, match="cannot be hashed"):
        token_labels(two, np.array([0, 2]), 0)
    with pytest.raises(InternalError, match="do not fit"):
        token_labels(two, np.array([0, 3]), 1)
