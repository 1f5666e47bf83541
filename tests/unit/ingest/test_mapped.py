"""Logs of any make, read through a map file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import Result, ingest, write_lines
from log_support import LENGTHS, NOON_S, map_plan

if TYPE_CHECKING:
    from pathlib import Path


def _jsonl(tmp_path: Path, rows: list[Any], columns: str, head: str = "", **options: Any) -> Result:
    plan = map_plan(tmp_path, f'format = "jsonl"\n{head}\n[columns]\n{columns}\n')
    return ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", rows), map_file=plan, **options)


TOKENS = 'started_at = { from = "ts", unit = "s" }\ntoken_ids = "ids"\n'


def _label(ids: list[int], extra: bytes = b"", width: int = 4) -> tuple[int, int]:
    data = b"".join(token.to_bytes(width, "little") for token in ids) + extra
    digest = blake2b(data, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def test_token_ids_become_digests_of_their_blocks(tmp_path: Path) -> None:
    """A label is BLAKE2b-128 of the block's ids as 32-bit words; the prompt length is that of the list."""
    rows = [{"ts": NOON_S, "ids": [9, 8, 7, 6, 5]}, {"ts": NOON_S + 1, "ids": [9, 8, 1, 1, 1, 1]}]
    result = _jsonl(tmp_path, rows, TOKENS, "block_size = 2")
    one, two = result.requests
    assert (one["prompt_tokens"], one["n_blocks"], two["n_blocks"]) == (5, 2, 3)
    assert result.labels(one) == [_label([9, 8]), _label([7, 6])]
    assert result.labels(two) == [_label([9, 8]), _label([1, 1]), _label([1, 1])]
    assert '"scope":"tokens"' in one["namespace"]


def test_adapter_and_salt_part_namespaces(tmp_path: Path) -> None:
    """Equal tokens under another adapter, salt, model or mapped namespace are never compared; null is a value."""
    columns = TOKENS + 'adapter = "a"\ncache_salt = "s"\nmodel = "m"\nnamespace = "v"\n'
    changes: list[dict[str, Any]] = [
        {},
        {"a": "x"},
        {"s": "x"},
        {"m": "x"},
        {"v": "x"},
        {"a": None},
        {"a": "null "},
    ]
    rows = [{"ts": NOON_S + n, "ids": [1, 2, 3, 4], **change} for n, change in enumerate(changes)]
    result = _jsonl(tmp_path, rows, columns, "block_size = 4")
    names = [row["namespace"] for row in result.requests]
    assert len(set(names)) == 5
    assert names[0] == names[5] == names[6]
    assert json.loads(names[1]) == {**json.loads(names[0]), "adapter": "x"}
    listed = {entry["name"]: entry["block_size"] for entry in result.manifest["sources"][0]["namespaces"]}
    assert set(listed) == set(names)
    assert set(listed.values()) == {4}


def test_images_part_the_blocks_they_lie_in(tmp_path: Path) -> None:
    """Blocks that an image overlaps differ by its hash and place; the blocks before it are shared."""
    columns = TOKENS + 'images = "mm"\n'
    rows = [
        {"ts": NOON_S, "ids": [1] * 12, "mm": [{"hash": "cat", "offset": 5, "length": 4}]},
        {"ts": NOON_S, "ids": [1] * 12, "mm": [{"hash": "dog", "offset": 5, "length": 4}]},
        {"ts": NOON_S, "ids": [1] * 12, "mm": [{"hash": "cat", "offset": 6, "length": 3}]},
        {"ts": NOON_S, "ids": [1] * 12},
        {"ts": NOON_S, "ids": [1] * 12, "mm": ["cat"]},
    ]
    result = _jsonl(tmp_path, rows, columns, "block_size = 4")
    cat, dog, moved, none = (result.labels(row) for row in result.requests)
    assert cat[0] == dog[0] == moved[0] == none[0] == _label([1] * 4)
    assert len({cat[1], dog[1], moved[1], none[1]}) == 4
    assert len({cat[2], dog[2], none[2]}) == 3
    assert none[1] == none[2] == _label([1] * 4)
    assert [row["line"] for row in result.rejects] == [5]


def test_token_lists_may_be_shorter_and_never_longer_than_the_prompt(tmp_path: Path) -> None:
    """A shortened list gives the keys of its head; one that is too long contradicts the record."""
    rows = [{"ts": NOON_S, "ids": [1] * 5, "n": n} for n in (5, 9, 4)]
    result = _jsonl(tmp_path, rows, TOKENS + 'prompt_tokens = "n"', "block_size = 2")
    assert [(r["prompt_tokens"], r["n_blocks"], r["prompt_complete"]) for r in result.requests] == [
        (5, 2, True),
        (9, 2, False),
    ]
    assert result.rejects[0]["reason"] == "token count: 5 ids, but 4 prompt tokens"


def test_wide_token_ids_are_taken(tmp_path: Path) -> None:
    """One id above 32 bits in a batch changes no label of other blocks."""
    small = _jsonl(tmp_path / "a", [{"ts": NOON_S, "ids": [1, 2, 3, 4]}], TOKENS, "block_size = 2")
    rows = [{"ts": NOON_S, "ids": [1, 2, 3, 4]}, {"ts": NOON_S + 1, "ids": [1, 2, 1 << 40, 4]}]
    wide = _jsonl(tmp_path / "b", rows, TOKENS, "block_size = 2")
    assert wide.labels(wide.requests[0]) == small.labels(small.requests[0])
    assert wide.labels(wide.requests[1])[0] == _label([1, 2])


def test_text_is_cut_by_bytes_where_only_text_was_logged(tmp_path: Path) -> None:
    """Eight bytes stand for two tokens; equal beginnings share blocks, and the account says that this is approximate."""
    columns = 'started_at = { from = "ts", unit = "s" }\ntext = "prompt"\n'
    rows = [{"ts": NOON_S, "prompt": "a b c d e f g h i"}, {"ts": NOON_S, "prompt": "a b c d x f g h i"}]
    result = _jsonl(tmp_path, rows, columns, "block_size = 2")
    one, two = result.requests
    assert (one["prompt_tokens"], two["prompt_tokens"]) == (4, 4)
    assert result.labels(one)[0] == result.labels(two)[0]
    assert result.labels(one)[1] != result.labels(two)[1]
    assert any(note.startswith("approximate keys") for note in result.account.notes)


def test_every_column_can_be_mapped(tmp_path: Path) -> None:
    """Names, dotted paths, constants, units and usage arrive in the columns of the same name."""
    columns = """
    request_id = "meta.id"
    started_at = { from = "t0", unit = "ms" }
    admitted_at = { from = "t1", unit = "us" }
    first_token_at = { from = "t2", unit = "ns" }
    finished_at = { from = "t3", unit = "iso" }
    provider = { value = "vllm" }
    model = "model"
    release = "rel"
    client = "client"
    tenant = "tenant"
    session_id = "session"
    replica = "pod"
    service_tier = "tier"
    prompt_tokens = "usage.prompt"
    output_tokens = "usage.output"
    cached_tokens_observed = "usage.details.cached"
    cache_write_5m_tokens_observed = "w5"
    cache_write_1h_tokens_observed = "w1"
    cache_write_other_tokens_observed = "w30m"
    weight = "w"
    status = "status"
    block_ids = "hashes"
    """
    row = {
        "meta": {"id": 17},
        "t0": NOON_S * 1_000,
        "t1": NOON_S * 1_000_000 + 5,
        "t2": NOON_S * 10**9 + 7_000,
        "t3": "2026-11-29T13:00:01+01:00",
        "model": "m",
        "rel": "v42",
        "client": "cli",
        "tenant": "t",
        "session": "s",
        "pod": "p0",
        "tier": "batch",
        "usage": {"prompt": 40, "output": 3, "details": {"cached": 32}},
        "w5": 8,
        "w1": 0,
        "w30m": 0,
        "w": 2.5,
        "status": 200,
        "hashes": [1, 2],
    }
    result = _jsonl(tmp_path, [row], columns, "block_size = 16")
    (got,) = result.requests
    texts = (
        "request_id",
        "provider",
        "model",
        "release",
        "client",
        "tenant",
        "session_id",
        "replica",
        "service_tier",
    )
    assert [got[name] for name in texts] == ["17", "vllm", "m", "v42", "cli", "t", "s", "p0", "batch"]
    moments = [got[name] for name in ("started_at", "admitted_at", "first_token_at", "finished_at")]
    noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert [round((m - noon).total_seconds() * 1_000_000) for m in moments] == [0, 5, 7, 1_000_000]
    counts = ("prompt_tokens", "output_tokens", "cached_tokens_observed")
    assert [got[name] for name in counts] == [40, 3, 32]
    assert [got[f"cache_write_{ttl}_tokens_observed"] for ttl in ("5m", "1h", "other")] == [8, 0, 0]
    assert (got["weight"], got["status"], got["usage_state"]) == (2.5, "ok", "present")
    assert result.ids(got) == [1, 2]


def test_duration_stands_in_for_the_end(tmp_path: Path) -> None:
    """End = start + duration in its own unit."""
    result = _jsonl(
        tmp_path, [{"ts": NOON_S, "n": 5, "d": 1_500}], LENGTHS + 'duration = { from = "d", unit = "ms" }'
    )
    (row,) = result.requests
    assert (row["finished_at"] - row["started_at"]).total_seconds() == 1.5


def test_absent_null_and_zero_usage(tmp_path: Path) -> None:
    """A field that is not there, one that is null, and 0 cached tokens are three things."""
    rows = [{"ts": NOON_S, "n": 9}, {"ts": NOON_S, "n": 9, "c": None}, {"ts": NOON_S, "n": 9, "c": 0}]
    result = _jsonl(tmp_path, rows, LENGTHS + 'cached_tokens_observed = "c"')
    states = [(row["usage_state"], row["cached_tokens_observed"]) for row in result.requests]
    assert states == [("absent", None), ("null", None), ("present", 0)]


@pytest.mark.parametrize(
    ("word", "status"),
    [(200, "ok"), ("stop", "ok"), (None, "ok"), (429, "failed"), ("503", "failed"), ("error", "failed"), (499, "cut"),
     ("cancelled", "cut"), ("Aborted", "cut"), ("tool_calls", "ok")],
)  # fmt: skip
def test_failed_calls_are_kept_as_failed(tmp_path: Path, word: Any, status: str) -> None:
    """HTTP codes and words are sorted into ok, failed and cut; no row is dropped for them."""
    result = _jsonl(tmp_path, [{"ts": NOON_S, "n": 9, "s": word}], LENGTHS + 'status = "s"')
    assert result.requests[0]["status"] == status


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ts": "soon"}, "wrong type"),
        ({"ts": NOON_S * 1_000}, "time out of range"),
        ({"ts": 12.5}, "mixed time units"),
        ({"ts": -1}, "negative time"),
        ({"n": -1}, "negative number"),
        ({"n": None}, "missing field"),
        ({"n": 10, "c": 11}, "absurd number"),
        ({"d": -3}, "negative duration"),
        ({"d": 10**12}, "absurd duration"),
        ({"w": 0}, "absurd number"),
        ({"m": ["a"]}, "wrong type"),
    ],
)
def test_values_that_cannot_be_are_rejects(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """One bad field costs its row and names itself."""
    columns = (
        LENGTHS
        + 'cached_tokens_observed = "c"\nweight = "w"\nmodel = "m"\nduration = { from = "d", unit = "ms" }\n'
    )
    rows = [{"ts": NOON_S + n, "n": 50} for n in range(5)]
    rows.append({"ts": NOON_S, "n": 50, **change})
    result = _jsonl(tmp_path, rows, columns)
    assert [row["reason"].partition(":")[0] for row in result.rejects] == [reason]
    assert result.account.kept == 5


def test_two_clocks_in_one_file_are_an_error(tmp_path: Path) -> None:
    """A column that counts from the start beside one of unix microseconds: every row is refused by name."""
    columns = 'prompt_tokens = "n"\nstarted_at = { from = "arrival", unit = "us" }\nadmitted_at = { from = "send", unit = "us" }\n'
    rows = [{"n": 9, "arrival": 55_000 + at, "send": 1_788_000_000_000_000 + at} for at in range(4)]
    result = _jsonl(tmp_path, rows, columns)
    assert result.too_many
    assert {row["reason"] for row in result.rejects} == {
        "mixed time units: admitted_at is a year or more away from the start"
    }
    columns = LENGTHS + 'admitted_at = { from = "send", unit = "s" }\n'
    late = [{"n": 9, "ts": NOON_S + at, "send": 5 + at} for at in range(4)]
    assert _jsonl(tmp_path / "swapped", late, columns).too_many


def test_a_clock_before_2001_is_relative(tmp_path: Path) -> None:
    """Offsets need no map entry and meet no plausibility check; the map may say it, too."""
    rows = [{"ts": at, "n": 9} for at in (0, 0.25, 86_400 * 365 * 20)]
    assert _jsonl(tmp_path / "a", rows, LENGTHS).account.clock == "relative"
    assert _jsonl(tmp_path / "b", rows, LENGTHS, 'clock = "relative"').account.kept == 3
    absolute = _jsonl(
        tmp_path / "c", [{"ts": NOON_S, "n": 9}, {"ts": 5, "n": 9}], LENGTHS, 'clock = "absolute"'
    )
    assert absolute.account.clock == "absolute"


def test_id_scope_of_a_map(tmp_path: Path) -> None:
    """Block ids are local to the file unless the map or the option says that they mean the same everywhere."""
    columns = LENGTHS + 'block_ids = "b"'
    rows = [{"ts": NOON_S, "n": 32, "b": [1, 2]}]
    local = _jsonl(tmp_path / "a", rows, columns).requests[0]["namespace"]
    mapped = _jsonl(tmp_path / "b", rows, columns, 'id_scope = "global"').requests[0]["namespace"]
    asked = _jsonl(tmp_path / "c", rows, columns, id_scope="global").requests[0]["namespace"]
    assert '"scope":"ids:file:' in local
    assert '"scope":"ids:global"' in mapped
    assert mapped == asked


def test_zones_of_iso_times(tmp_path: Path) -> None:
    """A zone in the text wins, then that of the map, then UTC, which the account says."""
    columns = 'started_at = {{ from = "ts"{} }}\nprompt_tokens = "n"'
    rows = [{"ts": "2026-11-29T14:00:00", "n": 1}, {"ts": "2026-11-29T14:00:00.1234567Z", "n": 1}]
    berlin = _jsonl(tmp_path / "a", rows, columns.format(', zone = "Europe/Berlin"'))
    utc = _jsonl(tmp_path / "b", rows, columns.format(""))
    assert [row["started_at"].hour for row in berlin.requests] == [13, 14]
    assert [row["started_at"].hour for row in utc.requests] == [14, 14]
    assert utc.requests[1]["started_at"].microsecond == 123_456
    assert any("no zone" in note for note in utc.account.notes)
    assert not any("no zone" in note for note in berlin.account.notes)
