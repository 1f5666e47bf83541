"""Rows of a hosted cache that no profile follows: a report comes out, on what the log reports."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from prefixledger import api
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_SYSTEM = {"role": "system", "content": "You are terse. " * 200}


def _call(number: int, cached: int, provider: str = "cerebras", model: str = "zai-x") -> str:
    usage = {
        "prompt_tokens": 700,
        "completion_tokens": 3,
        "total_tokens": 703,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return json.dumps(
        {
            "ts": f"2026-11-24T10:00:{number:02}Z",
            "provider": provider,
            "request": {"model": model, "messages": [_SYSTEM, {"role": "user", "content": f"Hi {number}"}]},
            "response": {
                "id": f"c-{number}",
                "object": "chat.completion",
                "model": model,
                "choices": [],
                "usage": usage,
            },
        }
    )


def test_a_report_comes_out_without_a_profile(tmp_path: Path) -> None:
    """Hits are those that the service reports, the rest but the first call has no proven cause, and a model without a price stops nothing."""
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(_call(number, 512 if number else 0) for number in range(4)))

    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")

    twin = json.loads((tmp_path / "r.json").read_text())
    assert twin["totals"]["by_basis"]["observed"]["prompt_tokens"] == 4 * 700
    missed = twin["misses"]["by_cause"]
    assert (twin["totals"]["hit_tokens"], missed["cold"], missed["unexplained"]) == (3 * 512, 700, 3 * 188)
    page = (tmp_path / "r.html").read_text()
    assert "no profile follows the rules of that cache" in page
    assert "No price is known for some models that cerebras served" in page
    assert twin["cost"]["currency"] == "prefill tokens"


@pytest.mark.parametrize(
    ("provider", "model", "usd"),
    [
        # Listed, and nobody says what is stored of it: $0.50 a million in, no price for reads, $1.50 out.
        ("openai", "gpt-3.5-turbo", "0.001418"),
        # $15 in, $1.50 read, $75 out: 700 + 3 · 188 uncached, 3 · 512 read, 12 out.
        ("anthropic", "claude-3-opus-20240229", "0.022164"),
    ],
)
def test_a_listed_model_without_rules_is_billed_by_its_usage(
    tmp_path: Path, provider: str, model: str, usd: str
) -> None:
    """Nothing is guessed of what it stores: its hits are those of the log, and so is its bill."""
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(_call(n, 512 if n else 0, provider, model) for n in range(4)))

    api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")

    twin = json.loads((tmp_path / "r.json").read_text())
    assert twin["totals"]["by_basis"]["observed"]["hit_tokens"] == 3 * 512
    assert (twin["cost"]["currency"], f"{twin['cost']['actual']:.6f}") == ("USD", usd)


@pytest.mark.parametrize(
    ("provider", "model", "near"),
    [
        ("openai", "gpt-zeta", "gpt-"),
        ("openai", "gpt-6.2-sol", "gpt-6.1-sol"),
        ("anthropic", "claude-opus-9", "claude-opus-5"),
        ("gemini", "gemini-3.5-flsh", "gemini-3.5-flash"),
    ],
)
def test_a_model_that_nobody_knows_is_an_error_that_names_it(
    tmp_path: Path, provider: str, model: str, near: str
) -> None:
    """Whoever serves its own models alone has none that neither the rules nor the price list know: near names are listed."""
    log = tmp_path / "calls.jsonl"
    log.write_text("\n".join(_call(n, 0, provider, model) for n in range(2)))
    with pytest.raises(UsageError, match=re.escape(repr(model))) as caught:
        api.report([log], output=tmp_path / "r.html", workspace=tmp_path / "ws")
    assert near in (caught.value.hint or "")
