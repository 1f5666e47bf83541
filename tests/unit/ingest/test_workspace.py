"""A workspace stays whole whatever happens to the process that writes it."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, ingest, mooncake, tree, write_lines
from prefixledger.errors import InputError, UsageError
from prefixledger.ingest import IngestOptions, Progress, run
from prefixledger.schema import PATHS, REJECTS, REQUESTS
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def test_an_interruption_keeps_what_was_complete(tmp_path: Path) -> None:
    """Inputs read before it are in the book; nothing of the one that was being read is left behind."""

    def stop(progress: Progress) -> None:
        if progress.path == "sglang.jsonl":
            raise KeyboardInterrupt

    sources = [str(FIXTURES / "dynamo.jsonl"), str(FIXTURES / "sglang.jsonl")]
    with pytest.raises(KeyboardInterrupt):
        run(sources, Workspace(tmp_path / "ws"), progress=stop)
    ingest(tmp_path / "expected", FIXTURES / "dynamo.jsonl")
    left, expected = tree(tmp_path / "ws"), tree(tmp_path / "expected")
    book = json.loads(left.pop("manifest.json"))
    assert book.pop("open") is True  # the same command goes on with it
    assert book == json.loads(expected.pop("manifest.json"))
    assert left == expected
    assert not list((tmp_path / "ws").glob(".aside"))


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Files of sources that are in no book go away at the next call."""
    root = tmp_path / "ws"
    ingest(root, FIXTURES / "dynamo.jsonl")
    before = set(tree(root))
    for name in ("requests/date=2020-01-01/dead.parquet", "paths/dead.parquet", "rejects/dead.parquet"):
        write_lines(root / name, ["x"])
    write_lines(root / ".aside" / "rows.arrow", ["x"])
    ingest(root, FIXTURES / "sglang.jsonl")
    assert not any("dead" in name or "2020-01-01" in name for name in tree(root))
    assert before <= set(tree(root))


def test_columns_that_hardly_repeat_have_no_dictionary(tmp_path: Path) -> None:
    """And all others have one, the two inside of labels too: who packs tables anew names every leaf."""
    ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl")
    (path,) = (tmp_path / "ws" / "requests").rglob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    without = {one.path_in_schema for one in columns if "RLE_DICTIONARY" not in one.encodings}
    numbers = {"started_at", "prompt_tokens", "output_tokens", "source_node", "source_line"}
    flags = {
        name for name, kind in zip(REQUESTS.names, REQUESTS.arrow().types, strict=True) if kind == pa.bool_()
    }
    assert without == numbers | {"request_id"} | flags


def test_two_writers_exclude_each_other(tmp_path: Path) -> None:
    """The second one is told so, with exit code 2."""
    root = tmp_path / "ws"
    root.mkdir()
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another process"):
            ingest(root, FIXTURES / "dynamo.jsonl")


def test_a_damaged_book_is_refused(tmp_path: Path) -> None:
    """Exit code 3 and what to do; nothing is overwritten."""
    root = tmp_path / "ws"
    ingest(root, FIXTURES / "dynamo.jsonl")
    (root / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        ingest(root, FIXTURES / "sglang.jsonl")
    (root / "manifest.json").write_text(json.dumps({"schema_version": 9, "sources": [], "history": []}))
    with pytest.raises(InputError, match="of version 9"):
        ingest(root, FIXTURES / "sglang.jsonl")


def test_tables_follow_the_contract(tmp_path: Path) -> None:
    """Schemas, partitions by day, one file a source, parents before children, columns that are never null."""
    import pyarrow.parquet as pq

    rows = [mooncake(86_400_000 * day + 5, [1, 10 + day]) for day in range(70)]
    path = write_lines(tmp_path / "days_blksz_16.jsonl", [*rows, b"{"])
    result = ingest(tmp_path / "ws", path)
    days = sorted(p.parent.name for p in (tmp_path / "ws").glob("requests/*/*.parquet"))
    assert (days[0], days[-1], len(days)) == ("date=1970-01-01", "date=1970-03-11", 70)
    for pattern, table in (("requests/*/*", REQUESTS), ("paths/*", PATHS), ("rejects/*", REJECTS)):
        for file in (tmp_path / "ws").glob(f"{pattern}.parquet"):
            assert file.stem == result.account.source
            held = pq.ParquetFile(file).read()
            assert held.schema.equals(table.arrow())
            for column in table.columns:
                assert column.nullable or held[column.name].null_count == 0
    for row in result.requests:
        assert row["started_at"].date().isoformat() in days[(row["source_line"] - 1)]


def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    """Bytes on disk, records and rejects rise, and the last report is the total."""
    paths = [
        write_lines(tmp_path / f"{n}_blksz_16.jsonl", [mooncake(n, [n, k]) for k in range(50)] + [b"{"])
        for n in (1, 2)
    ]
    told: list[Progress] = []
    run(
        [str(path) for path in paths],
        Workspace(tmp_path / "ws"),
        IngestOptions(t0=0, chunk_bytes=500),
        told.append,
    )
    total = sum(path.stat().st_size for path in paths)
    assert [t.records for t in told] == sorted(t.records for t in told)
    assert all(t.bytes_total == total for t in told)
    assert (told[-1].bytes_done, told[-1].records, told[-1].rejects) == (total, 102, 2)


def test_an_account_that_does_not_close_is_a_fault(tmp_path: Path) -> None:
    """The check is code, not hope."""
    from prefixledger.errors import InternalError
    from prefixledger.ingest.account import InputAccount

    account: Any = ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl").account
    account.check()
    entry = account.to_json() | {"kept": account.kept - 1}
    with pytest.raises(InternalError, match="does not close"):
        InputAccount.from_json(entry).check()
