"""Endless lines, long lists, bombs and deep nesting end in a reject or a refusal, in memory that is bounded."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ingest_support import mooncake
from prefixledger.ingest.chunks import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = json.dumps(mooncake(1, [1, 2])).encode() + b"\n"
CHILD = """
import json, re, sys
from pathlib import Path
from prefixledger.errors import PrefixledgerError
from prefixledger.ingest import IngestOptions, run
from prefixledger.workspace import Workspace
told = {}
try:
    summary = run([sys.argv[1]], Workspace(Path(sys.argv[2])), IngestOptions(max_rejects="100%", jobs=1))
    told = {"kept": summary.inputs[0].kept, "reasons": summary.inputs[0].reasons}
except PrefixledgerError as error:
    told = {"error": str(error)}
# Not getrusage: its peak begins with the memory of whoever started the process.
told["mb"] = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1)) // 1024
print(json.dumps(told))
"""


def _list_of(n_ids: int) -> bytes:
    ids = b",".join(b"%d" % (number % 10) for number in range(n_ids))
    return b'{"timestamp":2,"input_length":%d,"output_length":1,"hash_ids":[%b]}\n' % (16 * n_ids, ids)


def _long_line(path: Path) -> None:
    path.write_bytes(GOOD * 60 + b'{"timestamp":2,"text":"' + b"x" * (MAX_RECORD_BYTES + 5) + b'"}\n' + GOOD)


def _line_just_below(path: Path) -> None:
    path.write_bytes(
        GOOD * 60 + b'{"timestamp":2,"text":"' + b"x" * (MAX_RECORD_BYTES - 100) + b'"}\n' + GOOD
    )


def _long_list(path: Path) -> None:
    path.write_bytes(GOOD * 60 + _list_of(10_000_000) + GOOD)


def _list_of_lists(path: Path) -> None:
    path.write_bytes(GOOD * 60 + b'{"timestamp":2,"hash_ids":[' + b"[]," * 10_000_000 + b"[]]}\n" + GOOD)


def _nested(path: Path) -> None:
    path.write_bytes(GOOD * 60 + b'{"timestamp":2,"hash_ids":' + b"[" * 5_000_000 + b"\n" + GOOD)


def _gzip_bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as out:
        out.write(GOOD * 60)
        for _ in range(16):
            out.write(bytes(1 << 24))  # 256 MiB of NUL bytes without a line end, a thousandth of it on disk
        out.write(b"\n" + GOOD)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "most_mb", "reason"),
    [
        (_long_line, 700, "oversize record"),
        (_line_just_below, 900, "missing field"),
        (_long_list, 1_800, "absurd number"),
        (_list_of_lists, 2_200, "missing field"),
        (_nested, 900, "nested too deeply"),
        (_gzip_bomb, 700, "oversize record"),
    ],
)
def test_memory_is_bounded(make: Callable[[Path], None], most_mb: int, reason: str, tmp_path: Path) -> None:
    """The good lines around are kept, the bad one is one reject, and the operating system says what it cost."""
    log = tmp_path / "log_blksz_16.jsonl"
    make(log)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(log), str(tmp_path / "ws")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.get("kept", 0) >= 60, told
    assert set(told["reasons"]) == {reason}, told
    assert told["mb"] < most_mb, told
