"""A workspace on object storage holds what one on disk holds, and is seen whole or as it was before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES, tree
from prefixledger import api, mirror, objects
from prefixledger.errors import InputError, UsageError
from storage_support import names

if TYPE_CHECKING:
    from pathlib import Path

LOGS = [FIXTURES / "mooncake_blksz_16.jsonl", FIXTURES / "dynamo.jsonl"]
T0 = "2026-11-24T10:00:00Z"
CHILD = """
import os, signal, sys
from prefixledger import objects
from prefixledger.cli.app import run
put, left = objects.put, int(sys.argv[1])
def counted(local, url):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    put(local, url)
objects.put = counted
sys.exit(run(sys.argv[2:]))
"""
"""Runs a command until it has put so many objects."""


@pytest.fixture
def url(bucket: str) -> str:
    """Where the workspace of the test is to be."""
    return objects.joined(bucket, "ws")


def _forget(tmp_path: Path) -> None:
    """Become another machine: one without a copy."""
    shutil.rmtree(tmp_path / "cache")


def _held(place: str | Path) -> dict[str, bytes]:
    """Return all files of a workspace but the clock of the run."""
    found = tree(mirror.workspace_at(place).root)
    return {name: value for name, value in found.items() if name != "run.json" and not name.startswith(".")}


def _ingest(place: str | Path, *logs: Path) -> None:
    api.ingest(logs, workspace=place, t0=T0, jobs=1)


def test_it_holds_what_one_on_disk_holds(url: str, tmp_path: Path) -> None:
    """Ingested in two calls and replayed on a third machine, it has the bytes of the same work on disk."""
    for place in (tmp_path / "disk", url):
        _ingest(place, LOGS[0])
        if place == url:
            _forget(tmp_path)
        _ingest(place, LOGS[1])
    assert _held(url) == _held(tmp_path / "disk")
    _forget(tmp_path)
    here, there = (api.replay(workspace=place) for place in (tmp_path / "disk", url))
    assert [one.digest for one in there.replays] == [one.digest for one in here.replays]
    assert there.workspace == url
    _forget(tmp_path)
    assert _held(url) == _held(tmp_path / "disk")
    _forget(tmp_path)
    sql = "SELECT count(*) FROM requests"
    assert api.compare(tmp_path / "disk", url).comparison == api.compare(url, tmp_path / "disk").comparison
    here_rows, there_rows = (
        list(api.query(sql, workspace=place).rows()) for place in (tmp_path / "disk", url)
    )
    assert here_rows == there_rows


def test_logs_beside_it_are_read_without_it(bucket: str, tmp_path: Path) -> None:
    """A folder of logs that holds the workspace, too, is read again without it."""
    objects.put(LOGS[0], objects.joined(bucket, LOGS[0].name))
    place = objects.joined(bucket, "ws")
    for _ in range(2):
        read = api.ingest([bucket], workspace=place, t0=T0, jobs=1)
        assert [one.path for one in read.inputs] == [LOGS[0].name]
    with pytest.raises(UsageError, match="on this machine"):
        api.demo(workspace=place, output=tmp_path / "page.html")


def test_what_nothing_names_any_more_is_deleted(url: str) -> None:
    """After a second call the bucket holds the listing and one object a file."""
    _ingest(url, LOGS[0])
    _ingest(url, LOGS[1])
    listing = mirror._listed(url)  # what readers see
    assert len(names(url)) == 1 + len(listing.digests)
    assert mirror.LISTING in names(url)


def test_a_run_cut_off_while_it_publishes_is_not_seen(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every number of objects put, others see the state before; the same command then puts what is missing alone."""
    _ingest(url, LOGS[0])
    before = _held(url)
    put, n_put, allowed = objects.put, 0, 0

    def failing(local: Path, target: str) -> None:
        nonlocal n_put
        if n_put == allowed:
            raise InputError("the store is gone")
        n_put += 1
        put(local, target)

    monkeypatch.setattr(objects, "put", failing)
    total = 0
    for step in range(3):
        n_put, allowed = 0, step
        with pytest.raises(InputError, match="gone"):
            _ingest(url, LOGS[1])
        total += n_put
        copy = tmp_path / "cache"
        shutil.move(copy, tmp_path / "mine")
        assert _held(url) == before
        shutil.rmtree(copy)
        shutil.move(tmp_path / "mine", copy)
    n_put, allowed = 0, 10_000
    _ingest(url, LOGS[1])
    _ingest(tmp_path / "disk", LOGS[0])
    _ingest(tmp_path / "disk", LOGS[1])
    assert _held(url) == _held(tmp_path / "disk")
    files = {name for name, value in _held(url).items() if before.get(name) != value}
    assert total + n_put == len(files) + 1  # the listing


def test_two_machines_do_not_overwrite_each_other(url: str, tmp_path: Path) -> None:
    """Who began with an older state is told to begin again, and what was published stays."""
    _ingest(url, LOGS[0])
    late = mirror.workspace_at(url)
    shutil.copytree(tmp_path / "cache", tmp_path / "other")
    _ingest(url, LOGS[1])
    now = _held(url)
    shutil.rmtree(tmp_path / "cache")
    shutil.move(tmp_path / "other", tmp_path / "cache")
    (late.root / "more.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="another machine published"):
        mirror.publish(late)
    assert _held(url) == now


def test_damage_in_the_store_is_said(url: str, tmp_path: Path) -> None:
    """Other bytes under a published name, and a listing that leads out of the workspace, are refused."""
    _ingest(url, LOGS[0])
    damaged = next(name for name in names(url) if name.startswith("requests/"))
    (tmp_path / "bad").write_bytes(b"other bytes")
    objects.put(tmp_path / "bad", objects.joined(url, damaged))
    _forget(tmp_path)
    with pytest.raises(InputError, match="not those that were published"):
        api.query("SELECT 1", workspace=url)
    (tmp_path / "bad").write_text(
        json.dumps({"schema_version": 1, "files": {"../../outside": "00"}}), encoding="utf-8"
    )
    objects.put(tmp_path / "bad", objects.joined(url, mirror.LISTING))
    _forget(tmp_path)
    with pytest.raises(InputError, match="outside of the workspace"):
        api.query("SELECT 1", workspace=url)
    (tmp_path / "bad").write_text(json.dumps({"schema_version": 7, "files": {}}), encoding="utf-8")
    objects.put(tmp_path / "bad", objects.joined(url, mirror.LISTING))
    _forget(tmp_path)
    with pytest.raises(InputError, match="published in version 7"):
        api.query("SELECT 1", workspace=url)


@pytest.mark.slow
def test_killed_while_it_publishes_it_goes_on(url: str, tmp_path: Path) -> None:
    """Killed after any number of objects, here or with the copy lost too, the same command ends in the same workspace."""
    command = [
        "report",
        str(LOGS[0]),
        str(LOGS[1]),
        "--t0",
        T0,
        "-q",
        "--force",
        "-o",
        str(tmp_path / "page.html"),
    ]
    whole = tmp_path / "disk"

    def run(place: str | Path, allowed: int) -> int:
        child = [
            sys.executable,
            "-c",
            CHILD,
            str(allowed),
            *command,
            "--jobs",
            "1",
            "--workspace",
            str(place),
        ]
        return subprocess.run(child, check=False, env=os.environ, capture_output=True).returncode

    assert run(whole, -1) == 0
    page = (tmp_path / "page.html").read_bytes()
    killed = 0
    for allowed in (0, 1, 5, 8, 12, 20, 30):
        killed += run(url, allowed) < 0
        if allowed in (8, 20):
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert killed >= 5
    assert run(url, -1) == 0
    shutil.rmtree(tmp_path / "cache")
    assert _held(url) == _held(whole)
    assert (tmp_path / "page.html").read_bytes() == page
