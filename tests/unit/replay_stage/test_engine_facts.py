"""Capacity, restarts and changes of weights, as the logs themselves tell them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api, attribute, replay
from prefixledger.config.scenario import load_scenario, parse_scenario
from prefixledger.errors import InputError, UsageError
from prefixledger.index import update
from prefixledger.replay.engine_facts import EngineFact, LoggedReplica, speaker
from prefixledger.workspace import write_json
from stage_support import MINUTE, ints, read, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.workspace import Workspace

FROM_LOG = '[cache]\ncapacity = "from-log"\n'


def told(workspace: Workspace, **files: list[dict[str, Any]]) -> Workspace:
    """Let inputs say something of engines; a name of a source that has rows says it beside them."""
    manifest = json.loads(workspace.manifest.read_text(encoding="utf-8"))
    for name, facts in files.items():
        entry = next((e for e in manifest["sources"] if e["source"] == name), None)
        if entry is None:
            entry = {"source": name, "first_at_us": None, "namespaces": []}
            manifest["sources"].append(entry)
        numbered = [{"line": n, "at_us": None, **fact} for n, fact in enumerate(facts, start=1)]
        entry.update(path=f"logs/{name}.log", facts=numbered)
    write_json(workspace.manifest, manifest)
    update(workspace)
    return workspace


def asked(n: int, **columns: Any) -> dict[str, Any]:
    """A request of 4 blocks, 2 of which all share."""
    return {"at_us": n * MINUTE, "ids": [1, 2, 100 + 2 * n, 101 + 2 * n], **columns}


def capacity(**said: Any) -> dict[str, Any]:
    """A fact."""
    return {"kind": "capacity", **said}


def capacity_of(workspace: Workspace) -> tuple[int | None, tuple[str, ...]]:
    """Replay as from-log; return the capacity and the notes about it."""
    found = replay.run(workspace, parse_scenario(FROM_LOG))
    return found.pools[0].capacity_blocks, tuple(note for note in found.notes if "capacity is" in note)


@pytest.mark.parametrize(
    ("facts", "blocks"),
    [
        ([capacity(engine="vllm", blocks=9)], 8),
        ([capacity(engine="vllm", tokens=160)], 9),
        ([capacity(engine="sglang", slots=160)], 10),
        ([capacity(engine="vllm", blocks=5, block_size=64)], 16),
        ([{"kind": "block_size", "tokens": 64}, capacity(engine="vllm", tokens=640)], 36),
        ([capacity(engine="vllm", blocks=9), capacity(engine="vllm", blocks=20)], 8),
    ],
)
def test_a_printed_capacity_becomes_usable_blocks(
    tmp_path: Path, facts: list[dict[str, Any]], blocks: int
) -> None:
    """One block is what vLLM keeps for itself, SGLang none; other block sizes are converted, and the smallest of several holds."""
    workspace = told(write_workspace(tmp_path, [asked(n) for n in range(6)]), engine=facts)
    found, notes = capacity_of(workspace)
    assert found == blocks
    assert len(notes) == 1
    assert ("the smallest that was printed" in notes[0]) == (sum(f["kind"] == "capacity" for f in facts) > 1)


def test_the_number_is_kept_with_the_replay(tmp_path: Path) -> None:
    """Books, curves and the page are made of the number; another number makes another replay."""
    workspace = told(write_workspace(tmp_path, [asked(n) for n in range(6)]), engine=[capacity(blocks=9)])
    first = replay.run(workspace, parse_scenario(FROM_LOG))
    assert load_scenario(first.folder / "scenario.toml").pool[0].cache.capacity == "8 blocks"
    attribute.run(workspace, first.name)
    assert replay.run(workspace, parse_scenario(FROM_LOG)).reused
    told(workspace, engine=[capacity(blocks=7)])
    again = replay.run(workspace, parse_scenario(FROM_LOG))
    assert not again.reused
    assert again.pools[0].capacity_blocks == 6


def test_only_what_the_replicas_of_a_pool_print_counts(tmp_path: Path) -> None:
    """A file is named after its replica; two pools with a file of nobody known are refused."""
    rows = [asked(n, replica=("a-1", "b-1")[n % 2], model="mn"[n % 2]) for n in range(8)]
    scenario = parse_scenario(
        "".join(
            f'[[pool]]\nname = "{m}"\nmatch = {{ model = "{m}" }}\n[pool.cache]\ncapacity = "from-log"\n'
            for m in "mn"
        )
    )
    workspace = told(
        write_workspace(tmp_path, rows), **{"a-1": [capacity(blocks=9)], "b-1": [capacity(blocks=5)]}
    )
    assert [pool.capacity_blocks for pool in replay.run(workspace, scenario).pools] == [8, 4]
    told(workspace, other=[capacity(blocks=3)])
    with pytest.raises(UsageError, match=r"other.log:1 prints a capacity, and it is not known which pool's"):
        replay.run(workspace, scenario)


def test_no_printed_capacity_is_a_usage_error(tmp_path: Path) -> None:
    """Never unlimited instead: the hint says what lines are looked for."""
    workspace = write_workspace(tmp_path, [asked(0)])
    with pytest.raises(UsageError, match="no log that was read prints one") as caught:
        replay.run(workspace, parse_scenario(FROM_LOG))
    assert "GPU KV cache size" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "process", "name"),
    [
        ("logs/h1.log", None, "h1"),
        ("logs/vllm-h1.log.gz", None, "h1"),
        ("h1/server.log", None, "h1"),
        ("logs/h11.log", None, None),
        ("logs/h2.log", "DP1", "h2/dp1"),
        ("logs/h2.log", "EngineCore_DP0", "h2/dp0"),
        ("logs/h2.log", None, None),
    ],
)
def test_a_file_and_rank_name_a_replica(path: str, process: str | None, name: str | None) -> None:
    """The name stands in the path as a word, with the rank of the process where replicas have ranks; else it is nobody."""
    replicas = [LoggedReplica(0, each, ints()) for each in ("h1", "h2/dp0", "h2/dp1")]
    said = {"kind": "capacity"} | ({} if process is None else {"process": process})
    found = speaker(EngineFact("s", path, 1, None, said), replicas)
    assert (None if found is None else found.name) == name


def start(at_us: int) -> dict[str, Any]:
    """A process start."""
    return {"kind": "start", "at_us": at_us}


def test_starts_become_restarts_of_the_replica_that_wrote_them(tmp_path: Path) -> None:
    """Starts before and after all requests are none, the lines of one are one; what was held before it is lost."""
    rows = [asked(n, replica=f"h{n % 2}") for n in range(8)]
    starts = [start(-MINUTE), start(3 * MINUTE + 1), start(3 * MINUTE + 2), start(9 * MINUTE)]
    workspace = told(write_workspace(tmp_path, rows), h1=starts)
    found = replay.run(workspace)
    events = [(e["kind"], e["at"], e["note"]) for e in read(found, "events") if e["kind"] == "restart"]
    assert [(kind, at) for kind, at, _ in events] == [("restart", 3 * MINUTE + 1)]
    assert events[0][2] == "start at logs/h1.log:2"
    assert any("1 restart of h1 by the starts in logs/h1.log" in note for note in found.notes)
    attribute.run(workspace, found.name)
    causes = list(api.query("SELECT replica, sum(miss_invalidated_tokens)::INT FROM lookups GROUP BY 1 ORDER BY 1",
                            workspace=workspace.root).rows())  # fmt: skip
    assert causes == [("h0", 0), ("h1", 32)]


def test_starts_of_nobody_known_change_nothing(tmp_path: Path) -> None:
    """Which of two replicas started is not guessed, and it is said."""
    workspace = told(
        write_workspace(tmp_path, [asked(n, replica=f"h{n % 2}") for n in range(8)]), x=[start(3 * MINUTE)]
    )
    found = replay.run(workspace)
    assert [e for e in read(found, "events") if e["kind"] == "restart"] == []
    assert any("no one replica of this log is it" in note for note in found.notes)


def test_a_log_that_is_one_of_several_for_one_cache_restarts_nobody(tmp_path: Path) -> None:
    """Two files without replica names are taken as one cache, and one of two processes is not that cache."""
    rows = [asked(n, source=f"s{n % 2}") for n in range(8)]
    alone = told(write_workspace(tmp_path / "one", [asked(n) for n in range(8)]), s=[start(3 * MINUTE + 1)])
    both = told(write_workspace(tmp_path / "two", rows), s0=[start(3 * MINUTE + 1)])
    assert [e["kind"] for e in read(replay.run(alone), "events")] == ["restart"]
    assert read(replay.run(both), "events") == []


def test_a_change_of_weights_lies_before_the_first_request_to_them(tmp_path: Path) -> None:
    """By the version that the answers of a replica carry, in order of their ends; another replica keeps its cache."""
    rows = [
        asked(n, replica=f"h{n % 2}", finished_at=(n * MINUTE + 1),
              labels=[("weight_version", "v2" if n >= 4 and n % 2 else "v1")])
        for n in range(8)
    ]  # fmt: skip
    workspace = write_workspace(tmp_path, rows)
    manifest = json.loads(workspace.manifest.read_text(encoding="utf-8"))
    manifest["sources"][0]["format"] = "sglang"
    write_json(workspace.manifest, manifest)
    found = replay.run(workspace)
    (event,) = read(found, "events")
    assert (event["kind"], event["at"], event["note"]) == ("weights", 5 * MINUTE, "weights v2 after v1")
    assert any("1 change of weights of h1" in note for note in found.notes)


def test_an_engine_log_is_an_option_of_replay_and_report(tmp_path: Path) -> None:
    """It is read beside the log of the requests, or for a workspace that is there; one that says nothing is refused."""
    log, engine, nothing = tmp_path / "log.jsonl", tmp_path / "engine.txt", tmp_path / "nothing.txt"
    rows = [
        {"timestamp": 1000 * n, "input_length": 1025, "output_length": 1, "hash_ids": [1, 2, 9 + n]}
        for n in range(6)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    engine.write_text('vllm:cache_config_info{block_size="512",num_gpu_blocks="41"} 1.0\n', encoding="utf-8")
    nothing.write_text("hello\n", encoding="utf-8")
    scenario = tmp_path / "s.toml"
    scenario.write_text(FROM_LOG, encoding="utf-8")
    place = tmp_path / "ws"
    found = api.replay([log], workspace=place, scenario=[scenario], engine_log=[engine])
    assert found.replays[0].pools[0].capacity_blocks == 40
    assert found.ingest is not None
    assert [one.format for one in found.ingest.inputs] == ["mooncake", "engine-log"]
    page = api.report([place], output=tmp_path / "r.html", scenario=[scenario], engine_log=[engine])
    assert page.replays[0].reused
    with pytest.raises(InputError, match="no line of the engine logs"):
        api.replay([place], scenario=[scenario], engine_log=[nothing])
