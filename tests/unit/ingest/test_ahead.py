"""Inputs that tasks read whole leave what they leave when they are read piece by piece."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ingest_support import FIXTURES, mooncake, tree, write_lines
from prefixledger import ingest
from prefixledger.engine import LocalEngine
from prefixledger.errors import InputError
from prefixledger.ingest import ahead
from prefixledger.ingest.container import Stream, head_digest
from prefixledger.ingest.detect import detect
from prefixledger.ingest.sources import named_source
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def _logs(folder: Path) -> Path:
    """Write logs packed in two ways, one of them cut and one given twice; a document, a packed table, and a plain one between."""
    lines = [mooncake(10 * at, [at % 3, 5, 100 + at // 4]) for at in range(400)]
    whole = write_lines(folder / "whole_blksz_16.jsonl", lines).read_bytes()
    gzipped = gzip.compress(whole[: len(whole) // 2], mtime=0)
    (folder / "a_blksz_16.jsonl.gz").write_bytes(gzipped)
    (folder / "b_blksz_16.jsonl.gz").write_bytes(gzip.compress(whole, mtime=0)[:-30])
    (folder / "c_blksz_16.jsonl.gz").write_bytes(gzipped)
    (folder / "azure.csv.zst").write_bytes(
        zstandard.ZstdCompressor().compress((FIXTURES / "azure_lengths.csv").read_bytes())
    )
    records = [
        json.loads(line) for line in (FIXTURES / "dynamo.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    (folder / "y.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    (folder / "z.jsonl.gz").write_bytes(gzip.compress((FIXTURES / "litellm.jsonl").read_bytes(), mtime=0))
    return folder


def test_read_ahead_is_as_read_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, account and messages; in a later call, what is known is not read again."""
    folder = tmp_path / "logs"
    folder.mkdir()
    _logs(folder)
    read: list[int] = []

    def noted(shared: None, item: ahead.WholeInput) -> object:
        read.append(item.number)
        return read_whole(shared, item)

    read_whole = ahead.read_whole
    monkeypatch.setattr(ahead, "read_whole", noted)
    options = ingest.IngestOptions(t0=0, chunk_bytes=4_096, max_rejects="100%")
    found = []
    for name in ("turn", "ahead"):
        workspace = Workspace(tmp_path / name)
        with LocalEngine(1) as engine:
            monkeypatch.setattr(engine, "remote", name == "ahead")
            summaries = [ingest.run([str(folder)], workspace, options, engine=engine) for _ in range(2)]
        found.append((tree(workspace.root), summaries))
    assert found[0] == found[1]
    assert {one.truncated_at is None for one in found[0][1][0].inputs} == {True, False}
    assert sum(one.seen_before for one in found[0][1][0].inputs) == 1
    assert read == [0, 1, 2, 5, 6]  # neither the plain one, nor the one that begins as another
    assert not (tmp_path / "ahead" / ".aside").exists()


def test_tables_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet as it lies, Parquet that is packed, and Arrow."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'format = "parquet"\nblock_size = 2\n[columns]\nstarted_at = { from = "ts", unit = "s" }\ntoken_ids = "ids"\n',
        encoding="utf-8",
    )
    folder = tmp_path / "logs"
    folder.mkdir()
    rows = {"ts": [1_795_953_600, 1_795_953_601], "ids": [[1, 2, 3, 4], [1, 2, 7]]}
    pq.write_table(pa.table(rows), folder / "a.parquet")
    later = pa.table(rows | {"ts": [1_796_040_000, 1_796_040_001]})
    with pa.ipc.new_file(str(folder / "b.arrow"), later.schema) as out:
        out.write_table(later)
    pq.write_table(later, tmp_path / "c.parquet")
    (folder / "c.parquet.gz").write_bytes(gzip.compress((tmp_path / "c.parquet").read_bytes(), mtime=0))
    trees = []
    for name in ("turn", "ahead"):
        engine, workspace = LocalEngine(1), Workspace(tmp_path / name)
        monkeypatch.setattr(engine, "remote", name == "ahead")
        ingest.run([str(folder)], workspace, ingest.IngestOptions(map_file=plan), engine=engine)
        assert ("read whole files" in str(engine.times.lines())) == (name == "ahead")
        trees.append(tree(workspace.root))
    assert trees[0] == trees[1]


def test_what_nobody_asks_for_is_dropped(tmp_path: Path) -> None:
    """Numbers that are passed over leave no file; of one that was not read ahead there is nothing."""
    _logs(tmp_path)
    engine = LocalEngine(1)
    source = named_source(str(tmp_path / "a_blksz_16.jsonl.gz"))
    stream = Stream(source)
    detected = detect(stream, ingest.IngestOptions(), None)
    assert detected is not None
    size, head = stream.state.raw_total, head_digest(stream)
    inputs = [
        ahead.WholeInput(number, source, detected, 1 << 20, size, head, tmp_path / f"{number}.batches")
        for number in (1, 3, 4)
    ]
    found = ahead.ReadAhead(engine, inputs)
    assert found.batches(2, stream) is None
    assert stream.bytes == 0
    batches = found.batches(4, stream)
    assert batches is not None
    assert sum(len(batch.fates) for batch in batches) == 201  # the last is cut
    assert stream.bytes > 0
    assert not list(tmp_path.glob("*.batches"))
    assert found.batches(5, stream) is None
    found.close()
    stream.close()


def test_another_file_than_was_recognised_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that finds other bytes under the name says so."""
    folder = tmp_path / "logs"
    folder.mkdir()
    _logs(folder)
    read_whole = ahead.read_whole
    monkeypatch.setattr(ahead, "read_whole", lambda shared, item: read_whole(shared, replace(item, head="")))
    engine, workspace = LocalEngine(1), Workspace(tmp_path / "ws")
    monkeypatch.setattr(engine, "remote", True)
    with pytest.raises(InputError, match="a worker sees another file"):
        ingest.run([str(folder)], workspace, ingest.IngestOptions(t0=0), engine=engine)
