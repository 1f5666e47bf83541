"""Whether prompt counts have cached tokens in them: decided for each model from the rows of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest_support import Result, ingest, write_lines
from prefixledger.ingest.records import Row
from prefixledger.ingest.usage import TOTAL_INCLUSIVE, apply_usage

if TYPE_CHECKING:
    from pathlib import Path

DETAILS = "prompt_tokens_details"


def _chat(prompt: int, read: Any = None, output: int = 5, **more: Any) -> dict[str, Any]:
    held = {} if read is None else {DETAILS: {"cached_tokens": read}}
    return {"prompt_tokens": prompt, "completion_tokens": output, **held, **more}


def _read(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Result:
    """Ingest exchanges, one a second."""
    timed = [{"ts": 1_795_953_600 + at, **row} for at, row in enumerate(rows)]
    return ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", timed), **options)


def _prompts(result: Result) -> list[int]:
    return [row["prompt_tokens"] for row in result.requests]


def test_more_cached_than_prompt_is_quarantined_with_its_pattern(tmp_path: Path) -> None:
    """An engine whose two nodes both count shows twice the whole blocks: no convention, but a fault."""
    good = [{"model": "m", "usage": _chat(200, 128, total_tokens=205)} for _ in range(5)]
    bad = [
        {"model": "m", "usage": _chat(90, 128, total_tokens=95)},
        {"model": "m", "usage": _chat(2_023, 3_968)},
    ]
    result = _read(tmp_path, [*good, *bad])
    assert _prompts(result) == [200] * 5
    assert [reject["reason"] for reject in result.rejects] == [
        "absurd number: 128 cached of 90 prompt tokens, twice the whole 64-token blocks: two nodes may both have counted",
        "absurd number: 3968 cached of 2023 prompt tokens, twice the whole 64-token blocks: two nodes may both have counted",
    ]
    assert any("2 rows have more cached than prompt" in note for note in result.account.notes)
    alone = _read(tmp_path / "alone", [{"model": "m", "usage": _chat(87, 128)}], max_rejects=5)
    assert alone.account.rejected == 1


def test_the_convention_is_decided_for_each_model_from_its_rows(tmp_path: Path) -> None:
    """A wrapper that leaves cached tokens out is found out, another model in the same file is not touched."""
    claude = [{"model": "claude", "usage": _chat(50 + n, 5_383 + n)} for n in range(6)]
    unclear = [{"model": "claude", "usage": _chat(900, 300)}]
    gpt = [{"model": "gpt", "usage": _chat(2_000, 1_920)} for _ in range(3)]
    result = _read(tmp_path, [*claude, *unclear, *gpt])
    assert _prompts(result) == [5_433 + 2 * n for n in range(6)] + [1_200] + [2_000] * 3
    notes = [note for note in result.account.notes if note.startswith("usage")]
    assert (
        "usage of claude as openai-chat: cached tokens are not part of the prompt count, shown by 6 of 7 rows"
        in notes
    )
    assert (
        "usage as openai-chat: cached tokens are part of the prompt count in 3 rows, as the dialect has it"
        in notes
    )
    assert all(row["cached_tokens_observed"] <= row["prompt_tokens"] for row in result.requests)


def test_a_total_tells_what_it_was_made_of(tmp_path: Path) -> None:
    """Cached tokens that are in the input are not added again, those that are not, are."""
    inside = {"input": 12_000, "input_cached_tokens": 11_500, "output": 8, "total": 12_008}
    outside = {"input_tokens": 10, "cache_read_input_tokens": 5_000, "output_tokens": 4}
    row, other = Row(0, None), Row(0, None)
    apply_usage(row, inside)
    apply_usage(other, outside)
    assert row.convention is not None
    assert row.convention.flags & TOTAL_INCLUSIVE
    result = _read(
        tmp_path,
        [
            {
                "model": "a",
                "usage": {
                    "inputTokens": 12_000,
                    "cacheReadInputTokens": 11_500,
                    "outputTokens": 8,
                    "totalTokens": 12_008,
                },
            },
            {"model": "b", "usage": outside},
            {
                "model": "b",
                "usage": {"prompt_tokens": 5_010, "cache_read_input_tokens": 5_000, "completion_tokens": 4},
            },
        ],
    )
    assert _prompts(result) == [12_000, 5_010, 5_010]


def test_a_source_that_mixes_conventions_says_so(tmp_path: Path) -> None:
    """Rows whose own total denies the verdict of their model are read by it, and counted."""
    outside = [{"model": "m", "usage": _chat(50, 5_000)} for _ in range(9)]
    inside = [{"model": "m", "usage": _chat(5_050, 5_000, total_tokens=5_055)} for _ in range(2)]
    result = _read(tmp_path, [*outside, *inside])
    assert _prompts(result) == [5_050] * 11
    assert any("mixed: 2 rows say the opposite" in note for note in result.account.notes)


def test_totals_computed_without_looking_prove_nothing(tmp_path: Path) -> None:
    """Where rows with more cached than prompt have a total of prompt + output, totals of that wrapper are no evidence."""
    rows = [{"model": "m", "usage": _chat(50, 5_383, 29, total_tokens=79)} for _ in range(4)]
    result = _read(tmp_path, [*rows, {"model": "m", "usage": _chat(500, 100, 29, total_tokens=529)}])
    assert _prompts(result) == [5_433] * 4 + [600]


def test_a_few_faulty_rows_do_not_turn_a_convention_over(tmp_path: Path) -> None:
    """Below 5 % of a model's rows, more cached than prompt is a fault of those rows."""
    rows = [{"model": "m", "usage": _chat(500, 100)} for _ in range(40)]
    result = _read(tmp_path, [*rows, {"model": "m", "usage": _chat(50, 777)}])
    assert set(_prompts(result)) == {500}
    assert "777 cached of 50" in result.rejects[0]["reason"]


def test_prompts_that_shrink_are_a_hint(tmp_path: Path) -> None:
    """Where nothing is said of cached tokens and the next turn has a tenth of the prompt, the account says so."""
    turns = [
        {"model": "m", "session_id": "s", "usage": {"input_tokens": n, "output_tokens": 4}}
        for n in (9_000, 200)
    ]
    assert any("from 9,000 to 200 tokens" in note for note in _read(tmp_path, turns).account.notes)
    for turn in turns:
        turn["usage"] = {**turn["usage"], "cache_read_input_tokens": 0}
    assert not any("shrink" in note for note in _read(tmp_path / "said", turns).account.notes)


def test_lengths_of_block_lists_accuse_no_usage(tmp_path: Path) -> None:
    """A session of a block-hash log may well shrink: its ids prove the prompt count."""
    rows = [
        {
            "timestamp": n,
            "session_id": "s",
            "input_length": 16 * n,
            "output_length": 1,
            "hash_ids": list(range(n)),
        }
        for n in (600, 10)
    ]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "mooncake_blksz_16.jsonl", rows))
    assert not any("shrink" in note for note in result.account.notes)
