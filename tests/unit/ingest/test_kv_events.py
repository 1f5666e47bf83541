"""KV events and counters: every spelling of engines and recorders, as rows beside the requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from ingest_support import ingest
from prefixledger.ingest.kv_parse import KVRow, block_hash, kv_rows, label_of
from prefixledger.ingest.readers.prometheus import SeriesRow
from prefixledger.ingest.records import BadRecordError
from prefixledger.kernels.vllm_keys import KeyRule, block_keys, low64
from prefixledger.schema_engines import KV_EVENTS, SERIES

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_795_946_400.25
AT_US = 1_795_946_400_250_000
TOKENS = list(range(1, 9))


def stored(**changes: Any) -> dict[str, Any]:
    """A store of two blocks of four tokens, the first of a prompt."""
    base = {"type": "BlockStored", "block_hashes": [11, 12], "parent_block_hash": None, "token_ids": TOKENS,
            "block_size": 4, "lora_id": None, "medium": "GPU"}  # fmt: skip
    return {**base, **changes}


def rows(*events: Any, **batch: Any) -> tuple[KVRow, ...]:
    """The rows of a batch."""
    found = kv_rows({"ts": AT, "events": list(events), **batch})
    assert found is not None
    return found


def test_rows_have_the_columns_of_the_tables() -> None:
    """What a reader makes and what the workspace holds are the same columns in the same order."""
    for row, table in ((KVRow, KV_EVENTS), (SeriesRow, SERIES)):
        own = ["at" if name == "at_us" else name for name in row._fields]
        assert own == [name for name in table.names if name not in ("source", "source_line")]


def test_maps_and_arrays_say_the_same() -> None:
    """0.24 and later send maps, before it arrays with the class first and defaults left out at the end."""
    arrays = [
        ["BlockStored", [11, 12], None, TOKENS, 4, None, "GPU"],
        ["BlockRemoved", [12], "GPU"],
        ["AllBlocksCleared"],
    ]
    maps = [
        stored(),
        {"type": "BlockRemoved", "block_hashes": [12], "medium": "GPU"},
        {"type": "AllBlocksCleared"},
    ]
    found = rows(*maps, dp_rank=1)
    assert kv_rows([AT, arrays, 1]) == found
    assert [(r.kind, r.block_hash, r.parent_hash, r.rank) for r in found] == [
        ("stored", 11, None, 1), ("stored", 12, 11, 1), ("removed", 12, None, 1), ("cleared", None, None, 1),
    ]  # fmt: skip
    assert {r.at_us for r in found} == {AT_US}
    assert found[1].label == label_of(TOKENS[4:])


def test_router_events_of_dynamo_are_read_bare_and_wrapped() -> None:
    """A worker and its rank are the replica; an event without a time can be held against nothing."""
    data = {
        "stored": {
            "parent_hash": 7,
            "blocks": [{"block_hash": 8, "tokens_hash": 1}, {"block_hash": 9, "tokens_hash": 2}],
        }
    }
    inner = {"worker_id": 5, "event": {"event_id": 1, "data": data, "dp_rank": 2}}
    assert kv_rows(inner) is None
    found = kv_rows({"timestamp": AT, "event": inner})
    assert found == kv_rows({"timestamp": AT, **inner})
    assert found is not None
    assert [(r.replica, r.rank, r.block_hash, r.parent_hash, r.label) for r in found] == [
        ("5", 2, 8, 7, None), ("5", 2, 9, 8, None),
    ]  # fmt: skip
    cleared = kv_rows({"timestamp": AT, "worker_id": 5, "event": {"data": "cleared"}})
    assert cleared == (KVRow(AT_US, "5", None, "cleared"),)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (5, 5),
        (-1, (1 << 64) - 1),
        ("18446744073709551615", (1 << 64) - 1),
        ("00" * 24 + "00000000000000ff", 255),
        ([1, 0], 256),
    ],
)
def test_hashes_are_64_bits_however_they_are_written(written: Any, value: int) -> None:
    """Integers of either sign, decimal text, and digests, of which the last 8 bytes count."""
    assert block_hash(written) == value


@pytest.mark.parametrize("written", [None, 1.5, True, "x", 1 << 64, [300], {}])
def test_what_is_no_hash_is_refused(written: Any) -> None:
    """A record with it is a reject."""
    with pytest.raises(BadRecordError):
        block_hash(written)


@pytest.mark.parametrize("seed", [None, "0"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_vllms_own_keys_are_recognised(algorithm: Any, seed: str | None) -> None:
    """A first block whose hash follows from its tokens says under which rule: then hashes mean the same everywhere."""
    keys = [low64(key) for key in block_keys(TOKENS, 4, KeyRule(algorithm, seed))]
    first, second = rows(stored(block_hashes=keys))
    assert (first.hash_rule, second.hash_rule) == (f"{algorithm}/{seed or 'default'}", None)
    assert rows(stored(block_hashes=[k + 1 for k in keys]))[0].hash_rule is None


def test_only_tokens_adapter_and_salt_make_labels() -> None:
    """An image, an adapter by number and tokens of the future make keys that tokens alone do not tell."""
    salted = rows(stored(lora_name="sql", extra_keys=[["sql", "s1"], ["sql"]]))
    assert [(r.adapter, r.cache_salt) for r in salted] == [("sql", "s1"), ("sql", None)]
    assert all(r.label for r in salted)
    assert rows(stored(cache_salt="s2"))[0].cache_salt == "s2"
    for changes in ({"extra_keys": [["s", ["img", 0]], None]}, {"extra_keys": [None, ["late"]]}, {"lora_id": 3},
                    {"lookahead_token_ids": [[9], [9]]}):  # fmt: skip
        assert [r.label for r in rows(stored(**changes))] == [None, None]
    assert rows(stored(token_ids=[1 << 33, *TOKENS[1:]]))[0].label is None


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [1, 2]},
        {"block_size": 0},
        {"block_hashes": None},
        {"token_ids": ["a"] * 8},
        {"extra_keys": [None]},
    ],
)
def test_malformed_events_are_rejects(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The rest of the file stays whole, and the account closes."""
    log = tmp_path / "kv.jsonl"
    lines = [
        {"ts": AT, "events": [stored()]},
        {"ts": AT, "events": [stored(**changes)]},
        {"ts": AT, "events": [stored()]},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    result = ingest(tmp_path / "ws", log)
    assert (result.account.skipped, result.account.rejected) == (2, 1)
    (table,) = (tmp_path / "ws" / "kv_events").glob("*.parquet")
    assert pq.read_table(table)["source_line"].to_pylist() == [1, 1, 3, 3]
    again = ingest(tmp_path / "ws", log)
    assert again.account.seen_before


def test_counters_of_a_range_query_become_samples(tmp_path: Path) -> None:
    """Old and new names of the metrics, any label for the replica; a rate is no counter, and NaN is no sample."""
    series = [
        ({"__name__": "vllm:prefix_cache_hits_total", "pod": "a", "engine": "1"}, [[10, "5"], [20, "7.0"]]),
        ({"__name__": "vllm:gpu_prefix_cache_queries_total", "instance": "b:8000"}, [[10, "1e3"]]),
        ({"pod": "a"}, [[10, "0.5"]]),
        ({"__name__": "vllm:e2e_request_latency_seconds"}, [[10, "1"]]),
        ({"__name__": "vllm:num_preemptions_total"}, [[10, "NaN"]]),
        ({"__name__": "vllm:num_preemptions_total"}, [[10, "-1"]]),
    ]
    result = [
        {"metric": metric, "values": [[1_795_946_400 + at, v] for at, v in values]}
        for metric, values in series
    ]
    log = tmp_path / "q.json"
    log.write_text(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}),
        encoding="utf-8",
    )
    found = ingest(tmp_path / "ws", log)
    assert (found.account.format, found.account.records, found.account.skipped, found.account.rejected) == (
        "prometheus",
        6,
        5,
        1,
    )
    (table,) = (tmp_path / "ws" / "series").glob("*.parquet")
    values = [(r["metric"], r["replica"], r["rank"], r["value"]) for r in pq.read_table(table).to_pylist()]
    assert values == [
        ("hit_tokens", "a", 1, 5.0),
        ("hit_tokens", "a", 1, 7.0),
        ("query_tokens", "b:8000", None, 1000.0),
    ]


def test_gauges_that_look_like_hits_are_skipped_with_what_they_mean(tmp_path: Path) -> None:
    """A use of 0 % between requests is no lost cache, a rate over the last requests no counter."""
    names = (
        "vllm:kv_cache_usage_perc",
        "vllm:external_prefix_cache_hits_total",
        "sglang:cache_hit_rate",
        "vllm:other",
    )
    result = [{"metric": {"__name__": name}, "values": [[1_795_946_400, "0"]]} for name in names]
    counter = {"metric": {"__name__": "vllm:prefix_cache_hits_total"}, "values": [[1_795_946_400, "0"]]}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [*result, counter]}}
    log = tmp_path / "q.json"
    log.write_text(json.dumps(answer), encoding="utf-8")
    reasons = ingest(tmp_path / "ws", log).account.reasons
    assert sum("running requests hold: 0 between requests" in reason for reason in reasons) == 1
    assert {reason.split(":")[0].split(" ")[0] for reason in reasons} == {"gauge", "counter", "hit", "series"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            {"status": "error", "errorType": "bad_data", "error": "{{x"},
            "an error in place of an answer: bad_data",
        ),
        ({"status": "error", "errorType": "{{x"}, "an error in place of an answer: of an unknown type"),
        ({"status": "error", "errorType": {}}, "an error in place of an answer: of an unknown type"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, "ask query_range"),
    ],
)
def test_answers_without_a_range_say_what_they_are(answer: dict[str, Any], told: str, tmp_path: Path) -> None:
    """An error, or the answer to another question, is a rejected record that names it, not a damaged log."""
    log = tmp_path / "q.json"
    log.write_text(json.dumps(answer), encoding="utf-8")
    found = ingest(tmp_path / "ws", log)
    assert (found.account.format, found.account.records, found.account.rejected) == ("prometheus", 1, 1)
    assert told in found.rejects[0]["reason"]


def test_an_answer_without_series_is_counted(tmp_path: Path) -> None:
    """It is one skipped record."""
    log = tmp_path / "q.json"
    log.write_text(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}), encoding="utf-8"
    )
    found = ingest(tmp_path / "ws", log)
    assert (found.account.records, found.account.skipped) == (1, 1)
