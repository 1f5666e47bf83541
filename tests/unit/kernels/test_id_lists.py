"""A list of ids is taken out of a line only where the rest says the same with it put back."""

from __future__ import annotations

import random

import numpy as np
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from prefixledger.kernels.id_lists_kernel import take_id_lists
from twins.id_lists import take_id_list

NAME = "ids"
WRAPPER = b'{"log":'
NAMES = ('"ids"', '"ids"', '"ids"', '"id"', '"idss"', '"i\\u0064s"', '"é"', '"\\\\"', '""', "ids", '"ids')
VALUES = (
    "[]", "[1,2]", "[ 1 , 2 ]", "[1,2,3,4]", "[0]", f"[{10**19 - 1}]", f"[{10**19}]", "[01]", "[-1]", "[1.0]", "[true]", "[[1]]",
    "[1,]", "[,1]", "[1 2]", "[1", '"[1]"', '"\\"ids\\":[1]"', '{"ids":[1]}', '[{"ids":[1]}]', "null", "7", "{", "}", '"\\', "\t[1]",
)  # fmt: skip
ENDS = ("}", "}", "}", "}\r", "} ", "}{}", "]", "", ',"x":1}', "}}", '}"')


def _line(draw: random.Random) -> bytes:
    odd = draw.random() < 0.7
    names, values = (NAMES, VALUES) if odd else (NAMES[:1], VALUES[:6])
    pairs = [f"{draw.choice(names)}:{draw.choice(values)}" for _ in range(draw.randrange(3) if odd else 1)]
    if draw.random() < 0.1:
        pairs.insert(0, draw.choice(('"log":1', ' "log":1', '"logs":1')))
    pairs.insert(draw.randrange(len(pairs) + 1), f'"a":{draw.choice(("1", "[]", "{}"))}')
    text = draw.choice(("{", "{", "{", "{ ", "[", " {", "")) if odd else "{"
    return (text + ",".join(pairs) + draw.choice(ENDS if odd else ENDS[:4])).encode()


def _loaded(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return "broken"


@given(st.integers(0, 1 << 40), st.booleans())
@example(0, True)
def test_lists_are_taken_as_the_twin_takes_them(seed: int, whole: bool) -> None:
    """A line is broken with its list or without, or what is left and the list are those of the twin."""
    draw = random.Random(seed)
    lines = [_line(draw) for _ in range(draw.randrange(1, 12))]
    data = b"\n".join(lines) + b"\n" * whole
    rest, ids = np.empty(len(data), np.uint8), np.empty(len(data) // 2 + 1, np.uint64)
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    counts = np.zeros(n_lines, np.int64)
    n_bytes, n_ids = take_id_lists(
        np.frombuffer(data, np.uint8),
        np.frombuffer(NAME.encode(), np.uint8),
        np.frombuffer(WRAPPER, np.uint8),
        rest,
        ids,
        counts,
    )
    assert n_ids == np.maximum(counts, 0).sum()
    copies, first = rest[:n_bytes].tobytes().split(b"\n"), 0
    for line, copy, count in zip(lines, copies, counts.tolist(), strict=False):
        wanted = take_id_list(line, NAME)
        if count < 0:
            assert copy == line
            rare = b"\\" in line or b"\t" in line or line.startswith(WRAPPER)
            assert wanted is None or rare  # of rare lines some are left as they are
            continue
        assert not line.startswith(WRAPPER)
        found = ids[first : first + count].tolist()
        first += count
        if wanted is None:
            assert _loaded(copy) == _loaded(line) == "broken"
        else:
            assert (_loaded(copy), found) == wanted
