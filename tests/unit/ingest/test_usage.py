"""One meaning of usage: every dialect, what is absent, null or zero, and what is impossible."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_support import Result, closes, ingest, write_lines
from prefixledger.ingest.dialects import BY_NAME, DIALECTS
from prefixledger.ingest.records import BadRecordError, Row
from prefixledger.ingest.usage import apply_usage, doubled_block, read_usage, usage_dialect

if TYPE_CHECKING:
    from pathlib import Path

DETAILS = "prompt_tokens_details"
CREATION = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 4}

# name of the dialect, usage, and what it means: prompt, read, written for 5 m, 1 h and other, output
EXAMPLES: list[tuple[str, dict[str, Any], tuple[int | None, ...]]] = [
    ("openai-chat", {"prompt_tokens": 2048, "completion_tokens": 3, "total_tokens": 2051,
                     DETAILS: {"cached_tokens": 1920, "cache_write_tokens": 0}}, (2048, 1920, None, None, 0, 3)),
    ("openai-responses", {"input_tokens": 12_594, "output_tokens": 5, "total_tokens": 12_599,
                          "input_tokens_details": {"cached_tokens": 3_200, "cache_write_tokens": 100,
                                                   "cache_write_tokens_details": {"ttl_30m_tokens": 60, "ttl_12h_tokens": 40}}},
     (12_594, 3_200, None, None, 100, 5)),
    ("openai-responses", {"input_tokens": 14_475, "cached_input_tokens": 2_432, "output_tokens": 216,
                          "total_tokens": 14_691}, (14_475, 2_432, None, None, None, 216)),
    ("anthropic", {"input_tokens": 4, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 8_845,
                   "cache_creation": CREATION, "output_tokens": 3}, (8_855, 8_845, 2, 4, None, 3)),
    ("anthropic", {"input_tokens": 4, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 0,
                   "output_tokens": 3}, (10, 0, 6, None, None, 3)),
    ("bedrock-converse", {"inputTokens": 433, "outputTokens": 16, "totalTokens": 3_201, "cacheReadInputTokens": 2_752,
                          "cacheReadInputTokenCount": 2_752, "cacheWriteInputTokens": 0}, (3_185, 2_752, 0, None, None, 16)),
    ("bedrock-converse", {"inputTokens": 3, "outputTokens": 121, "totalTokens": 2_072, "cacheReadInputTokens": 1_712,
                          "cacheWriteInputTokens": 236, "cacheDetails": [{"ttl": "1h", "inputTokens": 236}]},
     (1_951, 1_712, 0, 236, None, 121)),
    ("bedrock-log", {"inputTokenCount": 433, "cacheReadInputTokenCount": 2_752, "cacheWriteInputTokenCount": 0,
                     "outputTokenCount": 16}, (3_185, 2_752, 0, None, None, 16)),
    ("gemini", {"promptTokenCount": 3_520, "cachedContentTokenCount": 3_512, "candidatesTokenCount": 2,
                "thoughtsTokenCount": 42, "totalTokenCount": 3_564}, (3_520, 3_512, None, None, None, 44)),
    ("gemini", {"prompt_token_count": 11, "candidates_token_count": 105, "thoughts_token_count": 131,
                "tool_use_prompt_token_count": 90, "total_token_count": 337}, (101, 0, None, None, None, 236)),
    ("gemini", {"promptTokenCount": 14, "totalTokenCount": 14}, (14, 0, None, None, None, 0)),
    ("deepseek", {"prompt_tokens": 563, "completion_tokens": 9, "total_tokens": 572, DETAILS: {"cached_tokens": 512},
                  "prompt_cache_hit_tokens": 512, "prompt_cache_miss_tokens": 51}, (563, 512, None, None, None, 9)),
    ("cohere", {"billed_units": {"input_tokens": 2_406}, "tokens": {"input_tokens": 2_935, "output_tokens": 44},
                "cached_tokens": 2_928}, (2_935, 2_928, None, None, None, 44)),
    ("mistral", {"prompt_tokens": 77, "num_cached_tokens": 76, "completion_tokens": 3, "total_tokens": 80},
     (77, 76, None, None, None, 3)),
    ("groq", {"prompt_tokens": 336, "completion_tokens": 96, "total_tokens": 432, DETAILS: {"cached_tokens": 256},
              "queue_time": 0.005, "prompt_time": 0.5, "total_time": 1.1}, (336, 256, None, None, None, 96)),
    ("openrouter", {"prompt_tokens": 4_020, "completion_tokens": 5, "total_tokens": 4_025, "is_byok": False, "cost": 0.02,
                    DETAILS: {"cached_tokens": 0, "cache_write_tokens": 4_012}}, (4_020, 0, None, None, 4_012, 5)),
    ("sglang", {"prompt_tokens": 90, "completion_tokens": 5, "cached_tokens": 64,
                "cached_tokens_details": {"device": 64, "host": 0}}, (90, 64, None, None, None, 5)),
    ("litellm", {"prompt_tokens": 5_515, "completion_tokens": 9, "total_tokens": 5_524, DETAILS: {"cached_tokens": 5_116},
                 "cache_read_input_tokens": 5_116, "cache_creation_input_tokens": 0}, (5_515, 5_116, 0, None, None, 9)),
    ("helicone", {"prompt_tokens": 2_048.0, "completion_tokens": 3.0, "total_tokens": 2_051.0,
                  "prompt_cache_read_tokens": 1_920.0, "prompt_cache_write_tokens": 0.0}, (2_048, 1_920, 0, None, None, 3)),
    ("langfuse", {"input": 128, "input_cached_tokens": 1_920, "output": 3, "total": 2_051}, (2_048, 1_920, None, None, None, 3)),
    ("otel", {"gen_ai.usage.input_tokens": "2048", "gen_ai.usage.cache_read.input_tokens": "1920",
              "gen_ai.usage.output_tokens": "3", "gen_ai.request.model": "m"}, (2_048, 1_920, None, None, None, 3)),
    ("openinference", {"llm.token_count.prompt": 40, "llm.token_count.prompt_details.cache_read": 32,
                       "llm.token_count.completion": 5, "llm.token_count.total": 45}, (40, 32, None, None, None, 5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "usage", "meaning"), EXAMPLES, ids=[f"{e[0]}-{n}" for n, e in enumerate(EXAMPLES)]
)
def test_every_dialect_means_the_same(
    tmp_path: Path, name: str, usage: dict[str, Any], meaning: tuple[int | None, ...]
) -> None:
    """Each is told by its fields, and says prompt, read, written by TTL and output, whatever its prompt count includes."""
    dialect = usage_dialect(usage)
    assert dialect is not None
    assert dialect.name == name
    row = Row(0, None)
    apply_usage(row, usage)
    said = row.convention
    added = said.parts if said is not None and said.rule == "exclusive" else 0
    got = (
        (row.prompt_tokens or 0) + added,
        row.cached_tokens,
        row.cache_write_5m_tokens,
        row.cache_write_1h_tokens,
    )
    assert (*got, row.cache_write_other_tokens, row.output_tokens) == meaning
    if name not in ("langfuse", "otel", "openinference", "helicone"):  # formats of their own
        (kept,) = _read(tmp_path, [{"usage": usage, "model": "m"}]).requests
        assert kept["prompt_tokens"] == meaning[0]


def test_dialects_are_data() -> None:
    """Names are unique, and every dialect but the one without a mark recognises itself first."""
    assert len(BY_NAME) == len(DIALECTS)
    assert {name for name, _, _ in EXAMPLES} | {"vllm"} == set(BY_NAME)


def _chat(prompt: int, read: Any = None, output: int = 5, **more: Any) -> dict[str, Any]:
    held = {} if read is None else {DETAILS: {"cached_tokens": read}}
    return {"prompt_tokens": prompt, "completion_tokens": output, **held, **more}


def _read(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Result:
    """Ingest exchanges, one a second."""
    timed = [{"ts": 1_795_953_600 + at, **row} for at, row in enumerate(rows)]
    return ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", timed), **options)


def _prompts(result: Result) -> list[int]:
    return [row["prompt_tokens"] for row in result.requests]


# Absent, null and zero


def test_absent_null_and_zero_stay_three_things(tmp_path: Path) -> None:
    """A field that is not there, one that is null, one inside an object that is null, and 0."""
    usages = [
        _chat(10),
        _chat(10, **{DETAILS: {"cached_tokens": None}}),
        _chat(10, **{DETAILS: None}),
        _chat(10, 0),
    ]
    result = _read(tmp_path, [{"model": "m", "usage": usage} for usage in usages])
    assert [row["usage_state"] for row in result.requests] == ["absent", "null", "null", "present"]
    assert [row["cached_tokens_observed"] for row in result.requests] == [None, None, None, 0]


# Impossible rows

IMPOSSIBLE = [
    (
        {"input_tokens": 4, "cache_creation_input_tokens": 9, "cache_creation": CREATION, "output_tokens": 3},
        "6 written by TTL, but 9",
    ),
    (
        {"inputTokens": 4, "cacheReadInputTokens": 5, "cacheReadInputTokenCount": 6, "outputTokens": 1},
        "both mean the same",
    ),
    (
        {"prompt_tokens": 563, "prompt_cache_hit_tokens": 512, "prompt_cache_miss_tokens": 50},
        "are not the 563 prompt tokens",
    ),
    ({"promptTokenCount": 10, "cachedContentTokenCount": 11}, "11 cached of 10"),
    ({"prompt_tokens": -1, "completion_tokens": 2}, "negative number: prompt_tokens"),
    ({"prompt_tokens": 1e30, "completion_tokens": 2}, "absurd number: prompt_tokens"),
    ({"prompt_tokens": 1.5, "completion_tokens": 2}, "wrong type: prompt_tokens"),
    (_chat(100, "many"), "wrong type: prompt_tokens_details.cached_tokens"),
]


@pytest.mark.parametrize(("usage", "rule"), IMPOSSIBLE, ids=[rule for _, rule in IMPOSSIBLE])
def test_an_impossible_row_is_rejected_with_the_rule_it_breaks(
    tmp_path: Path, usage: dict[str, Any], rule: str
) -> None:
    """The rest of the log is read; the reason names the fields or the sum."""
    result = _read(tmp_path, [{"model": "m", "usage": _chat(50, 16)}, {"model": "m", "usage": usage}])
    assert _prompts(result) == [50]
    assert rule in result.rejects[0]["reason"]
    assert result.rejects[0]["line"] == 2


@pytest.mark.parametrize(
    ("prompt", "read", "block"),
    [(87, 128, 64), (90, 128, 64), (2_023, 3_968, 64), (87, 80, None), (50, 5_383, None)],
)
def test_the_pattern_is_twice_a_prefix_of_whole_blocks(prompt: int, read: int, block: int | None) -> None:
    """Only a number above the prompt that is just twice its whole blocks."""
    assert doubled_block(prompt, read) == block


def test_engine_logs_show_the_same_pattern(tmp_path: Path) -> None:
    """Where the format itself says that cached tokens are part of the prompt, no other row is asked."""
    request = {
        "request_id": "r",
        "request_received_ms": 1_795_953_600_000,
        "input_tokens": 90,
        "cached_tokens": 128,
    }
    event = {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": 1_795_953_600_000,
    }
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "d.jsonl", [{**event, "request": request}]))
    assert "128 cached of 90 prompt tokens, twice the whole 64-token blocks" in result.rejects[0]["reason"]


def test_read_and_written_together_fit_the_prompt(tmp_path: Path) -> None:
    """A row whose total says that both are in the prompt, but which has more of both than prompt, is impossible."""
    both = {DETAILS: {"cached_tokens": 2_161, "cache_write_tokens": 2_161}, "total_tokens": 2_173}
    result = _read(
        tmp_path, [{"model": "m", "usage": _chat(2_168, **both)}, {"model": "m", "usage": _chat(9)}]
    )
    assert [r["reason"] for r in result.rejects] == [
        "impossible usage: 2161 read + 2161 written of 2168 prompt tokens"
    ]


# Written tokens by TTL


def test_written_tokens_keep_their_ttl(tmp_path: Path) -> None:
    """One-hour writes are no five-minute writes; a bare total is, unless every mark of the prompt asks for an hour."""
    hour = {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000}}
    base = {
        "input_tokens": 5,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 100_000,
        "output_tokens": 1,
    }
    mark = {"type": "ephemeral", "ttl": "1h"}
    asked = {
        "model": "m",
        "system": [{"type": "text", "text": "Long.", "cache_control": mark}],
        "messages": [],
    }
    rows: list[dict[str, Any]] = [
        {"model": "m", "usage": {**base, **hour}},
        {"model": "m", "usage": base},
        {
            "request": asked,
            "response": {"id": "x", "type": "message", "role": "assistant", "content": [], "usage": base},
        },
    ]
    result = _read(tmp_path, rows)
    names = ("cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed")
    assert [tuple(row[name] for name in names) for row in result.requests] == [
        (0, 100_000),
        (100_000, None),
        (None, 100_000),
    ]
    assert any(
        note.startswith("1 rows give written tokens without their TTL") for note in result.account.notes
    )


# Mixed dialects, as a law

COUNT = st.integers(0, 5_000)


@st.composite
def _truths(draw: st.DrawFn) -> tuple[int, ...]:
    return draw(st.integers(1, 5_000)), draw(COUNT), draw(COUNT), draw(COUNT), draw(st.integers(1, 900))


def _spelt(truth: tuple[int, ...], dialect: str) -> dict[str, Any]:
    """Write the truth (uncached, read, written for 5 m and 1 h, output) down in one dialect."""
    fresh, read, short, long, output = truth
    prompt = fresh + read + short + long
    split = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    if dialect == "anthropic":
        counts = {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": short + long,
        }
        return {**counts, "cache_creation": split, "output_tokens": output}
    if dialect == "converse":
        details = [{"ttl": "5m", "inputTokens": short}, {"ttl": "1h", "inputTokens": long}]
        counts = {"inputTokens": fresh, "cacheReadInputTokens": read, "cacheWriteInputTokens": short + long}
        return {**counts, "cacheDetails": details, "outputTokens": output, "totalTokens": prompt + output}
    counts = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return {
        **counts,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": short + long,
        "cache_creation": split,
    }


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(_truths(), st.sampled_from(["anthropic", "converse", "litellm"])), min_size=1, max_size=12
    )
)
def test_mixed_dialects_in_one_file_tell_the_truth(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[tuple[int, ...], str]]
) -> None:
    """Whatever is written in whatever dialect is read back to the token, for one model in one file."""
    root = tmp_path_factory.mktemp("mixed")
    result = _read(root, [{"model": "m", "usage": _spelt(truth, dialect)} for truth, dialect in told])
    names = (
        "cached_tokens_observed", "cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed", "output_tokens",
    )  # fmt: skip
    for row, (truth, _) in zip(result.requests, told, strict=True):
        assert row["prompt_tokens"] == sum(truth[:4])
        assert tuple(row[name] for name in names) == truth[1:]
    assert closes(result.summary)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["prompt_tokens", "total_tokens", "cached_tokens", "input_tokens", "promptTokenCount", DETAILS]),
                       st.recursive(st.none() | st.integers(-5, 10**9) | st.floats(allow_nan=True) | st.text(max_size=3),
                                    lambda inner: st.dictionaries(st.sampled_from(["cached_tokens", "x"]), inner), max_leaves=3)))  # fmt: skip
def test_no_usage_object_is_too_odd(usage: dict[str, Any]) -> None:
    """Whatever the fields hold, it is read, is none, or is a bad record with a reason; never anything else."""
    found = None
    with contextlib.suppress(BadRecordError):
        found = read_usage(usage)
    assert found is None or found.prompt is None or found.prompt >= 0


def test_what_a_price_goes_by_is_read_from_usage(tmp_path: Path) -> None:
    """Where it was computed, and fast mode, which is a tier of its own; what is not said stays unknown."""
    told = [
        {"inference_geo": "us", "service_tier": "standard"},
        {"speed": "fast", "service_tier": "standard"},
        {},
    ]
    lines = [
        {
            "ts": 1_795_953_600 + at,
            "request": {"model": "claude-opus-5-5"},
            "response": {
                "type": "message",
                "id": f"m{at}",
                "model": "claude-opus-5-5",
                "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
            },
        }
        for at, usage in enumerate(told)
    ]
    found = ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", lines)).requests
    assert [(row["inference_geo"], row["service_tier"]) for row in found] == [
        ("us", "standard"),
        (None, "fast"),
        (None, None),
    ]
