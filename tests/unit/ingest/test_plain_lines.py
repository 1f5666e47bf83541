"""Lines that a kernel reads say the same as when a parser reads them, and what is odd goes to the parser."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prefixledger.ingest import plain
from prefixledger.ingest.batch import ROW_FIELDS, Batch
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.overrides import Overrides
from prefixledger.ingest.parse import parse_chunk
from prefixledger.ingest.plain import plain_fields, read_chunk
from prefixledger.ingest.reader import Context
from prefixledger.ingest.readers.mooncake import MooncakeReader
from prefixledger.ingest.records import Row
from prefixledger.kernels.plain_lines_kernel import IDS, NUMBER, TEXT, read_plain_lines
from twins.plain_lines import read_plain_line

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT = Context("mooncake", "log.jsonl", "json", fallback_block_size=4)
KINDS = {"a": "number", "ab": "text", "ids": "ids"}
CODES = {"number": NUMBER, "text": TEXT, "ids": IDS}

NUMBERS = ("0", "7", "10", "05", "-1", "1.0", "1e2", "true", "null", "9" * 18, "9" * 19, "")
TEXTS = ('""', '"x y"', '"\\u0041"', '"é"', '"\\""', '"', "12", "0012", "1.5", "null", '"a\tb"', '"~{}[]:,"')
LISTS = ("[]", "[1]", "[1,2]", "[ 1 , 2 ]", "[1,]", "[,1]", "[01]", "[1 2]", "[-1]", "[" + "9" * 19 + "]",
         f"[{2**64 - 1}]", f"[{2**64}]", "[true]", "[1.0]", "[[1]]", "[1", "null", "[1,2,3,4,5]")  # fmt: skip
SPACES = ("", "", "", " ", "  ", "\t")
ENDS = ("", "", "\r", "\r\r", " ", "x", ",", "}", '{"a":1}')


def _line(draw: random.Random, values: dict[str, tuple[str, ...]]) -> bytes:
    """Write an object of some fields, most of them plain, with something odd here and there."""
    odd = draw.random() < 0.6
    names = [name for name in values if draw.random() < 0.9]
    if odd:
        draw.shuffle(names)
        names += draw.choices([*values, "other", "idx", ""], k=draw.choice((0, 0, 0, 1)))
    pairs = [
        f'"{name}"{draw.choice(SPACES) if odd else ""}:'
        f"{draw.choice(values.get(name, NUMBERS)[: None if odd else 2])}"
        for name in names
    ]
    text = "{" + ",".join(pairs) + "}" + (draw.choice(ENDS) if odd else "")
    if odd and draw.random() < 0.1:
        text = draw.choice(("", " ", " " + text, text[: draw.randrange(1, len(text))], "[1]", "\x00"))
    return text.encode("utf-8").replace(b"\n", b"")


def _long_list(draw: random.Random) -> str:
    """Write ids that mostly have as many digits as the one before, and often a byte among them that is not as usual."""
    digits, ids = draw.randrange(1, 10), []
    for _ in range(draw.randrange(30)):
        digits = digits if draw.random() < 0.9 else draw.randrange(1, 20)
        ids.append(str(draw.randrange(10 ** (digits - 1), 10**digits)))
    text = list("[" + draw.choice((",", ", ")).join(ids) + "]")
    for _ in range(draw.choice((0, 0, 1, 2))):
        text[draw.randrange(len(text))] = draw.choice("0019,:/ ]-\xff")
    return "".join(text)


@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from((1, 60, 1 << 20)))
@example(0, True, 1)
def test_the_kernel_equals_its_twin(seed: int, whole: bool, step: int) -> None:
    """Every line is plain or not, and says the same, however many are read in one go."""
    draw = random.Random(seed)
    lists = (_long_list(draw), _long_list(draw), *LISTS)
    lines = [_line(draw, {"a": NUMBERS, "ab": TEXTS, "ids": lists}) for _ in range(draw.randrange(1, 12))]
    data = b"\n".join(lines) + b"\n" * (whole or not any(lines))  # no chunk is empty
    lines = data.split(b"\n")[: -1 if data.endswith(b"\n") else None]
    n_lines = len(lines)
    start, close, n_ids = (np.zeros(n_lines, np.int64) for _ in range(3))
    is_plain, values = np.zeros(n_lines, np.bool_), np.zeros((n_lines, 6), np.int64)
    ids = np.zeros(len(data) // 2 + 1, np.uint64)
    at = read = count = 0
    while at < len(data):
        at, read, count = read_plain_lines(
            np.frombuffer(data, np.uint8), at, min(at + step, len(data)), np.frombuffer("".join(KINDS).encode(), np.uint8),
            np.cumsum([len(name) for name in KINDS]), np.array([CODES[kind] for kind in KINDS.values()], np.uint8),
            list(KINDS).index("a"), 4, start, close, is_plain, values, ids, n_ids, read, count,
        )  # fmt: skip
    assert read == n_lines
    assert start.tolist() == np.cumsum([0, *(len(line) + 1 for line in lines[:-1])]).tolist()
    first_id = 0
    for row, line in enumerate(lines):
        wanted = read_plain_line(line, KINDS)
        assert is_plain[row] == (wanted is not None), line
        if wanted is None:
            assert (n_ids[row], close[row]) == (0, start[row])
            continue
        number, begin, end = values[row, 0], values[row, 2], values[row, 3]
        said: dict[str, object] = {"a": int(number)} if number >= 0 else {}
        if begin >= 0:
            said["ab"] = data[begin:end].decode()
        if n_ids[row] >= 0:
            full, rest = divmod(number, 4)
            kept = n_ids[row] - (number >= 0 and rest > 0 and n_ids[row] == full + 1)
            said["ids"] = ids[first_id : first_id + kept].tolist() + wanted["ids"][kept : n_ids[row]]
            first_id += kept
        assert said == wanted
        assert data[start[row] : close[row]] == line.rstrip(b"\r")
    assert count == first_id


def _rows(batch: Batch) -> Iterator[tuple[object, ...]]:
    if batch.plain is None:
        yield from batch.rows
        return
    for at in range(batch.plain.counts.size):
        row = Row(started_us=0, prompt_tokens=None)
        for name, column in batch.plain.columns.items():
            value: Any = column[at]
            setattr(row, name, value if value is None or isinstance(value, str) else int(value))
        row.output_tokens = None if row.output_tokens == -1 else row.output_tokens
        yield tuple(getattr(row, name) for name in ROW_FIELDS)


def _told(batches: list[Batch]) -> dict[str, Any]:
    """Return all that batches say, as if they were one."""
    told: dict[str, list[Any]] = {
        name: []
        for name in ("fates", "lines", "offsets", "digests", "rows", "rejects", "sizes", "counts", "ids")
    }
    fit = plain.Fit()
    for batch in batches:
        before = len(told["fates"])
        told["rejects"] += [(before + record, *what) for record, *what in batch.rejects]
        told["fates"] += batch.fates
        for name in ("lines", "offsets", "digests"):
            told[name] += getattr(batch, name)
        told["rows"] += _rows(batch)
        held = batch.plain
        told["sizes"] += batch.block_sizes if held is None else [held.block_size] * held.counts.size
        told["counts"] += batch.id_counts if held is None else held.counts.tolist()
        told["ids"] += batch.ids if held is None else held.ids.tolist()
        fit.merge(batch.fit)
    return {**told, "fit": fit}


RECORD = {
    "timestamp": NUMBERS,
    "input_length": ("4", "5", "8", "9", "0", "100000001", *NUMBERS),
    "output_length": NUMBERS,
    "hash_ids": ("[1]", "[1,2]", *LISTS),
    "session_id": ('"s1"', '"s2"', f'"{"x" * 1_001}"', *TEXTS),
}


@pytest.mark.parametrize("rule", [None, "floor", "ceil"])
@given(seed=st.integers(0, 1 << 30))
def test_a_chunk_says_the_same_either_way(rule: Any, seed: int) -> None:
    """Rows, rejects with their places, digests and the fit of block ids, whatever stands between plain lines."""
    draw = random.Random(seed)
    lines = [_line(draw, RECORD) for _ in range(draw.randrange(1, 30))]
    chunk = Chunk(
        b"\n".join(lines) + b"\n" * draw.choice((0, 1)), 7, 1_000, draw.choice(("no", "perhaps", "surely"))
    )
    context = replace(CONTEXT, block_ids=rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "MIN_RUN", draw.choice((1, 3)))
        batches = read_chunk(chunk, context)
    assert _told(batches) == _told([parse_chunk(chunk, context)])


def test_runs_of_plain_lines_are_columns_and_the_rest_is_parsed() -> None:
    """A bad line among many plain ones costs them nothing; a few plain lines among others are parsed as well."""
    row = b'{"timestamp": 1, "input_length": 8, "output_length": 1, "hash_ids": [1, 2]}\n'
    chunk = Chunk(50 * row + b"{\n" + 50 * row + 3 * (5 * row + b"\n"), 1, 0)
    kinds = [batch.plain is not None for batch in read_chunk(chunk, CONTEXT)]
    assert kinds == [True, False, True, False]


def test_who_knows_better_than_the_log_is_heard() -> None:
    """What is put into every row, documents and other shapes go the long way, and so does every other format."""
    assert plain_fields(CONTEXT) == MooncakeReader.info.plain
    named = replace(CONTEXT, overrides=Overrides(named=(("replica", "pod-1"),)))
    for other in (
        named,
        replace(CONTEXT, document=True),
        replace(CONTEXT, shape="csv"),
        replace(CONTEXT, format="weka"),
    ):
        assert plain_fields(other) == ()
