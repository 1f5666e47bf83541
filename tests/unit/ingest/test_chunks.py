"""A stream is cut into chunks of whole records, wherever its blocks happen to end."""

from __future__ import annotations

import csv
import io

from hypothesis import example, given
from hypothesis import strategies as st

from prefixledger.ingest.chunks import Chunk, Chunker, csv_records, lines

PIECES = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b'"', b"\n\n", b" ", b","]), max_size=60)


def _chunks(data: bytes, block: int, chunk_bytes: int, *, quoted: bool) -> list[Chunk]:
    chunker = Chunker(chunk_bytes, quoted=quoted)
    found = [chunk for at in range(0, len(data), block) for chunk in chunker.feed(data[at : at + block])]
    return found + list(chunker.finish(cut=False))


@given(PIECES, st.integers(1, 20), st.integers(1, 30))
def test_lines_do_not_depend_on_blocks(pieces: list[bytes], block: int, chunk_bytes: int) -> None:
    """Every line comes once, with its number and place, and the chunks together are the stream."""
    data = b"".join(pieces)
    chunks = _chunks(data, block, chunk_bytes, quoted=False)
    assert b"".join(chunk.data for chunk in chunks) == data
    expected, offset = [], 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if raw.strip():
            expected.append((number, offset, raw))
        offset += len(raw) + 1
    assert [line for chunk in chunks for line in lines(chunk)] == expected


@given(
    st.lists(
        st.lists(st.sampled_from(["", "a", "b,c", 'q"q', "x\ny", "\n", "ü"]), min_size=2, max_size=2),
        max_size=12,
    ),
    st.integers(1, 20),
    st.integers(1, 30),
)
def test_quoted_line_ends_belong_to_the_record(rows: list[list[str]], block: int, chunk_bytes: int) -> None:
    """What a CSV writer wrote comes back record by record, line ends inside quotes included."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    data = out.getvalue().encode()
    chunks = _chunks(data, block, chunk_bytes, quoted=True)
    found = [record for chunk in chunks for record in csv_records(chunk)]
    assert [next(csv.reader([raw.decode()])) for _, _, raw in found] == rows
    for line, offset, raw in found:
        assert data[offset : offset + len(raw)] == raw
        assert line == 1 + data[:offset].count(b"\n")


def test_the_last_record_may_lack_its_end() -> None:
    """A chunk says whether its last record has a line end, and whether the stream is known to be cut."""
    chunker = Chunker(100, quoted=False)
    assert not list(chunker.feed(b"one\ntwo"))
    first, last = chunker.finish(cut=False)
    assert (first.data, first.cut, last.data, last.cut) == (b"one\n", "no", b"two", "perhaps")
    chunker = Chunker(100, quoted=False)
    list(chunker.feed(b"two"))
    assert [chunk.cut for chunk in chunker.finish(cut=True)] == ["surely"]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5), st.booleans(), st.integers(0, 2)), max_size=12),
    st.integers(1, 200),
)
@example([(9, 3, False, 1)], 1)
def test_lines_that_a_runtime_split_are_whole_again(
    rows: list[tuple[int, int, bool, int]], chunk_bytes: int
) -> None:
    """Kubernetes' pieces are joined wherever the chunks end, over blank lines, too; what was not split stays what it is."""
    data, expected, line = b"", [], 1
    for length, pieces, error, blank in rows:
        stream, text = ("stderr" if error else "stdout"), "x" * length
        at = "2026-11-29T10:00:00.1Z"
        step = -(-length // pieces)
        parts = [text[start : start + step] for start in range(0, length, step)]
        expected.append((line, f"{at} {stream} F {text}".encode()))
        for number, part in enumerate(parts):
            data += f"{at} {stream} {'F' if number == len(parts) - 1 else 'P'} {part}\n".encode()
            data += b" \n" * blank
        line += len(parts) * (1 + blank)
    chunks = _chunks(data, 1 + chunk_bytes // 2, chunk_bytes, quoted=False)
    assert [(number, raw) for chunk in chunks for number, _, raw in lines(chunk)] == expected


def test_rows_are_not_put_together() -> None:
    """What looks like a piece is a row of CSV, with quotes in its chunk and without."""
    piece = b"2026-11-29T10:00:00.1Z stdout P x,1"
    for other in (b"a,1", b'"a",1'):
        found = csv_records(Chunk(b"\n".join([piece, piece, other]), 1, 0))
        assert [raw for _, _, raw in found] == [piece, piece, other]
