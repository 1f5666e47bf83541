"""Compressed, joined, cut and refused inputs."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from ingest_support import Result, ingest, mooncake, write_lines
from prefixledger.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [mooncake(at, [7, 8, at + 100]) for at in range(300)]


@pytest.fixture
def plain(tmp_path: Path) -> bytes:
    """Return a plain log of 300 rows."""
    return write_lines(tmp_path / "plain_blksz_16.jsonl", ROWS).read_bytes()


def _ingest(tmp_path: Path, data: bytes, name: str = "log_blksz_16.jsonl", **options: Any) -> Result:
    path = tmp_path / name
    path.write_bytes(data)
    return ingest(tmp_path / "ws", path, **options)


def _frames(data: bytes) -> bytes:
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


def _members(data: bytes) -> bytes:
    half = len(data) // 3
    return gzip.compress(data[:half]) + gzip.compress(data[half:]) + b"\0" * 512


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        _members,
        zstandard.compress,
        _frames,
        bz2.compress,
        lambda d: gzip.compress(zstandard.compress(d)),
    ],
    ids=["gzip", "gzip members and padding", "zstd", "zstd frames", "bzip2", "zstd in gzip"],
)
def test_compression_is_told_from_the_bytes(tmp_path: Path, plain: bytes, pack: Any) -> None:
    """A packed log is the same source as the plain one, whatever its name says."""
    result = _ingest(tmp_path, pack(plain))
    assert result.account.kept == len(ROWS)
    assert result.account.bytes == len(plain)
    assert (
        result.account.source == _ingest(tmp_path / "..", plain, "plain.jsonl", block_size=16).account.source
    )
    assert result.account.truncated_at is None


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.compress, bz2.compress], ids=["gzip", "zstd", "bzip2"]
)
def test_a_cut_end_is_read_to_the_last_whole_record(tmp_path: Path, pack: Any) -> None:
    """What was unpacked before the cut is kept, the account says where it ends, and no line is lost unseen."""
    rows = [mooncake(at, [at * 7919 % 65_537 + k for k in range(60)]) for at in range(3_000)]
    data = write_lines(tmp_path / "long.jsonl", rows).read_bytes()
    packed = pack(data)
    result = _ingest(tmp_path, packed[: len(packed) * 3 // 4])
    account = result.account
    whole = account.kept
    assert 0 < whole < len(rows)
    assert [row["source_line"] for row in result.requests] == list(range(1, whole + 1))
    assert account.rejected in (0, 1)
    assert all(row["reason"] == "truncated last line" for row in result.rejects)
    offset = sum(len(line) + 1 for line in data.split(b"\n")[:whole])
    assert account.truncated_at == offset
    assert any("ends before its end" in message for message in result.summary.messages)


def test_standard_input_is_an_input(tmp_path: Path, plain: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads standard input, packed or not, and calls it ``-``."""

    class Stdin:
        buffer = io.BytesIO(gzip.compress(plain))

    monkeypatch.setattr("sys.stdin", Stdin)
    result = ingest(tmp_path / "ws", "-", block_size=16)
    assert result.account.path == "-"
    assert result.account.kept == len(ROWS)
    assert result.requests[0]["request_id"] == "-:1"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps({"a": 1}), "pickle"),
        (b"PK\x03\x04" + b"x" * 100, "zip archive"),
        (b"\xfd7zXZ\x00" + b"x" * 100, "xz"),
        (b"SQLite format 3\x00" + b"x" * 100, "SQLite"),
        ("\ufeff{}".encode("utf-16"), "UTF-16"),
        (b"\0" * 257 + b"ustar" + b"\0" * 300, "tar archive"),
        (b"", "empty"),
        (b"\n\n  \n", "empty"),
        (gzip.compress(b"\n"), "empty"),
        (b"Dear diary, today I served tokens.\n", "no known format"),
        (b"\x1f\x8b\x08broken", "damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_with_a_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    """Exit code 3, the file's name and what it is; nothing is written."""
    with pytest.raises(InputError, match=words) as caught:
        _ingest(tmp_path, data)
    assert caught.value.exit_code == 3
    assert "log_blksz_16.jsonl" in str(caught.value)
    assert not (tmp_path / "ws" / "manifest.json").exists()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A path that does not exist, and a pattern that matches nothing, end with exit code 3."""
    for name in ("absent.jsonl", "absent-*.jsonl"):
        with pytest.raises(InputError, match=r"no such file|matches no file"):
            ingest(tmp_path / "ws", tmp_path / name)


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A gigabyte of blanks in 100 kB is unpacked piece by piece and is one oversize record."""
    import tracemalloc

    packer = zstandard.ZstdCompressor().compressobj()
    parts = [packer.compress(b" " * (1 << 20)) for _ in range(256)]
    line = b"".join(
        b'{"timestamp":1,"input_length":16,"output_length":1,"hash_ids":[1]}\n' for _ in range(60)
    )
    data = zstandard.compress(line) + b"".join(parts) + packer.flush()
    tracemalloc.start()
    result = _ingest(tmp_path, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.account.kept == 60
    assert [row["reason"] for row in result.rejects] == ["oversize record: above 100 MB"]
    assert peak < 400_000_000
