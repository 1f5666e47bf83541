"""Logs and workspace on object storage, and the work on a Ray cluster: the same bytes, whatever dies or goes on the way."""

from __future__ import annotations

import gzip
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import ray_support
from ingest_support import tree
from prefixledger import api, mirror, objects
from prefixledger.engine import RAY
from prefixledger.engine.on_ray import RayEngine
from prefixledger.errors import InputError
from prefixledger.ingest import one_input
from prefixledger.ingest.ahead import WholeInput
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.pieces import ByteRange
from storage_support import upload
from support import shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage_support import Asked

pytestmark = pytest.mark.cluster
PLAIN, PACKED, LATER = "conversation.jsonl", "synthetic.jsonl.gz", "z-later.jsonl.gz"
CHUNK_BYTES = 1 << 18


@pytest.fixture(scope="module")
def cluster(_store: list[Asked]) -> Iterator[Any]:
    """Start a cluster whose workers know the store by their environment."""
    with ray_support.cluster() as ray:
        yield ray


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> None:  # noqa: ARG001
    """Cut logs into a dozen pieces: 3 MB would be one."""
    chunks = one_input._chunks
    monkeypatch.setattr(one_input, "_chunks", lambda stream, found, _: chunks(stream, found, CHUNK_BYTES))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a plain log and two packed ones, of which the last repeats the end of the one before."""
    folder = tmp_path_factory.mktemp("logs")
    for name in (PLAIN, PACKED):
        packed = shared(f"traces/mooncake_{name.partition('.')[0]}.jsonl.zst").read_bytes()
        data = zstandard.ZstdDecompressor().stream_reader(packed).read()
        (folder / name).write_bytes(data if name == PLAIN else gzip.compress(data, mtime=0))
    (folder / LATER).write_bytes(gzip.compress(data[data.index(b"\n", len(data) // 2) + 1 :], mtime=0))
    return folder


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two scenarios, and what the logs leave open."""
    folder = tmp_path_factory.mktemp("scenarios")
    paths = [folder / f"s{blocks}.toml" for blocks in (20_000, 60_000)]
    for path in paths:
        blocks = path.stem[1:]
        path.write_text(f'name = "{path.stem}"\n[cache]\ncapacity = "{blocks} blocks"\n', encoding="utf-8")
    return {"scenario": paths, "t0": "2026-11-24T00:00:00Z", "block_size": 512, "jobs": 2}


@pytest.fixture(scope="module")
def whole(logs: Path, options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the same leaves on disk, made by this machine."""
    folder = tmp_path_factory.mktemp("here")
    return _report(folder / "page", str(logs), folder / "disk", "local", options)


def _report(
    folder: Path, logs: str, place: str | Path, engine: str, options: dict[str, Any]
) -> dict[str, bytes]:
    """Make a report; return the workspace, the page, its twin and the tables."""
    folder.mkdir(exist_ok=True)
    api.report([logs], workspace=place, output=folder / "week.html", engine=engine, **options)
    held = {f"ws/{name}": data for name, data in tree(mirror.workspace_at(place).root).items()}
    return {
        name: data
        for name, data in (held | tree(folder)).items()
        if not name.endswith("run.json") and not name.startswith("ws/.")
    }


def _differ(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _again(bucket: str) -> str:
    return (mirror.workspace_at(objects.joined(bucket, "ws")).root / "run.json").read_text(encoding="utf-8")


def test_a_report_is_the_same(
    bucket: str,
    asked: list[Asked],
    logs: Path,
    options: dict[str, Any],
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers read out of the store themselves: their parts of a plain object, and packed ones whole."""
    sent: list[Any] = []
    submit = RayEngine._submit

    def noted(self: RayEngine, work: Any, function: Any, held: Any, item: Any) -> Any:
        sent.append(item)
        return submit(self, work, function, held, item)

    monkeypatch.setattr(RayEngine, "_submit", noted)
    url = objects.joined(bucket, "logs")
    upload(logs, url)
    found = _report(tmp_path / "there", url, objects.joined(bucket, "ws"), RAY, options)
    assert _differ(whole, found) == []
    ranges = [item for item in sent if isinstance(item, ByteRange)]
    assert {item.at for item in ranges} == {objects.joined(url, PLAIN)}
    assert len(ranges) > 9
    assert all(item.chunk.data == b"" for item in ranges)
    packed = [item.source.url for item in sent if isinstance(item, WholeInput)]
    assert packed == [objects.joined(url, name) for name in (PACKED, LATER)]
    assert not any(isinstance(item, Chunk) for item in sent)
    gets = [one.first_byte for one in asked if one.method == "GET" and one.path.endswith(PLAIN)]
    assert set(gets) >= {item.chunk.offset for item in ranges}
    assert objects.find(objects.joined(bucket, "ws", mirror.LISTING)) is not None


def test_a_worker_is_killed(
    bucket: str, logs: Path, options: dict[str, Any], whole: dict[str, bytes], tmp_path: Path
) -> None:
    """Its tasks are run again, and the run log says so."""
    url = objects.joined(bucket, "logs")
    upload(logs, url)
    with ray_support.killing(lambda: True) as killed:
        found = _report(tmp_path / "there", url, objects.joined(bucket, "ws"), RAY, options)
    assert killed
    assert '"tasks_run_again": 0' not in _again(bucket)
    assert _differ(whole, found) == []


def test_an_object_goes_while_it_is_read(
    bucket: str, logs: Path, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names it; once it is back, the same command goes on from the input that was complete."""
    folder = tmp_path / "logs"
    shutil.copytree(logs, folder)
    head = (logs / PLAIN).read_bytes()[: 1 << 16]
    (folder / "a-first.jsonl").write_bytes(head[: head.rindex(b"\n") + 1])
    options = options | {"scenario": options["scenario"][:1]}
    whole = _report(tmp_path / "here", str(folder), tmp_path / "disk", "local", options)
    url, place = objects.joined(bucket, "logs"), objects.joined(bucket, "ws")
    upload(folder, url)
    gone = objects.joined(url, PLAIN)
    submit = RayEngine._submit

    def lost(self: RayEngine, work: Any, function: Any, held: Any, item: Any) -> Any:
        if isinstance(item, ByteRange) and item.at == gone:
            objects.delete(gone)
        return submit(self, work, function, held, item)

    with monkeypatch.context() as patch:
        patch.setattr(RayEngine, "_submit", lost)
        with pytest.raises(InputError, match="it was deleted while it was read") as raised:
            _report(tmp_path / "there", url, place, RAY, options)
    assert PLAIN in str(raised.value.place)
    assert "a-first.jsonl" in (mirror.workspace_at(place).root / "manifest.json").read_text(encoding="utf-8")
    objects.put(logs / PLAIN, gone)
    found = _report(tmp_path / "there", url, place, RAY, options)
    assert _differ(whole, found) == []


def test_tables_are_read_by_workers(bucket: str, asked: list[Asked], tmp_path: Path) -> None:
    """Parquet and Arrow in the store, each by one worker, by the map of the user."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'format = "parquet"\nblock_size = 2\n[columns]\nstarted_at = { from = "ts", unit = "s" }\ntoken_ids = "ids"\n',
        encoding="utf-8",
    )
    folder = tmp_path / "logs"
    folder.mkdir()
    tables = [
        pa.table({"ts": [day, day + 1], "ids": [[1, 2, 3, 4], [1, 2, day]]})
        for day in (1_795_953_600, 1_796_040_000)
    ]
    pq.write_table(tables[0], folder / "a.parquet")
    with pa.ipc.new_file(str(folder / "b.arrow"), tables[1].schema) as out:
        out.write_table(tables[1])
    url = objects.joined(bucket, "logs")
    upload(folder, url)
    asked.clear()
    trees = []
    for source, engine in ((str(folder), "local"), (url, RAY)):
        api.ingest([source], workspace=tmp_path / engine, map=plan, engine=engine, jobs=2)
        files = tree(tmp_path / engine)
        assert (b"read whole files" in files.pop("run.json")) == (engine == RAY)
        trees.append(files)
    assert trees[0] == trees[1]
    assert any(one.method == "GET" and one.path.endswith("b.arrow") for one in asked)
