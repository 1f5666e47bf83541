"""A log that grows, is shortened, rotated or replaced while it is read gives a right result or a clear error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, ingest, mooncake, tree, write_lines
from prefixledger.errors import InputError
from prefixledger.ingest import IngestOptions, Progress, run
from prefixledger.ingest.one_input import read_input
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = [mooncake(10 * at, [1, 100 + at]) for at in range(2_000)]


def _after_the_first_chunk(change: Callable[[], None]) -> Callable[[Progress], None]:
    done = []

    def step(_: Progress) -> None:
        if not done:
            done.append(True)
            change()

    return step


def test_a_growing_log_is_read_to_where_it_ended(tmp_path: Path) -> None:
    """What is appended meanwhile belongs to the next call, however fast the writer is."""
    log = write_lines(tmp_path / "log_blksz_16.jsonl", ROWS)
    size = log.stat().st_size

    def grow() -> None:
        with log.open("ab") as end:
            end.write(log.read_bytes())

    summary = run(
        [str(log)],
        Workspace(tmp_path / "ws"),
        IngestOptions(chunk_bytes=1 << 16),
        _after_the_first_chunk(grow),
    )
    assert (summary.inputs[0].bytes, summary.inputs[0].kept) == (size, len(ROWS))


def test_a_log_cut_short_while_it_is_read_says_so(tmp_path: Path) -> None:
    """As a rotation that copies and then truncates does: what was read counts, and the account tells."""
    log = write_lines(tmp_path / "log_blksz_16.jsonl", ROWS)
    summary = run(
        [str(log)], Workspace(tmp_path / "ws"), IngestOptions(chunk_bytes=1 << 16),
        _after_the_first_chunk(lambda: os.truncate(log, 0)),
    )  # fmt: skip
    (account,) = summary.inputs
    assert 0 < account.kept < len(ROWS)
    assert any("shortened while it was read" in note for note in account.notes)
    assert account.truncated_at is not None
    assert account.truncated_at <= account.bytes


def test_a_log_replaced_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    """The rename of a rotation leaves the open file whole."""
    log = write_lines(tmp_path / "log_blksz_16.jsonl", ROWS)
    ingest(tmp_path / "whole", log)
    fresh = write_lines(tmp_path / "fresh", [mooncake(1, [9])])
    run(
        [str(log)], Workspace(tmp_path / "ws"), IngestOptions(chunk_bytes=1 << 16),
        _after_the_first_chunk(lambda: fresh.replace(log)),
    )  # fmt: skip
    assert tree(tmp_path / "ws") == tree(tmp_path / "whole")


def test_what_is_rotated_into_place_before_its_turn_is_detected_again(tmp_path: Path) -> None:
    """Its format is that of the bytes which are read, not of those that were there when the call began."""
    first = write_lines(tmp_path / "a_blksz_16.jsonl", ROWS)
    second = write_lines(tmp_path / "b.jsonl", ROWS[:50])
    fresh = tmp_path / "fresh"
    fresh.write_bytes((FIXTURES / "dynamo.jsonl").read_bytes())
    summary = run(
        [str(first), str(second)], Workspace(tmp_path / "ws"), IngestOptions(chunk_bytes=1 << 16),
        _after_the_first_chunk(lambda: fresh.replace(second)),
    )  # fmt: skip
    assert [account.format for account in summary.inputs] == ["mooncake", "dynamo"]


@pytest.mark.parametrize("named", [True, False])
def test_a_log_that_is_gone_before_its_turn(tmp_path: Path, named: bool) -> None:
    """Is an error where it was named, and left out where it lay in a folder; what was complete stays."""
    folder = tmp_path / "logs"
    first = write_lines(folder / "a_blksz_16.jsonl", ROWS)
    second = write_lines(folder / "b.jsonl", ROWS[:50])
    sources = [str(first), str(second)] if named else [str(folder)]
    step = _after_the_first_chunk(second.unlink)
    options = IngestOptions(chunk_bytes=1 << 16)
    if named:
        with pytest.raises(InputError, match="No such file"):
            run(sources, Workspace(tmp_path / "ws"), options, step)
    else:
        summary = run(sources, Workspace(tmp_path / "ws"), options, step)
        assert any("b.jsonl: left out" in message for message in summary.messages)
    ingest(tmp_path / "whole", first)
    left = {name: data for name, data in tree(tmp_path / "ws").items() if name != "manifest.json"}
    assert left == {name: data for name, data in tree(tmp_path / "whole").items() if name != "manifest.json"}


def test_a_parquet_file_replaced_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened twice, and the rows of one file must not be booked under the name of another."""
    log = tmp_path / "log.parquet"
    table = pa.table({"ts": [1_795_953_600], "n": [32], "ids": [[1, 2]]})
    pq.write_table(table, log)
    chart = tmp_path / "map.toml"
    chart.write_text(
        'format = "parquet"\nblock_size = 16\n[columns]\nstarted_at = { from = "ts", unit = "s" }\n'
        'prompt_tokens = "n"\nblock_ids = "ids"\n',
        encoding="utf-8",
    )

    def swap(*given: object, **options: object) -> object:
        pq.write_table(pa.concat_tables([table, table]), log)
        return read_input(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("prefixledger.ingest.stage.read_input", swap)
    with pytest.raises(InputError, match="written to while it was read"):
        ingest(tmp_path / "ws", log, map_file=chart)
