"""What was read before is recognised: whole inputs, stretches of lines, request ids; single equal lines are kept."""

from __future__ import annotations

import gzip
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_support import FIXTURES, closes, ingest, mooncake, tree, write_lines
from prefixledger.errors import UsageError
from prefixledger.ingest.duplicates import MIN_STRETCH, NO_START, Seen, first_of_each, id_pairs

if TYPE_CHECKING:
    from pathlib import Path


def _rows(first: int, count: int) -> list[dict[str, Any]]:
    return [mooncake(at, [5, at + 10]) for at in range(first, first + count)]


def _dynamo(number: int, at: int = 0) -> dict[str, Any]:
    request = {
        "request_id": f"r{number}",
        "request_received_ms": 1_795_953_600_000 + at,
        "input_tokens": 16 + number,
    }
    event = {"schema": "dynamo.request.trace.v1", "event_type": "request_end"}
    return {**event, "event_time_unix_ms": 1_795_953_600_000 + at, "request": request}


def test_a_file_given_twice_changes_only_the_duplicate_count(tmp_path: Path) -> None:
    """In one call, in two, packed or renamed: rows, paths and rejects stay as they were to the byte."""
    path = write_lines(tmp_path / "a_blksz_16.jsonl", [*_rows(0, 30), b"{"])
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    once = ingest(tmp_path / "once", path)
    twice = ingest(tmp_path / "twice", path, path, packed)
    again = ingest(tmp_path / "once", packed)

    def data(root: Path) -> dict[str, bytes]:
        return {name: content for name, content in tree(root).items() if name != "manifest.json"}

    assert data(tmp_path / "once") == data(tmp_path / "twice")
    assert (again.account.records, again.account.duplicates, again.account.rejected) == (31, 31, 0)
    assert [a.seen_before for a in twice.summary.inputs] == [False, True, True]
    assert once.manifest["sources"] == twice.manifest["sources"]
    assert len(again.manifest["history"]) == 2
    same, named = (message for message in twice.summary.messages if "seen before" in message)
    assert "seen before, its 31 records are there and count once" in same
    assert f"seen before as {path.name}, its 31 records are duplicates" in named
    assert named in again.summary.messages
    assert closes(twice.summary)


def test_a_known_file_is_a_duplicate_before_its_clock_is_asked(tmp_path: Path) -> None:
    """A relative file read again needs neither --t0 nor --after; another one does."""
    path = write_lines(tmp_path / "a_blksz_16.jsonl", _rows(0, 5))
    other = write_lines(tmp_path / "b_blksz_16.jsonl", _rows(9, 5))
    ingest(tmp_path / "ws", path)
    assert ingest(tmp_path / "ws", path).account.seen_before
    with pytest.raises(UsageError, match="count from a start of their own") as caught:
        ingest(tmp_path / "ws", other)
    assert caught.value.exit_code == 2
    assert "--t0" in str(caught.value.hint)


def test_force_reads_a_known_file_again(tmp_path: Path) -> None:
    """With other choices the rows are replaced, and are no duplicates of themselves."""
    path = write_lines(tmp_path / "a.jsonl", [_dynamo(n) for n in range(20)])
    relative = write_lines(tmp_path / "b_blksz_16.jsonl", _rows(0, 5))
    ingest(tmp_path / "ws", path, relative)
    result = ingest(tmp_path / "ws", path, relative, force=True, t0=86_400_000_000 * 365)
    assert [a.kept for a in result.summary.inputs] == [20, 5]
    assert len(result.requests) == 25
    assert {str(row["started_at"].date()) for row in result.requests} == {"2026-11-29", "1971-01-01"}
    assert ingest(tmp_path / "ws", relative).account.seen_before


def test_request_ids_are_read_once(tmp_path: Path) -> None:
    """Within a file, across files and across calls; of several the earliest stays, at equal times the first."""
    one = write_lines(
        tmp_path / "one.jsonl", [_dynamo(1, 50), _dynamo(2), _dynamo(1, 20), _dynamo(1, 20), _dynamo(3)]
    )
    two = write_lines(tmp_path / "two.jsonl", [_dynamo(3), _dynamo(4)])
    result = ingest(tmp_path / "ws", one, two)
    assert [(a.kept, a.duplicates) for a in result.summary.inputs] == [(3, 2), (1, 1)]
    assert [row["source_line"] for row in result.requests] == [2, 3, 5, 2]
    later = ingest(tmp_path / "ws", write_lines(tmp_path / "three.jsonl", [_dynamo(4, 9), _dynamo(5)]))
    assert (later.account.kept, later.account.duplicates) == (1, 1)


def test_ids_count_within_provider_and_kind_of_source(tmp_path: Path) -> None:
    """The same id of another provider, or in another kind of log, is another request."""
    plan = tmp_path / "m.toml"
    plan.write_text(
        'format = "jsonl"\n[columns]\nrequest_id = "id"\nprovider = "p"\nprompt_tokens = "n"\n'
        'started_at = { from = "t", unit = "s" }\n'
    )
    rows = [{"id": "r1", "p": p, "n": 3, "t": 1_795_953_600} for p in ("vllm", "anthropic", "vllm")]
    mapped = write_lines(tmp_path / "m.jsonl", rows)
    ingest(tmp_path / "ws", write_lines(tmp_path / "d.jsonl", [_dynamo(1)]))
    account = ingest(tmp_path / "ws", mapped, map_file=plan).account
    assert (account.kept, account.duplicates) == (2, 1)


def test_ids_that_are_local_to_a_file_are_not_compared_across_files(tmp_path: Path) -> None:
    """Bailian numbers its chats per trace: the same number in another trace is another chat."""

    def chat(number: int, at: float, salt: int) -> dict[str, Any]:
        lengths = {"input_length": 16, "output_length": 1, "hash_ids": [salt]}
        return {
            "chat_id": number,
            "parent_chat_id": -1,
            "timestamp": at,
            "type": "text",
            "turn": 1,
            **lengths,
        }

    one = write_lines(tmp_path / "one.jsonl", [chat(1, 0.0, 5), chat(2, 1.0, 6), chat(1, 2.0, 7)])
    two = write_lines(tmp_path / "two.jsonl", [chat(1, 0.0, 8)])
    result = ingest(tmp_path / "ws", one, two, t0=0)
    assert [(a.kept, a.duplicates) for a in result.summary.inputs] == [(2, 1), (1, 0)]


def test_single_equal_lines_are_kept_and_counted(tmp_path: Path) -> None:
    """Without an id two equal lines may be two requests: both stay, and the number is told."""
    path = write_lines(tmp_path / "a_blksz_16.jsonl", [*_rows(0, 10), *_rows(3, 4)])
    account = ingest(tmp_path / "ws", path).account
    assert (account.kept, account.duplicates, account.identical_lines) == (14, 0, 4)


@pytest.mark.parametrize("where", ["earlier call", "same call", "same file"])
def test_a_long_stretch_is_a_duplicate(tmp_path: Path, where: str) -> None:
    """A copy of 1,000 lines or more is recognised wherever it begins; what is new around it is kept."""
    first, copied = _rows(0, 2_300), _rows(700, 1_234)
    new = [*_rows(10_000, 17), *copied, *_rows(20_000, 5)]
    if where == "same file":
        account = ingest(tmp_path / "ws", write_lines(tmp_path / "a_blksz_16.jsonl", [*first, *new])).account
        assert account.kept == 2_300 + 22
    else:
        one = write_lines(tmp_path / "a_blksz_16.jsonl", first)
        two = write_lines(tmp_path / "b_blksz_16.jsonl", new)
        if where == "earlier call":
            ingest(tmp_path / "ws", one, t0=0)
            account = ingest(tmp_path / "ws", two, t0=0).account
        else:
            account = ingest(tmp_path / "ws", one, two, t0=0).summary.inputs[1]
        assert account.kept == 22
    assert account.duplicates == 1_234
    assert any("1,234 records repeat lines" in note for note in account.notes)


def test_a_short_stretch_is_coincidence(tmp_path: Path) -> None:
    """999 equal lines in a row are kept."""
    one = write_lines(tmp_path / "a_blksz_16.jsonl", _rows(0, 2_000))
    two = write_lines(tmp_path / "b_blksz_16.jsonl", [*_rows(9_000, 300), *_rows(500, MIN_STRETCH - 1)])
    account = ingest(tmp_path / "ws", one, two, t0=0).summary.inputs[1]
    assert (account.kept, account.duplicates) == (1_299, 0)


def test_a_grown_file_adds_only_what_is_new(tmp_path: Path) -> None:
    """A log that was appended to since the last call repeats all its old lines, bad ones included."""
    old = [*_rows(0, 1_500), b"{", *_rows(2_000, 100)]
    path = write_lines(tmp_path / "a_blksz_16.jsonl", old)
    ingest(tmp_path / "ws", path)
    write_lines(path, [*old, *_rows(5_000, 40)])
    account = ingest(tmp_path / "ws", path, t0=0).account
    assert (account.records, account.kept, account.rejected, account.duplicates) == (1_641, 40, 0, 1_601)


def test_duplicates_leave_no_blocks(tmp_path: Path) -> None:
    """The forest of a source holds the blocks of kept rows only."""
    one = write_lines(tmp_path / "a_blksz_16.jsonl", _rows(0, 1_200))
    two = write_lines(tmp_path / "b_blksz_16.jsonl", [*_rows(0, 1_200), mooncake(1, [5, 99_999])])
    result = ingest(tmp_path / "ws", one, two, t0=0)
    kept = [row for row in result.requests if row["source_file"] == two.name]
    assert [result.ids(row) for row in kept] == [[5, 99_999]]
    import pyarrow.parquet as pq

    assert pq.ParquetFile(tmp_path / "ws" / "paths" / f"{kept[0]['source']}.parquet").metadata.num_rows == 2


def test_the_dynamo_fixture_twice_under_another_order(tmp_path: Path) -> None:
    """Shuffled lines are another source, and all of its requests are duplicates."""
    lines = (FIXTURES / "dynamo.jsonl").read_bytes().splitlines()
    ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl")
    account = ingest(tmp_path / "ws", write_lines(tmp_path / "shuffled.jsonl", lines[::-1])).account
    assert (account.kept, account.duplicates, account.skipped, account.seen_before) == (0, 32, 1, False)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_known_lines_equal_the_slow_search(data: st.DataObject) -> None:
    """Marked lines are those of copied stretches of 1,000 or more, for random pieces of random earlier inputs."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    earlier = rng.integers(1, 1 << 62, 4_000).astype(np.uint64)
    pieces, expected = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.integers(1, 2_500))
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, earlier.size - size))
            piece = earlier[start : start + size]
            long = size >= MIN_STRETCH
        else:
            piece, long = rng.integers(1, 1 << 62, size).astype(np.uint64), False
        pieces += [piece, rng.integers(1, 1 << 62, 1).astype(np.uint64)]
        expected += [np.full(piece.size, long), np.zeros(1, np.bool_)]
    lines = np.concatenate(pieces)
    seen = Seen(_NOWHERE, [])
    seen._add_anchors("old", earlier)
    assert (seen.known_lines(lines) == np.concatenate(expected)).mean() > 0.999999 or _own_copies(pieces)


def _own_copies(pieces: list[np.ndarray]) -> bool:
    """Two pieces of one stretch may overlap within the new input, which the expectation does not model."""
    whole = np.concatenate(pieces)
    return np.unique(whole).size < whole.size


class _Nowhere:
    def __truediv__(self, name: str) -> _Nowhere:
        return self


_NOWHERE: Any = _Nowhere()


def test_first_of_each_prefers_the_earliest() -> None:
    """Of equal ids the earliest row stays; at equal times the first in the file."""
    ids = id_pairs(b"".join(bytes([n]) * 16 for n in (1, 2, 1, 1, 3)))
    first = first_of_each(ids, np.array([5, 1, 3, 3, 9]))
    assert first.tolist() == [False, True, True, False, True]


def test_ids_are_found_in_any_number_of_runs(tmp_path: Path) -> None:
    """However inputs were added, every id of every one is known, and no other."""
    rng = np.random.default_rng(1)
    seen = Seen(tmp_path, [])
    added = []
    for size in (3, 50, 1, 7, 400, 2):
        ids = id_pairs(rng.bytes(16 * size))
        seen.add(f"{size:016x}", ids, np.zeros(0, np.uint64), np.arange(size) if size > 2 else None)
        added.append(ids)
    again = Seen(tmp_path, [f"{size:016x}" for size in (3, 50, 1, 7, 400, 2)])
    for known in (seen, again):
        assert all(known.known_ids(ids).all() for ids in added)
        starts = [known.known_calls(ids)[1].tolist() for ids in added]
        assert starts == [list(range(ids.size)) if ids.size > 2 else [NO_START] * ids.size for ids in added]
        assert not known.known_ids(id_pairs(rng.bytes(16 * 100))).any()
    shutil.rmtree(tmp_path / "ids")
