"""Block sizes, the trailing block, and ids with two parents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_support import ingest, mooncake, write_lines
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def _row(at: int, tokens: int, n_ids: int, first: int = 0) -> dict[str, Any]:
    return mooncake(at, [first + k for k in range(n_ids)], tokens)


def _floor(size: int, lengths: list[int]) -> list[dict[str, Any]]:
    return [_row(at, length, length // size) for at, length in enumerate(lengths)]


LENGTHS = [33, 70, 100, 129, 250, 301, 17, 90, 64, 96]


def test_the_block_size_comes_from_option_then_file_name_then_format(tmp_path: Path) -> None:
    """Mooncake's own 512 is the last resort; the message says where the size comes from."""
    named = write_lines(tmp_path / "t_blksz_16.jsonl", _floor(16, LENGTHS))
    result = ingest(tmp_path / "a", named)
    assert result.account.block_size == 16
    assert "from the file name" in result.summary.messages[0]
    wide = write_lines(tmp_path / "t_blksz_32.jsonl", _floor(16, LENGTHS))
    assert "asked for" in ingest(tmp_path / "b", wide, block_size=16).summary.messages[0]
    plain = write_lines(tmp_path / "plain.jsonl", _floor(512, [512, 1_030, 5_000]))
    assert "the format's own" in ingest(tmp_path / "c", plain).summary.messages[0]


@pytest.mark.parametrize("size", [16, 32, 64, 128, 528])
def test_a_wrong_size_names_the_right_one(tmp_path: Path, size: int) -> None:
    """If under half of the rows fit, exit code 2 and the sizes that do fit; nothing is written."""
    lengths = [length * size // 13 for length in (400, 777, 1_200, 333, 59, 2_000)]
    path = write_lines(tmp_path / "t.jsonl", _floor(size, lengths))
    with pytest.raises(UsageError, match=rf"sizes that fit: .*\b{size}\b") as caught:
        ingest(tmp_path / "ws", path, block_size=1_000)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)
    assert not (tmp_path / "ws" / "requests").exists()


def test_half_of_the_rows_is_enough(tmp_path: Path) -> None:
    """At exactly half the size stands, and the other rows are rejects."""
    rows = _floor(16, LENGTHS) + [_row(100 + k, 1_600, 3) for k in range(len(LENGTHS))]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t.jsonl", rows), block_size=16)
    assert (result.account.kept, result.account.rejected) == (10, 10)
    with pytest.raises(UsageError):
        ingest(
            tmp_path / "w2", write_lines(tmp_path / "u.jsonl", [*rows, _row(500, 1_600, 3)]), block_size=16
        )


@pytest.mark.parametrize(
    ("ids", "rule"),
    [([2, 4, 6, 8], "floor"), ([3, 5, 7, 8], "ceil"), ([2, 4, 7, 8], "floor"), ([3, 5, 6, 8], "ceil")],
)
def test_floor_or_ceil_is_counted(tmp_path: Path, ids: list[int], rule: str) -> None:
    """The rule that more rows follow names the input; rows of the other rule keep their full blocks."""
    rows = [_row(at, tokens, n) for at, (tokens, n) in enumerate(zip((40, 70, 100, 128), ids, strict=True))]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows))
    assert result.account.block_ids == rule
    assert [len(result.ids(row)) for row in result.requests] == [2, 4, 6, 8]
    assert [row["n_blocks"] for row in result.requests] == [2, 4, 6, 8]


def test_prompts_of_whole_blocks_tell_no_rule(tmp_path: Path) -> None:
    """Where nothing is partial both rules fit, and the account says so."""
    path = write_lines(tmp_path / "t_blksz_16.jsonl", [_row(0, 32, 2), _row(1, 64, 4)])
    assert ingest(tmp_path / "ws", path).account.block_ids == "exact"


def test_a_stated_rule_is_strict(tmp_path: Path) -> None:
    """With --block-ids floor an id for the partial block is a fault; if most rows have one, the rule is."""
    rows = [*_floor(16, LENGTHS), _row(50, 40, 3)]
    result = ingest(tmp_path / "a", write_lines(tmp_path / "t_blksz_16.jsonl", rows), block_ids="floor")
    assert [row["reason"] for row in result.rejects] == [
        "block count: 3 ids do not fit 40 tokens at 16 a block by floor"
    ]
    with pytest.raises(UsageError, match="by ceil"):
        ingest(tmp_path / "b", tmp_path / "t_blksz_16.jsonl", block_ids="ceil")


def _tree_rows(count: int) -> list[dict[str, Any]]:
    """Rows of 3 blocks over two roots; block id = prefix."""
    return [mooncake(at, [at % 2, 10 + at % 4, 1_000 + at]) for at in range(count)]


def test_an_id_with_two_parents_in_few_rows_rejects_those_rows(tmp_path: Path) -> None:
    """Under 0.1 % of the rows: the odd row is rejected, its line and the other are named, the blocks are gone."""
    rows = _tree_rows(2_400)
    rows[700] = mooncake(700, [0, 11, 1_700])  # 11 follows 1 everywhere else
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows))
    (reject,) = result.rejects
    assert reject["reason"] == "two parents: id 11 follows another id in line 701 than in line 2"
    assert (reject["line"], reject["record"]) == (701, 701)
    assert result.account.ids == "prefix"
    assert result.account.kept == 2_399


def test_the_odd_row_is_the_fault_even_if_it_comes_first(tmp_path: Path) -> None:
    """What most rows say is right, whatever the order."""
    rows = _tree_rows(2_400)
    rows.insert(0, mooncake(0, [0, 11, 5]))
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows))
    assert [row["line"] for row in result.rejects] == [1]


def test_a_junk_id_in_the_middle_is_found_by_what_follows_it(tmp_path: Path) -> None:
    """An id that nobody else has is no fault by itself; the known id behind it has a new parent."""
    rows = [mooncake(at, [1, 2, 3, 100 + at]) for at in range(1_500)]
    rows[20] = mooncake(20, [1, 99_999, 3, 120])
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows))
    assert [row["reason"] for row in result.rejects] == [
        "two parents: id 3 follows another id in line 21 than in line 1"
    ]


def test_many_ids_with_two_parents_are_hashes_of_content(tmp_path: Path) -> None:
    """At 0.1 % of the rows or more nothing is rejected; keys are chained anyway, and the report can say so."""
    rows = [mooncake(at, [at % 3, 50 + at % 2, 70]) for at in range(60)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows))
    assert result.rejects == []
    assert result.account.ids == "content"
    assert any("hashes of content" in note for note in result.account.notes)
    assert result.ids(result.requests[4]) == [1, 50, 70]


def test_namespaces_do_not_argue(tmp_path: Path) -> None:
    """The same id under another model may follow another id."""
    rows = [
        {**mooncake(1_795_953_600 + at, [at % 2, 7]), "model": "ab"[at % 2], "id": str(at)}
        for at in range(3_000)
    ]
    plan = tmp_path / "m.toml"
    plan.write_text(
        'format = "jsonl"\nblock_size = 16\n[columns]\nstarted_at = { from = "timestamp", unit = "s" }\n'
        'prompt_tokens = "input_length"\nblock_ids = "hash_ids"\nmodel = "model"\nrequest_id = "id"\n'
    )
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "m.jsonl", rows), map_file=plan)
    assert (result.account.kept, result.account.ids) == (3_000, "prefix")


def test_equal_token_blocks_under_two_parents_are_no_fault(tmp_path: Path) -> None:
    """Labels computed from token ids name content by design."""
    plan = tmp_path / "m.toml"
    plan.write_text(
        'format = "jsonl"\nblock_size = 2\n[columns]\nstarted_at = { from = "t", unit = "s" }\ntoken_ids = "ids"\n'
    )
    rows = [{"t": 1_795_953_600 + at, "ids": [at, at, 5, 5, 6, 6]} for at in range(10)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "m.jsonl", rows), map_file=plan)
    assert (result.account.kept, result.account.ids, result.account.notes) == (10, None, ())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=40), st.sampled_from([1, 7, 4_096])
)
def test_paths_come_back_as_they_were_logged(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[int]], chunk_bytes: int
) -> None:
    """Whatever the ids, each request's path is its list of ids, and no block is stored twice."""
    folder = tmp_path_factory.mktemp("paths")
    rows = [
        mooncake(at, [depth * 10 + step for depth, step in enumerate(path)]) for at, path in enumerate(paths)
    ]
    result = ingest(
        folder / "ws",
        write_lines(folder / "t_blksz_16.jsonl", rows),
        chunk_bytes=chunk_bytes,
        max_rejects="100%",
    )
    assert [result.ids(row) for row in result.requests] == [row["hash_ids"] for row in rows]
    import pyarrow.parquet as pq

    table = pq.ParquetFile(folder / "ws" / "paths" / f"{result.account.source}.parquet").read().to_pylist()
    prefixes = {tuple(row["hash_ids"][:n]) for row in rows for n in range(1, len(row["hash_ids"]) + 1)}
    assert len(table) == len(prefixes) == len({(b["parent"], b["label_lo"]) for b in table})
