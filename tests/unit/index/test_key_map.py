from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger.index.key_map import KeyMap

_WORD = st.sampled_from([0, 1, 2, 2**40, 2**63, 2**64 - 1])
_KEYS = st.lists(st.tuples(_WORD, _WORD, st.booleans()), max_size=120)


@settings(deadline=None)  # the first call compiles
@given(keys=_KEYS, cut=st.integers(0, 120))
def test_numbers_equal_those_of_a_dictionary(keys, cut):
    """Wanted keys are numbered in order of appearance, over any split into calls; the others get -1."""
    known: dict[tuple[int, int], int] = {}
    expected = [known.setdefault((a, b), len(known)) if wanted else -1 for a, b, wanted in keys]

    key_map = KeyMap()
    found: list[int] = []
    for part in (keys[:cut], keys[cut:]):
        words = np.array([key[:2] for key in part], np.uint64).reshape(-1, 2)
        found += key_map.number(words, np.array([key[2] for key in part], np.bool_)).tolist()

    assert found == expected
    assert len(key_map) == len(known)
    assert [tuple(key) for key in key_map.keys_from(0).tolist()] == list(known)


def test_numbers_survive_growth():
    """Ten thousand keys, far beyond the first table, keep their numbers when more come."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 2**64, (10_000, 2), np.uint64)
    wanted = np.ones(5_000, np.bool_)
    key_map = KeyMap()

    first = key_map.number(keys[:5_000], wanted)
    key_map.number(keys[5_000:], wanted)

    assert first.tolist() == list(range(5_000))
    assert key_map.number(keys, np.ones(10_000, np.bool_)).tolist() == list(range(10_000))
