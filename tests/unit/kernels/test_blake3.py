from __future__ import annotations

import numpy as np
from blake3 import blake3
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prefixledger.ingest.digests import line_digests

_LENGTHS = st.integers(0, 200) | st.sampled_from([63, 64, 65, 1023, 1024, 1025, 2049])


@settings(deadline=None)  # the first call compiles
@given(lengths=st.lists(_LENGTHS, max_size=40), seed=st.integers(0, 1 << 30), rest=st.integers(0, 70))
@example([0], 1, 0)
@example([64] * 9 + [1] * 9, 1, 0)
@example([1024, 1025, 0, 5], 1, 64)
def test_lines_side_by_side_equal_the_library(lengths, seed, rest):
    """Whatever stands in the other lanes, behind a line, or behind the last of all."""
    data = np.random.default_rng(seed).bytes(sum(lengths) + rest)
    end = np.cumsum(lengths, dtype=np.int64)
    begin = end - np.array(lengths, np.int64)
    wanted = [blake3(data[at:to]).digest(8) for at, to in zip(begin, end, strict=True)]
    assert line_digests(data, begin, end).tobytes() == b"".join(wanted)
