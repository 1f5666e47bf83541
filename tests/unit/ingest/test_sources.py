"""Which files a call reads, in which order, and what it calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest_support import ingest, mooncake, write_lines
from prefixledger.errors import InputError
from prefixledger.ingest.sources import resolve

if TYPE_CHECKING:
    from pathlib import Path


def _tree(root: Path) -> Path:
    for name in ("b.jsonl", "a.jsonl", "day/c.jsonl", ".hidden/x.jsonl", "day/.x.jsonl", "ws/old.jsonl"):
        write_lines(root / "logs" / name, [mooncake(1, [1])])
    (root / "logs" / "loop").symlink_to(root / "logs")
    return root / "logs"


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    """Files below it in order of name; hidden ones, linked folders and the workspace are left out."""
    logs = _tree(tmp_path)
    found = resolve([str(logs)], outside=logs / "ws")
    assert [source.label for source in found] == ["a.jsonl", "b.jsonl", "day/c.jsonl"]
    assert not any(source.named for source in found)


def test_labels_are_relative_to_the_argument(tmp_path: Path) -> None:
    """A file is called by its name, a match by its path below the fixed part of the pattern."""
    logs = _tree(tmp_path)
    labels = [source.label for source in resolve([str(logs / "day" / "c.jsonl")], outside=tmp_path / "w")]
    assert labels == ["c.jsonl"]
    matched = resolve([str(logs / "*" / "c.jsonl"), str(logs / "[ab].jsonl")], outside=tmp_path / "w")
    assert [source.label for source in matched] == ["day/c.jsonl", "a.jsonl", "b.jsonl"]


def test_nothing_absolute_is_written(tmp_path: Path) -> None:
    """No file of a workspace holds the folder that the logs lay in."""
    path = write_lines(tmp_path / "very_private_folder" / "log_blksz_16.jsonl", [mooncake(1, [1]), b"{"])
    result = ingest(tmp_path / "ws", path)
    ingest(tmp_path / "ws", path)
    assert result.account.rejected == 1
    for file in (tmp_path / "ws").rglob("*"):
        assert not file.is_file() or b"very_private_folder" not in file.read_bytes()


def test_strangers_in_a_folder_are_left_out_and_said(tmp_path: Path) -> None:
    """A licence and an empty file beside the logs stop nothing; the same files named themselves are refused."""
    write_lines(tmp_path / "logs" / "a_blksz_16.jsonl", [mooncake(1, [1])])
    licence = write_lines(tmp_path / "logs" / "LICENSE", ["Copyright somebody"])
    empty = write_lines(tmp_path / "logs" / "empty.jsonl", [])
    result = ingest(tmp_path / "ws", tmp_path / "logs")
    assert [account.path for account in result.summary.inputs] == ["a_blksz_16.jsonl"]
    assert any(m.startswith("LICENSE: left out") for m in result.summary.messages)
    assert "empty.jsonl: empty" in result.summary.messages
    for path in (licence, empty):
        with pytest.raises(InputError):
            ingest(tmp_path / "other", path)


def test_an_empty_file_among_others_stops_nothing(tmp_path: Path) -> None:
    """Log rotation leaves empty files behind: named beside others they are noted; a licence beside them is refused."""
    log = write_lines(tmp_path / "a_blksz_16.jsonl", [mooncake(1, [1])])
    empty = write_lines(tmp_path / "b.jsonl", [])
    result = ingest(tmp_path / "ws", log, empty)
    assert [account.path for account in result.summary.inputs] == ["a_blksz_16.jsonl"]
    assert "b.jsonl: empty" in result.summary.messages
    with pytest.raises(InputError):
        ingest(tmp_path / "other", empty, write_lines(tmp_path / "c.jsonl", []))


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    """If nothing in it can be read, the reason is the error."""
    write_lines(tmp_path / "logs" / "LICENSE", ["Copyright somebody"])
    with pytest.raises(InputError, match="no known format fits"):
        ingest(tmp_path / "ws", tmp_path / "logs")
