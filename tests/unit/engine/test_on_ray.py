"""The same commands on a Ray cluster of two workers: the same bytes, whatever dies on the way."""

from __future__ import annotations

import pickle
import re
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import engine_tasks as tasks
import ray_support
from ingest_support import tree
from prefixledger import api
from prefixledger.attribute import parts
from prefixledger.engine import RAY, Work, open_engine
from prefixledger.engine.on_ray import RayEngine
from prefixledger.errors import InputError, UsageError
from prefixledger.index import partitions
from prefixledger.replay import apart
from prefixledger.samples import generator
from support import ROOT, shared

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster
TRY = Work("try", "tries")
SAMPLES = ROOT / "sample_traces"
TOML = 'name = "{name}"\n[cache]\ncapacity = "{blocks} blocks"\n'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster of two workers; commands of this process then use it."""
    with ray_support.cluster() as ray:
        yield ray


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """Write a week of a small story over four replicas."""
    size = generator("story").Story(tenants=20, requests_per_day=400)
    return Path(generator("story").write(tmp_path / "story.jsonl", size))


def _scenarios(folder: Path, *blocks: int) -> list[Path]:
    paths = [folder / f"s{n}.toml" for n in blocks]
    for path, n in zip(paths, blocks, strict=True):
        path.write_text(TOML.format(name=path.stem, blocks=n), encoding="utf-8")
    return paths


def _copies(folder: Path, number: int) -> list[Path]:
    """Write the scenario of the story under several names; each is replayed by itself."""
    paths = [folder / f"copy{n}.toml" for n in range(number)]
    text = (SAMPLES / "story.scenario.toml").read_text(encoding="utf-8")
    for path in paths:
        path.write_text(
            re.sub('^name = ".*"', f'name = "{path.stem}"', text, count=1, flags=re.MULTILINE),
            encoding="utf-8",
        )
    return paths


def _left(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(folder).items() if not name.endswith("run.json")}


def _report(folder: Path, log: Path, engine: str, **options: Any) -> dict[str, bytes]:
    api.report([log], workspace=folder / "ws", output=folder / "week.html", engine=engine, jobs=2, **options)
    return _left(folder)


@pytest.mark.usefixtures("cluster")
def test_results_errors_and_losses() -> None:
    """In order; an error keeps its kind, place and hint; what is shared is found again by the next kind of task."""
    with open_engine(RAY) as engine:
        assert engine.workers == 2
        assert list(engine.map(TRY, tasks.times, range(9), 3)) == [3 * item for item in range(9)]
        with pytest.raises(InputError, match="it is bad") as raised:
            list(engine.map(TRY, tasks.refuse, range(9)))
        assert (str(raised.value.place), raised.value.hint) == ("a.jsonl:3", "mend it")


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """Its task is run again elsewhere; one that kills whatever runs it ends with an error."""
    with open_engine(RAY) as engine:
        assert list(engine.map(TRY, tasks.die_once, range(9), str(tmp_path / "mark"))) == [*range(9)]
        assert engine.times.again == 1
        with pytest.raises(UsageError, match="a process that tries ended before its work"):
            list(engine.map(TRY, tasks.die, range(9)))


def test_a_lost_object(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all tasks share goes with the process that owns it; it is shared again, and what failed is run again."""
    share, owners = RayEngine._share, []

    class Owner:
        """Owns what it puts into the store."""

        def put(self, data: bytes) -> list[Any]:
            return [cluster.put(data)]

    def share_and_lose(self: RayEngine, work: Work, given: Any) -> Any:
        if owners:
            return share(self, work, given)
        owners.append(cluster.remote(Owner).options(num_cpus=0).remote())
        (reference,) = cluster.get(owners[0].put.remote(pickle.dumps(given)))
        cluster.kill(owners[0])
        time.sleep(1.0)
        return reference.hex(), reference

    monkeypatch.setattr(RayEngine, "_share", share_and_lose)
    with open_engine(RAY) as engine:
        assert list(engine.map(TRY, tasks.times, range(6), 3)) == [3 * item for item in range(6)]
        assert engine.times.again > 0


@pytest.mark.usefixtures("cluster")
def test_memory_is_bounded_per_task(tmp_path: Path) -> None:
    """What fits passes; what does not is told, with the option that gives more; nobody has more than there is."""
    pq.write_table(pa.table({"a": range(5)}), tmp_path / "a.parquet")
    with open_engine(RAY, task_memory="64MiB") as engine:
        assert list(engine.map(TRY, tasks.read_rows, range(3), str(tmp_path / "a.parquet"))) == [5] * 3
        assert list(engine.map(TRY, tasks.fill, [1 << 20] * 3)) == [1 << 20] * 3
        with pytest.raises(UsageError, match="a task that tries needs more than the 64 MiB that it may take"):
            list(engine.map(TRY, tasks.fill, [1 << 20, 1 << 28, 1 << 20]))
    with pytest.raises(UsageError, match="no machine of the cluster has"):
        open_engine(RAY, task_memory="900TiB")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("name", "block_size"), [("mooncake_conversation.jsonl.zst", 512), ("weka_agentic_blk64.jsonl.zst", 64)]
)
def test_traces_leave_the_same_bytes(
    name: str, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace, the page, its twin and the tables; keys and numbers by parts there, and numbers by one map here."""
    monkeypatch.setattr(partitions, "FEWEST_BLOCKS", 0)
    options = {
        "scenario": _scenarios(tmp_path, 20_000, 60_000),
        "t0": "2026-11-24T00:00:00Z",
        "block_size": block_size,
    }
    trees = [
        _report(tmp_path / engine, shared(f"traces/{name}"), engine, **options) for engine in ("local", RAY)
    ]
    kinds = [(tmp_path / engine / "ws" / "run.json").read_text(encoding="utf-8") for engine in ("local", RAY)]
    assert ['"numbers"' in told for told in kinds] == [False, True]
    assert len(trees[0]) > 100
    assert trees[0].keys() == trees[1].keys()
    assert [path for path in trees[0] if trees[0][path] != trees[1][path]] == []


@pytest.mark.usefixtures("cluster")
def test_the_story_leaves_the_same_bytes(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One scenario, whose replicas and parts are tasks; with a limit of memory the scenario is one."""
    monkeypatch.setattr(apart, "FEWEST_LOOKUPS", 0)
    options = {"map": SAMPLES / "story.map.toml", "scenario": [SAMPLES / "story.scenario.toml"]}
    whole = _report(tmp_path / "local", story, "local", **options)
    monkeypatch.setattr(parts, "PART_PIECES", 1_000)
    for folder, more in (("apart", {}), ("bounded", {"task_memory": "2GiB"})):
        found = _report(tmp_path / folder, story, RAY, **options, **more)
        assert whole.keys() == found.keys()
        assert [path for path in whole if whole[path] != found[path]] == []
        kinds = (tmp_path / folder / "ws" / "run.json").read_text(encoding="utf-8")
        told = [f'"{kind}"' in kinds for kind in ("replicas", "causes", "scenarios")]
        assert told == [not more, not more, bool(more)]


@pytest.mark.usefixtures("cluster")
def test_a_grid_is_the_same(story: Path, tmp_path: Path) -> None:
    """Every cell with its interval, routings that draw included."""
    given = {
        "map": SAMPLES / "story.map.toml", "scenario": SAMPLES / "story.scenario.toml", "workspace": tmp_path / "ws",
        "capacity": "2000,4000", "routing": "as-logged,random,cache-aware", "growth": "1.5", "jobs": 2,
    }  # fmt: skip
    whole, found = (api.whatif([story], engine=engine, **given) for engine in ("local", RAY))
    assert len(whole.cells) > 8
    assert found.cells == whole.cells


@pytest.mark.usefixtures("cluster")
def test_a_worker_is_killed_while_a_report_is_made(story: Path, tmp_path: Path) -> None:
    """The report is the same, and its run log says that tasks were run again."""
    options = {"map": SAMPLES / "story.map.toml", "scenario": _copies(tmp_path, 3)}
    whole = _report(tmp_path / "local", story, "local", **options)
    with ray_support.killing(lambda: any((tmp_path / "ray").glob("ws/replays/.*.part"))) as killed:
        found = _report(tmp_path / "ray", story, RAY, **options)
    assert killed
    assert '"tasks_run_again": 0' not in (tmp_path / "ray" / "ws" / "run.json").read_text(encoding="utf-8")
    assert [path for path in whole if whole[path] != found.get(path)] == []


@pytest.mark.usefixtures("cluster")
def test_tasks_that_may_not_write_so_much_stop_and_go_on(story: Path, tmp_path: Path) -> None:
    """The limit of files is told as a full disk is; with room the same command ends as if nothing had been."""
    options = {"map": SAMPLES / "story.map.toml", "scenario": _copies(tmp_path, 2)}
    whole = _report(tmp_path / "local", story, "local", **options)
    with open_engine(RAY) as engine:  # both workers are there
        assert len(list(engine.map(TRY, tasks.where, range(20)))) == 20
    workers = ray_support.workers()
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in workers}
    try:
        for pid in workers:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (20_000, limits[pid][1]))
        with pytest.raises(UsageError, match=r"cannot write: .*(large|EFBIG)") as raised:
            _report(tmp_path / "ray", story, RAY, **options)
        assert "the same command goes on from here" in str(raised.value.hint)
    finally:
        for pid in workers & ray_support.workers():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits[pid])
    found = _report(tmp_path / "ray", story, RAY, **options)
    assert whole.keys() == found.keys()
    assert [path for path in whole if whole[path] != found[path]] == []
