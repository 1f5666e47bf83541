"""Engines beside their replay: residency by KV events against simulated hits, and counters by the hour."""

from __future__ import annotations

import json
import random
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger import api
from prefixledger.kernels.dynamo_keys import sequence_hash
from prefixledger.kernels.vllm_keys import KeyRule, block_keys, low64
from prefixledger.outcomes import GapError
from prefixledger.replay.kv_kernel import resident_prefix
from twins.kv_residency import resident_prefixes

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 16
START = 1_795_946_400
MAP = """
format = "jsonl"
block_size = 16
[columns]
request_id = "id"
started_at = { from = "ts", unit = "s" }
token_ids = "ids"
replica = "pod"
adapter = "lora"
"""


def requests(pods: int = 1, *, lora: str | None = None) -> list[dict[str, Any]]:
    """40 prompts of a shared head, one of four middles and a tail of their own, with a partial block each."""
    draw = random.Random(5)
    head, middles = [7] * 64, [[20 + m] * 48 for m in range(4)]
    return [
        {"id": f"q{n}", "ts": START + n, "ids": [*head, *middles[draw.randrange(4)], *(1000 + 40 * n + k for k in range(37))],
         "pod": f"h{n % pods}", "lora": lora}
        for n in range(40)
    ]  # fmt: skip


def engine(asked: list[dict[str, Any]], rule: KeyRule | None) -> list[dict[str, Any]]:
    """The events of engines that never forget: each request stores what its replica lacks, half a second later."""
    held: dict[str, set[int]] = {}
    batches = []
    for one in asked:
        ids, have = one["ids"], held.setdefault(one["pod"], set())
        if rule is not None:
            keys = [low64(key) for key in block_keys(ids, BLOCK, rule)]
        else:
            keys = [hash(tuple(ids[: BLOCK * (n + 1)])) & 0xFFFF_FFFF for n in range(len(ids) // BLOCK)]
        new = [n for n, key in enumerate(keys) if key not in have]
        have.update(keys)
        if new:
            first = new[0]
            event = {
                "type": "BlockStored", "block_hashes": keys[first:], "parent_block_hash": keys[first - 1] if first else None,
                "token_ids": ids[BLOCK * first : BLOCK * len(keys)], "block_size": BLOCK, "medium": "GPU", "lora_name": one["lora"],
            }  # fmt: skip
            batches.append({"ts": one["ts"] + 0.5, "replica": one["pod"], "events": [event]})
    batches.append({"ts": START + 100, "replica": asked[0]["pod"], "events": []})
    return batches


def replayed(folder: Path, asked: list[dict[str, Any]], **files: Any) -> Any:
    """Replay a log beside files of events or counters."""
    folder.mkdir(exist_ok=True)
    (folder / "map.toml").write_text(MAP, encoding="utf-8")
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in asked), encoding="utf-8")
    api.ingest([log], workspace=folder / "ws", map=folder / "map.toml", jobs=1)
    for name, lines in files.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        api.ingest([path], workspace=folder / "ws", jobs=1)
    return api.replay([folder / "ws"], jobs=1).replays[0]


def compared(found: Any) -> list[tuple[str, int, int]]:
    """Replica, simulated and resident blocks of each lookup that is compared."""
    table = pq.read_table(found.folder / "kv_lookups.parquet").to_pylist()
    return [(row["replica"], row["simulated_blocks"], row["resident_blocks"]) for row in table]


@pytest.mark.parametrize("rule", [KeyRule("sha256_cbor", "0"), None], ids=["vllm", "opaque"])
def test_an_engine_that_never_forgets_agrees_with_its_replay(tmp_path: Path, rule: KeyRule | None) -> None:
    """Whatever its hashes are: blocks are told by their tokens and those before them, on the replica that stored them."""
    asked = requests(pods=2)
    found = replayed(tmp_path, asked, kv=engine(asked, rule))
    rows = compared(found)
    assert len(rows) >= 30
    assert all(simulated == resident for _, simulated, resident in rows)
    assert {replica for replica, _, _ in rows} == {"h0", "h1"}
    assert max(simulated for _, simulated, _ in rows) == 7


def test_a_removal_and_a_clear_show_where_the_replay_holds_too_much(tmp_path: Path) -> None:
    """After the engine dropped the shared head nothing behind it can hit, until it is stored again."""
    asked = requests()
    batches = engine(asked, KeyRule("sha256"))
    head = batches[0]["events"][0]["block_hashes"][0]
    gone = {
        "ts": START + 20.7,
        "replica": "h0",
        "events": [{"type": "BlockRemoved", "block_hashes": [head], "medium": "GPU"}],
    }
    all_gone = {"ts": START + 30.7, "replica": "h0", "events": [["AllBlocksCleared"]]}
    rows = compared(replayed(tmp_path, asked, kv=[*batches, gone, all_gone]))
    resident = [blocks for _, _, blocks in rows]
    first = 40 - len(rows)
    assert all(simulated == blocks for _, simulated, blocks in rows[: 21 - first])
    assert set(resident[21 - first :]) == {0}
    changes = pq.read_table(tmp_path / "ws" / "replays" / "as-is" / "kv_changes.parquet").to_pylist()
    assert [row["removed_blocks"] for row in changes if row["removed_blocks"]] == [1]
    (cleared,) = (row for row in changes if row["cleared"])
    assert cleared["resident_blocks"] == 0


def test_hashes_that_vllm_makes_by_rule_are_known_to_all_replicas(tmp_path: Path) -> None:
    """A subscriber that came late learns the parents of its blocks from another replica; with random seeds it cannot."""
    asked = requests(pods=2)
    told = {}
    for name, rule in (("ruled", KeyRule("sha256_cbor")), ("opaque", None)):
        batches = engine(asked, rule)
        first = next(batch for batch in batches if batch["replica"] == "h1")
        late = [batch for batch in batches if batch is not first]
        found = replayed(tmp_path / name, asked, kv=late)
        note = next(note for note in found.notes if note.startswith("KV events"))
        told[name] = [int(word) for word in note.split() if word.isdecimal()][:2]
    assert told["ruled"][0] == told["ruled"][1] == told["opaque"][0]
    assert 0 < told["opaque"][1] < told["opaque"][0]


def test_rotated_files_are_one_engine(tmp_path: Path) -> None:
    """Blocks of the second file hang on those of the first, and their lookups are compared once."""
    asked = requests()
    batches = engine(asked, None)
    for batch in batches:
        del batch["replica"]
    whole = compared(replayed(tmp_path / "one", asked, kv=batches))
    parts = compared(replayed(tmp_path / "two", asked, kv1=batches[:20], kv2=batches[20:]))
    assert parts == whole


def test_events_of_nobody_known_and_of_other_memory_are_said_and_left_out(tmp_path: Path) -> None:
    """Which of two replicas an engine was is not guessed."""
    asked = requests(pods=2)
    batches = engine(asked, None)
    for batch in batches:
        batch["replica"] = "elsewhere"
    batches[0]["events"].append({"type": "BlockRemoved", "block_hashes": [1], "medium": "CPU"})
    found = replayed(tmp_path, asked, kv=batches)
    assert compared(found) == []
    assert any("1 of 1 engines are no one replica" in note for note in found.notes)
    assert any("1 are about memory other than that of the device" in note for note in found.notes)


def test_an_adapter_keeps_blocks_apart(tmp_path: Path) -> None:
    """The same tokens under another adapter are other blocks."""
    asked = requests(lora="sql")
    assert all(s == r for _, s, r in compared(replayed(tmp_path / "same", asked, kv=engine(asked, None))))
    other = replayed(tmp_path / "other", requests(), kv=engine(asked, None))
    assert compared(other) == []
    assert any("0 are blocks of requests in the log" in note for note in other.notes)


def test_events_of_dynamo_join_its_request_trace(tmp_path: Path) -> None:
    """Sequence hashes follow from the hashes of single blocks, so workers agree with the replay of what they were asked."""
    tmp_path.joinpath("ws").mkdir()
    trace, events, held = [], [], set()
    draw = random.Random(7)
    for n in range(30):
        tokens = [101, 102, 103, 200 + draw.randrange(3), *(1000 + 5 * n + k for k in range(4))]
        sequence = list(accumulate(tokens, sequence_hash))
        request = {
            "request_id": f"q{n}", "input_tokens": 8 * 16 + 5, "request_received_ms": 1000 * (START + n),
            "worker": {"prefill_worker_id": 7, "prefill_dp_rank": 0},
            "replay": {"trace_block_size": 16, "input_length": 8 * 16 + 5, "input_sequence_hashes": [*sequence, 5000 + n]},
        }  # fmt: skip
        trace.append({"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 1000 * (START + n + 1),
                      "request": request})  # fmt: skip
        new = [k for k in range(8) if sequence[k] not in held]
        held.update(sequence)
        blocks = [{"block_hash": sequence[k] ^ 99, "tokens_hash": tokens[k]} for k in new]
        stored = {"parent_hash": sequence[new[0] - 1] ^ 99 if new[0] else None, "blocks": blocks}
        inner = {"worker_id": 7, "event": {"event_id": n, "data": {"stored": stored}, "dp_rank": 0}}
        events.append({"timestamp": START + n + 0.5, "event": inner})
    for name, lines in (("trace", trace), ("kv", events)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        api.ingest([path], workspace=tmp_path / "ws", jobs=1)
    rows = compared(api.replay([tmp_path / "ws"], jobs=1).replays[0])
    assert len(rows) >= 28
    assert {replica for replica, _, _ in rows} == {"7/dp0"}
    assert all(simulated == resident for _, simulated, resident in rows)
    assert max(simulated for _, simulated, _ in rows) == 4


def test_counters_stand_beside_the_replay_by_the_hour(tmp_path: Path) -> None:
    """A counter that falls began anew; more hits than the log allows are flagged."""
    asked = requests()
    hits = [0, 900, 100, 4000]
    result = [
        {"metric": {"__name__": f"vllm:prefix_cache_{name}_total", "pod": "h0"},
         "values": [[START + 9 * n, str(value)] for n, value in enumerate(values)]}
        for name, values in (("hits", hits), ("queries", [0, 1000, 200, 4200]))
    ]  # fmt: skip
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    found = replayed(tmp_path, asked, q=[answer])
    rows = pq.read_table(found.folder / "counters.parquet").to_pylist()
    assert [row["amount"] for row in rows if row["metric"] == "hit_tokens"] == [900, 100, 3900]
    page = api.report([tmp_path / "ws"], output=tmp_path / "r.html", jobs=1)
    twin = json.loads(page.json.read_text(encoding="utf-8"))
    assert (twin["engines"]["counted_hit_tokens"], twin["engines"]["counted_query_tokens"]) == (4900, 5200)
    assert twin["engines"]["by_replica_hour"][0]["replica"] == "h0"
    assert any("engines count 94.2 %" in caveat for caveat in twin["verdict"]["caveats"])
    with pytest.raises(
        GapError, match=r"the replay hits 70\.9 % and the engines count 94\.2 %: \d\d\.\d points less"
    ):
        api.replay([tmp_path / "ws"], jobs=1, max_gap_pp=20)
    assert "own counters" in page.html.read_text(encoding="utf-8")


def test_events_and_counters_of_engines_stand_beside_a_log_that_a_map_reads(tmp_path: Path) -> None:
    """In one call: the map is that of the requests, what engines tell is known by what it looks like."""
    asked = requests()
    (tmp_path / "map.toml").write_text(MAP, encoding="utf-8")
    answer = {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {"metric": {"__name__": f"vllm:prefix_cache_{name}_total", "pod": "h0"},
                 "values": [[START, "0"], [START + 60, str(most)]]}
                for name, most in (("hits", 4000), ("queries", 5000))
            ],
        },
    }  # fmt: skip
    files = {"log": asked, "kv": engine(asked, KeyRule("sha256")), "counters": [answer]}
    for name, lines in files.items():
        text = "\n".join(json.dumps(line) for line in lines)
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")

    found = api.replay(
        [tmp_path / "log.json"], workspace=tmp_path / "ws", map=tmp_path / "map.toml", jobs=1,
        engine_log=[tmp_path / "kv.json", tmp_path / "counters.json"],
    ).replays[0]  # fmt: skip

    assert all(simulated == resident for _, simulated, resident in compared(found))
    assert {row["amount"] for row in pq.read_table(found.folder / "counters.parquet").to_pylist()} == {
        4000,
        5000,
    }


@given(st.data())
def test_the_kernel_equals_its_slow_twin(data: st.DataObject) -> None:
    """On random forests, copies, removals of what is not there, and clears."""
    n = data.draw(st.integers(1, 8))
    parent = [data.draw(st.integers(-1, block - 1)) for block in range(n)]
    change = st.sampled_from([1, 1, 1, -1, 0])
    events = sorted(data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, n - 1), change), max_size=12)),
                    key=lambda event: event[0])  # fmt: skip
    lookups = sorted(
        data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, n - 1)), min_size=1, max_size=6))
    )
    columns = [np.asarray([event[at] for event in events], np.int64) for at in range(3)]
    found = np.empty(len(lookups), np.int64)
    resident_prefix(
        np.asarray(parent, np.int64), *columns, *(np.asarray([one[at] for one in lookups], np.int64) for at in range(2)),
        np.zeros(n, np.int64), np.full(n, -1, np.int64), found,
    )  # fmt: skip
    assert found.tolist() == resident_prefixes(parent, events, lookups)
