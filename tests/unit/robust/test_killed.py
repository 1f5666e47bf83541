"""A report that is killed at any moment and started again leaves what it would have left at once, to the byte."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES, ingest, tree, write_lines

if TYPE_CHECKING:
    from pathlib import Path

KILLS, CHAINS, SEED = 50, 10, 20
LOGS = ("mooncake_blksz_16.jsonl", "dynamo.jsonl", "litellm.jsonl", "sglang.jsonl")
CHILD = """
import atexit, os, pathlib, signal, sys, threading, time
folder, steps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
step = 0
def count(event, arguments):
    global step
    if event in {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"} and any(
        str(one).startswith(folder) for one in arguments
    ):
        step += 1
        if step == steps:
            os.kill(os.getpid(), signal.SIGKILL)
def watch():
    while time.process_time() < seconds:
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
if seconds:
    threading.Thread(target=watch, daemon=True).start()
from prefixledger.cli.app import run
status = run(sys.argv[4:])
print(step, time.process_time())
sys.exit(status)
"""
"""Runs a command until a given file operation below a folder, or for a given CPU time; 0 is never."""


def _report(folder: Path, steps: int = 0, seconds: float = 0.0) -> subprocess.CompletedProcess[str]:
    scenario = folder / "small.toml"
    scenario.write_text(
        'name = "small"\n[cache]\nprofile = "vllm"\ncapacity = "60 blocks"\n', encoding="utf-8"
    )
    command = ["report", *(str(FIXTURES / name) for name in LOGS), "--t0", "2026-11-24T10:00:00Z", "--jobs", "1",
               "--workspace", str(folder / "ws"), "-o", str(folder / "out" / "week.html"), "--scenario", str(scenario),
               "--max-rejects", "50%", "-q"]  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), str(steps), str(seconds), *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _left(folder: Path) -> dict[str, bytes]:
    """Everything but the clock of the run."""
    return {name: data for name, data in tree(folder).items() if name not in ("ws/run.json", "small.toml")}


@pytest.mark.slow
def test_a_report_killed_at_fifty_moments_ends_as_one_that_was_not(tmp_path: Path) -> None:
    """Half of the kills come at a file operation, half after some CPU time, several in a row before it may end."""
    whole = tmp_path / "whole"
    whole.mkdir()
    undisturbed = _report(whole)
    assert undisturbed.returncode == 0, undisturbed.stderr
    steps, seconds = (float(figure) for figure in undisturbed.stdout.split()[-2:])
    expected = _left(whole)
    assert len(expected) > 50
    draw = random.Random(SEED)
    killed = 0
    for chain in range(CHAINS):
        folder = tmp_path / f"chain{chain}"
        folder.mkdir()
        moments = []
        for _ in range(KILLS // CHAINS):
            at_step = draw.random() < 0.5
            moment = (draw.randint(1, int(steps)), 0.0) if at_step else (0, draw.uniform(0.3, 1.0) * seconds)
            moments.append(moment)
            killed += _report(folder, *moment).returncode == -signal.SIGKILL
        again = _report(folder)
        assert again.returncode == 0, (moments, again.stderr)
        left = _left(folder)
        assert sorted(left) == sorted(expected), moments
        assert [name for name in expected if left[name] != expected[name]] == [], moments
        assert not list(folder.rglob("*.part")), moments
        assert not list(folder.rglob("*.old")), moments
    assert killed > 0.7 * KILLS, f"only {killed} of {KILLS} runs were killed before their end"


def test_a_forced_second_reading_that_is_cut_off_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was struck out of the book before its files went is read again without being forced."""
    log = FIXTURES / "dynamo.jsonl"
    ingest(tmp_path / "whole", log)
    ingest(tmp_path / "cut", log)

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("prefixledger.ingest.stage.book_input", cut)
        with pytest.raises(KeyboardInterrupt):
            ingest(tmp_path / "cut", log, force=True)
    assert not list((tmp_path / "cut" / "requests").rglob("*.parquet"))
    ingest(tmp_path / "cut", log)
    assert tree(tmp_path / "cut") == tree(tmp_path / "whole")


def test_the_same_call_once_more_leaves_the_same_workspace(tmp_path: Path) -> None:
    """Also when the first had just ended; a log under another name is news."""
    log = FIXTURES / "dynamo.jsonl"
    ingest(tmp_path / "ws", log)
    once = tree(tmp_path / "ws")
    ingest(tmp_path / "ws", log)
    assert tree(tmp_path / "ws") == once
    other = tmp_path / "copy.jsonl"
    other.write_bytes(log.read_bytes())
    ingest(tmp_path / "ws", other)
    assert tree(tmp_path / "ws") != once


def test_what_killed_runs_left_half_written_is_swept_by_the_next(tmp_path: Path) -> None:
    """Parts and folders of processes that are gone, wherever they lie in the workspace; nobody else's files."""
    root = tmp_path / "ws"
    for name in ("requests/date=2026-01-01/.a.parquet.1.part", "replays/.x.1.part/facts.parquet",
                 "replays/.x.1.old/facts.parquet", "notes/mine.part"):  # fmt: skip
        write_lines(root / name, ["x"])
    ingest(root, FIXTURES / "dynamo.jsonl", force=True)
    assert [path.name for path in root.rglob("*.part")] == ["mine.part"]
    assert not list(root.rglob("*.old"))
