"""What a map file makes of CSV, Parquet, Arrow and lists, and what a wrong map is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, ingest, write_lines
from log_support import LENGTHS, NOON_S, map_plan
from prefixledger.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_csv_with_a_map(tmp_path: Path) -> None:
    """Quoted prompts with line ends, lists in three spellings, empty and null cells, another delimiter."""
    plan = map_plan(
        tmp_path,
        'format = "csv"\nblock_size = 2\n[columns]\nrequest_id = "id"\n'
        'started_at = { from = "ts", unit = "ms" }\nblock_ids = "b"\nprompt_tokens = "n"\n'
        'cached_tokens_observed = "c"\nmodel = "m"\n',
    )
    ms = NOON_S * 1_000
    text = (
        "id;ts;n;c;m;b;prompt\r\n"
        f'1;{ms};4;2;a;[1, 2];"two\r\nlines"\r\n'
        f'2;{ms + 1};4;;NA;1|3;"say ""hi"""\r\n'
        f"3;{ms + 2};4;null;;1 4;x\r\n"
        f"4;{ms + 3};4;0;a;[1 5];x\r\n"
        "5;oops\r\n"
        f'6;{ms};4;0;a;[1 5];"no end\r\n'
    )
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode())
    result = ingest(tmp_path / "ws", path, map_file=plan)
    rows = result.requests
    assert [result.ids(row) for row in rows] == [[1, 2], [1, 3], [1, 4], [1, 5]]
    assert [row["source_line"] for row in rows] == [2, 4, 5, 6]
    assert [row["model"] for row in rows] == ["a", None, None, "a"]
    assert [row["usage_state"] for row in rows] == ["present", "null", "null", "present"]
    assert [(r["line"], r["reason"].partition(":")[0]) for r in result.rejects] == [
        (7, "column count"),
        (8, "broken CSV"),
    ]


def test_parquet_with_a_map(tmp_path: Path) -> None:
    """Timestamps, u64 stored as negative i64, nested usage and nulls; byte offsets are null."""
    plan = map_plan(
        tmp_path,
        'format = "parquet"\nblock_size = 16\n[columns]\nstarted_at = { from = "ts", unit = "iso" }\n'
        'block_ids = "b"\nprompt_tokens = "n"\ncached_tokens_observed = "u.cached"\nreplica = "pod"\n',
    )
    noon = datetime(2026, 11, 29, 12, 0, 0, 250_001, tzinfo=UTC)
    n_rows = 10_000
    table = pa.table(
        {
            "ts": pa.array([noon] * n_rows, pa.timestamp("ns", tz="UTC")),
            "n": pa.array([32] * (n_rows - 1) + [None], pa.int32()),
            "b": pa.array([[-1, 7]] * (n_rows - 2) + [None, [1, 2]], pa.list_(pa.int64())),
            "u": [{"cached": 16}] * n_rows,
            "pod": pa.array(["p"] * n_rows).dictionary_encode(),
        }
    )
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    result = ingest(tmp_path / "ws", path, map_file=plan)
    first, last = result.requests[0], result.requests[-1]
    assert result.account.kept == n_rows - 1
    assert result.ids(first) == [(1 << 64) - 1, 7]
    assert first["started_at"] == noon
    assert (first["cached_tokens_observed"], first["replica"]) == (16, "p")
    assert (last["keyed"], last["source_line"]) == (False, n_rows - 1)
    (reject,) = result.rejects
    assert (reject["line"], reject["byte_offset"], reject["reason"]) == (
        n_rows,
        None,
        "missing field: prompt_tokens",
    )


def test_parquet_may_come_packed_or_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the same source, from a gzip as well as from standard input."""
    import gzip
    import io

    plan = map_plan(tmp_path, f'format = "parquet"\n[columns]\n{LENGTHS}')
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"ts": [NOON_S], "n": [7]}), path)
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    class Stdin:
        buffer = io.BytesIO(path.read_bytes())

    monkeypatch.setattr("sys.stdin", Stdin)
    sources = [
        ingest(tmp_path / f"ws{n}", s, map_file=plan).account.source
        for n, s in enumerate((path, packed, "-"))
    ]
    assert len(set(sources)) == 1


def test_arrow_files_are_columnar_too(tmp_path: Path) -> None:
    """An Arrow file goes under format = "parquet"."""
    plan = map_plan(tmp_path, f'format = "parquet"\n[columns]\n{LENGTHS}')
    table = pa.table({"ts": [NOON_S, NOON_S + 1], "n": [7, 8]})
    with pa.ipc.new_file(str(tmp_path / "log.arrow"), table.schema) as out:
        out.write_table(table)
    assert ingest(tmp_path / "ws", tmp_path / "log.arrow", map_file=plan).account.kept == 2


def test_a_json_list_is_as_good_as_lines(tmp_path: Path) -> None:
    """A document that is one list has a record for each element."""
    plan = map_plan(tmp_path, f'format = "jsonl"\n[columns]\n{LENGTHS}')
    path = tmp_path / "log.json"
    path.write_text(json.dumps([{"ts": NOON_S + n, "n": n} for n in range(4)] + [{"ts": NOON_S}], indent=2))
    result = ingest(tmp_path / "ws", path, map_file=plan)
    assert [row["source_line"] for row in result.requests] == [1, 2, 3, 4]
    assert [row["record"] for row in result.rejects] == [5]
    assert (
        '"ts": 1795953600' in result.rejects[0]["excerpt"]
        or '"ts":1795953600' in result.rejects[0]["excerpt"]
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('format = "xml"\n[columns]\n', 1, "format"),
        ('format = "csv"\n[columns]\nprompt_tokens = "n"\n', 2, "started_at is missing"),
        ('format = "csv"\n[columns]\nstarted_at = "t"\n', 2, "prompt_tokens is missing"),
        (
            'format = "csv"\n[columns]\nstarted_at = "t"\npromt_tokens = "n"\n',
            4,
            "did you mean 'prompt_tokens'",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = { from = "t", unit = "h" }\nprompt_tokens = "n"\n',
            3,
            "no unit 'h'",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = "t"\ntext = "x"\ntoken_ids = "y"\n',
            4,
            "exclude each other",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = "t"\nprompt_tokens = "n"\nduration = "d"\n',
            5,
            "needs a unit",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = "t"\nprompt_tokens = { from = "n", unit = "s" }\n',
            4,
            "has no unit",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = { from = "t", zone = "Mars" }\nprompt_tokens = "n"\n',
            3,
            "no time zone",
        ),
        (
            'format = "csv"\nblock_ids = "round"\n[columns]\nstarted_at = "t"\nprompt_tokens = "n"\n',
            2,
            "block_ids",
        ),
        (
            'format = "csv"\n[columns]\nstarted_at = "t"\nprompt_tokens = { value = "3" }\n',
            4,
            "same for every row",
        ),
        ('format = "csv"\n[columns\n', 2, "not TOML"),
    ],
)
def test_a_wrong_map_says_what_and_where(tmp_path: Path, text: str, place: int, words: str) -> None:
    """Exit code 2, the line of the key at fault, and what exists."""
    plan = map_plan(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        ingest(tmp_path / "ws", FIXTURES / "azure_lengths.csv", map_file=plan)
    assert words in str(caught.value)
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == (str(plan), place)


def test_a_map_that_does_not_fit_the_file_is_refused(tmp_path: Path) -> None:
    """A column that is not there, doubled, or a file of another kind."""
    csv_plan = map_plan(tmp_path, f'format = "csv"\n[columns]\n{LENGTHS}', "csv.toml")
    parquet_plan = map_plan(tmp_path, f'format = "parquet"\n[columns]\n{LENGTHS}', "parquet.toml")
    doubled = write_lines(tmp_path / "doubled.csv", ["ts,n,n", "1,2,3"])
    table = tmp_path / "log.parquet"
    pq.write_table(pa.table({"ts": [1], "m": [2]}), table)
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(table.read_bytes()[:-20])
    for path, plan, words in (
        (FIXTURES / "azure_lengths.csv", csv_plan, "no column 'n'"),
        (doubled, csv_plan, "two columns 'n'"),
        (FIXTURES / "azure_lengths.csv", parquet_plan, "no Parquet"),
        (table, csv_plan, "is a Parquet"),
        (table, parquet_plan, "no column 'n'"),
    ):
        with pytest.raises(UsageError, match=words):
            ingest(tmp_path / "ws", path, map_file=plan)
    with pytest.raises(InputError, match="cannot be read as parquet"):
        ingest(tmp_path / "ws", damaged, map_file=parquet_plan)
    with pytest.raises(UsageError, match="exclude each other"):
        ingest(tmp_path / "ws", table, map_file=parquet_plan, format="mooncake")


def test_the_shipped_maps_fit_what_the_generators_write(tmp_path: Path) -> None:
    """The lesson sample is read through its map: 2,000 requests a run, four replicas, words as tokens."""
    from prefixledger.samples import generator

    lesson = generator("lesson")
    lesson.REQUESTS, before = 40, lesson.REQUESTS
    try:
        paths = lesson.write(tmp_path / "lesson")
    finally:
        lesson.REQUESTS = before
    plan = FIXTURES.parent / "lesson.map.toml"
    result = ingest(tmp_path / "ws", paths[0], map_file=plan)
    assert result.account.kept == 40
    assert {row["prompt_tokens"] for row in result.requests} == {2_060}
    assert {row["n_blocks"] for row in result.requests} == {128}
    assert len({row["replica"] for row in result.requests}) == 4
