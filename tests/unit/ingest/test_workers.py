"""Parsing in other processes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def test_a_script_without_a_guard_is_told_what_it_lacks(tmp_path: Path) -> None:
    """New interpreters import the script that calls; one that reads logs when it is imported cannot have them."""
    row = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1], "note": "x" * 4000}
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({**row, "timestamp": n}) + "\n" for n in range(5000)), encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        "from prefixledger import api\n"
        "from prefixledger.engine import LocalEngine\n"
        "LocalEngine.still_here = lambda *_: False\n"  # else such a log is read before others are asked
        f"api.ingest([{str(log)!r}], workspace={str(tmp_path / 'w')!r}, jobs=2)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert "UsageError: a process that parses the log ended before its work" in done.stderr
    assert "if __name__ == '__main__'" in done.stderr
