from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest_support import ingest, write_lines
from prefixledger.ingest.bypass import is_bypassed, is_bypassed_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("params", "skips"),
    [
        ({"prompt_logprobs": 1}, True),
        ({"prompt_logprobs": 0}, True),
        ({"prompt_logprobs": None}, None),
        ({"prompt_logprobs": False}, None),
        ({"logprobs": 5}, None),
        ({"logprobs": 5, "echo": True}, True),
        ({"prompt_logprobs": 1, "skip_reading_prefix_cache": False}, False),
        ({"extra_body": {"skip_reading_prefix_cache": True}}, True),
        ({"sampling_params": {"prompt_logprobs": 2}}, True),
        ({"return_logprob": True, "logprob_start_len": 0}, True),
        ({"return_logprob": True, "logprob_start_len": -1}, None),
        ({"return_logprob": True, "logprob_start_len": 500}, None),
    ],
)
def test_who_skips_the_lookup(params, skips):
    """Whoever says so; else whoever wants logprobs of the prompt, which only a full prefill has."""
    assert is_bypassed(params) is skips


@pytest.mark.parametrize(
    ("text", "skips"),
    [
        (", params: SamplingParams(n=1, logprobs=5, prompt_logprobs=None, x=1)", None),
        (", params: SamplingParams(n=1, prompt_logprobs=0, x=1)", True),
        (", params: SamplingParams(prompt_logprobs=1, skip_reading_prefix_cache=False)", False),
        (", params: PoolingParams(task='token_embed', x=1)", True),
        (", params: PoolingParams(task='embed', x=1)", None),
    ],
)
def test_parameters_as_vllm_prints_them(text, skips):
    """The words of its request log."""
    assert is_bypassed_text(text) is skips


_IDS = ", ".join(map(str, range(40)))
_VLLM = (
    "INFO 11-29 10:00:0{n} [logger.py:39] Received request c-{n}: prompt: 'say prompt_logprobs=1', params: SamplingParams(n=1, "
    f"prompt_logprobs={{said}}), prompt_token_ids: [{_IDS}], lora_request: None."
)
_SGLANG = (
    '{{"timestamp": "2026-11-29T10:00:0{n}", "event": "request.finished", "rid": "r{n}", "obj": {{"input_ids": [1, 2, 3], '
    '"return_logprob": {said}, "logprob_start_len": 0}}, "out": {{"meta_info": {{"prompt_tokens": 3}}}}}}'
)
_BODY = (
    '{{"ts": "2026-11-29T10:00:0{n}Z", "request": {{"model": "m", "messages": [{{"role": "user", "content": "Hi"}}], '
    '"prompt_logprobs": {said}}}, "response": {{"id": "chatcmpl-{n}", "object": "chat.completion", "choices": [], '
    '"usage": {{"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}}}}}'
)


@pytest.mark.parametrize(
    ("line", "no", "yes"), [(_VLLM, "None", "0"), (_SGLANG, "false", "true"), (_BODY, "null", "1")]
)
def test_logs_that_hold_the_parameters_say_who_skips(tmp_path: Path, line: str, no: str, yes: str) -> None:
    """Text that speaks of the parameter is no parameter."""
    path = write_lines(tmp_path / "a.log", [line.format(n=0, said=no), line.format(n=1, said=yes)])
    assert [row["bypassed"] for row in ingest(tmp_path / "ws", path).requests] == [False, True]


def test_a_map_names_the_column(tmp_path: Path) -> None:
    """A flag under any name; a row without it looks its prompt up."""
    lines = [
        '{"t": 1, "ids": [1, 2], "skip": true}',
        '{"t": 2, "ids": [1, 2], "skip": 0}',
        '{"t": 3, "ids": [1]}',
    ]
    path = write_lines(tmp_path / "a.jsonl", lines)
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'format = "jsonl"\n[columns]\nstarted_at = { from = "t", unit = "s" }\ntoken_ids = "ids"\nbypassed = "skip"\n'
    )
    rows = ingest(tmp_path / "ws", path, map_file=mapping).requests
    assert [row["bypassed"] for row in rows] == [True, False, False]
