"""vLLM's block keys: golden vectors computed with vLLM 0.33 itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.errors import UsageError
from prefixledger.kernels.vllm_keys import KeyRule, block_keys, cbor, extra_keys, low64

TOKENS = tuple(range(1, 13))

GOLDEN = [
    ("sha256", None, "066b1e89", ("52a7f141", "bee96bce", "41609895"), 6861639779391821457),
    ("sha256", "0", "1973e238", ("762b2e7e", "9e62b5a7", "fd503875"), 8105927037106591648),
    ("sha256_cbor", None, "9bd96a48", ("58d0879d", "e1bc2939", "321cf73a"), 16642949654738151050),
    ("sha256_cbor", "0", "4e1195df", ("c9d58ba6", "24125b23", "e628d7f6"), 15775340307203827378),
]


@pytest.mark.parametrize(("algorithm", "seed", "root", "heads", "last"), GOLDEN)
def test_keys_equal_those_of_vllm(algorithm, seed, root, heads, last):
    """Root, three chained blocks and the integer form of KV events are vLLM's own, for both algorithms and seeds."""
    rule = KeyRule(algorithm, seed)
    keys = block_keys(TOKENS, 4, rule)
    assert rule.root.hex().startswith(root)
    assert tuple(key.hex()[:8] for key in keys) == heads
    assert low64(keys[-1]) == last


@pytest.mark.parametrize(("algorithm", "head"), [("sha256", "15872c45"), ("sha256_cbor", "e1fbc58a")])
def test_a_salt_changes_the_first_key_as_in_vllm(algorithm, head):
    """The tagged salt of 0.32 and later goes into the first block only, and through the chain into all others."""
    beside = extra_keys(3, 4, salt="tenantA", tagged_salt=True)
    assert beside == [(("cache_salt", "tenantA"),), None, None]
    keys = block_keys(TOKENS, 4, KeyRule(algorithm, "0"), extra=beside)
    assert keys[0].hex().startswith(head)
    assert keys[2] != block_keys(TOKENS, 4, KeyRule(algorithm, "0"))[2]


def test_a_partial_block_has_no_key_and_a_chain_goes_on_from_its_parent():
    """Only full blocks have keys, and keys of the rest of a prompt follow from the key before it."""
    rule = KeyRule("sha256_cbor")
    whole = block_keys((*TOKENS, 99), 4, rule)
    assert len(whole) == 3
    assert block_keys(TOKENS[4:], 4, rule, parent=whole[0]) == whole[1:]


def test_extra_keys_hold_adapter_images_and_salt_in_this_order():
    """The adapter is in every block, an image in those it overlaps with its place from there, the salt in the first."""
    beside = extra_keys(3, 4, lora="sql", images=[("img", 2, 4)], salt="s")
    assert beside == [("sql", ("img", 2), "s"), ("sql", ("img", -2)), ("sql",)]
    assert extra_keys(1, 4, lora=7, images=[("img", 2, 4)], image_offsets=False) == [(7, "img")]
    assert extra_keys(2, 4) == [None, None]


def test_a_pickle_of_repeated_values_is_refused():
    """Two equal texts may or may not be one object in the engine, so that key is not made up; CBOR does not care."""
    beside = [("a", ("a", 0))]
    with pytest.raises(UsageError, match="cannot be recomputed"):
        block_keys(TOKENS[:4], 4, KeyRule("sha256"), extra=beside)
    assert len(block_keys(TOKENS[:4], 4, KeyRule("sha256_cbor"), extra=beside)) == 1


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (0, "00"), (23, "17"), (24, "1818"), (255, "18ff"), (256, "190100"), (65_536, "1a00010000"),
        (1 << 32, "1b0000000100000000"), (-1, "20"), (-500, "3901f3"), (b"\x01\x02", "420102"),
        ("ü", "62c3bc"), (None, "f6"), (True, "f5"), ((), "80"), ((1, (2, None)), "82018202f6"),
    ],
)  # fmt: skip
def test_cbor_is_canonical(value, packed):
    """Every number takes the fewest bytes (examples of RFC 8949, appendix A)."""
    assert cbor(value).hex() == packed


@pytest.mark.parametrize("value", [1.5, {"a": 1}, 1 << 64, (1, {2})])
def test_cbor_refuses_what_no_key_holds(value):
    """Floats, maps and larger integers never stand in a key."""
    with pytest.raises(UsageError):
        cbor(value)


@given(st.lists(st.integers(0, 1 << 40), min_size=8, max_size=40), st.integers(1, 8))
def test_equal_prefixes_have_equal_keys(tokens, block_size):
    """A key depends on the tokens before it and on nothing behind it."""
    rule = KeyRule("sha256_cbor", "0")
    keys = block_keys(tokens, block_size, rule)
    assert keys[: len(keys) // 2] == block_keys(tokens[: len(keys) // 2 * block_size], block_size, rule)
    changed = block_keys([tokens[0] + 1, *tokens[1:]], block_size, rule)
    assert not set(keys) & set(changed)
