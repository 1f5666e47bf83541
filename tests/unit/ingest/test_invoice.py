"""Invoices and usage pages: one line a kind, one line for all, pages of two providers, and files that are neither."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from prefixledger.errors import InputError, UsageError
from prefixledger.ingest.invoice import InvoiceLine, invoice_span, kind_of, read_invoice

if TYPE_CHECKING:
    from pathlib import Path

DAY = "2026-11-24"


def lines(folder: Path, text: str) -> tuple[InvoiceLine, ...]:
    """Write and read an invoice."""
    path = folder / "invoice"
    path.write_text(text, encoding="utf-8")
    return read_invoice(path)


def test_one_line_a_kind(tmp_path: Path) -> None:
    """Columns by any of their names; thousands and currency signs are taken off."""
    found = lines(
        tmp_path,
        "Usage Date,Model Name,Token Type,Quantity,Cost USD,Currency\n"
        f'{DAY},claude-opus-5-5,Input tokens,"1,000",$0.004,USD\n'
        f"{DAY}T23:30:00-05:00,claude-opus-5-5,Cache Write (1h),400,,\n"
        f"{DAY},claude-opus-5-5,,,,\n",
    )
    assert found == (
        InvoiceLine(DAY, "claude-opus-5-5", "uncached_input", 1000, Decimal("0.004")),
        InvoiceLine("2026-11-25", "claude-opus-5-5", "cache_write_long", 400, None),
    )
    assert invoice_span(found)[1] - invoice_span(found)[0] == 2 * 86_400_000_000


@pytest.mark.parametrize(
    ("head", "row", "parts"),
    [
        # The input of OpenAI holds what was read, that of Anthropic does not.
        ("input_tokens,cached_tokens,output_tokens", "100,60,5", {"uncached_input": 40, "cache_read": 60, "output": 5}),
        (
            "input_tokens,cache_read_input_tokens,cache_creation_input_tokens",
            "10,60,30",
            {"uncached_input": 10, "cache_read": 60, "cache_write": 30},
        ),
        (
            "usage_input_tokens_no_cache,usage_input_tokens_cache_write_1h,usage_output_tokens",
            "10,30,5",
            {"uncached_input": 10, "cache_write_long": 30, "output": 5},
        ),
    ],
)  # fmt: skip
def test_one_line_for_all_kinds(tmp_path: Path, head: str, row: str, parts: dict[str, int]) -> None:
    """A day and model with a column for each kind, and its money in one sum."""
    found = lines(tmp_path, f"date,model,{head},cost\n{DAY},m,{row},1.5\n")
    assert {line.kind: line.tokens for line in found if line.tokens} == parts
    assert [line.amount for line in found if line.amount is not None] == [Decimal("1.5")]


def test_usage_pages(tmp_path: Path) -> None:
    """Pages of OpenAI, whose input holds everything, and of Anthropic, whose input holds nothing else."""
    openai = {
        "input_tokens": 100,
        "input_cached_tokens": 60,
        "input_cache_write_tokens": 30,
        "output_tokens": 5,
        "model": "g",
    }
    claude = {
        "uncached_input_tokens": 10, "cache_read_input_tokens": 60, "output_tokens": 5, "model": "c",
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
    }  # fmt: skip
    pages = [
        {"object": "page", "data": [{"object": "bucket", "start_time": 1_795_514_400, "results": [openai]}]},
        {
            "data": [{"starting_at": f"{DAY}T00:00:00Z", "ending_at": "", "results": [claude]}],
            "has_more": False,
        },
    ]
    for text in (json.dumps(pages), "\n".join(map(json.dumps, pages))):
        found = [(line.model, line.kind, line.tokens) for line in lines(tmp_path, text)]
        assert found == [
            ("g", "uncached_input", 10), ("g", "cache_read", 60), ("g", "cache_write", 30), ("g", "output", 5),
            ("c", "uncached_input", 10), ("c", "cache_read", 60), ("c", "cache_write", 20), ("c", "cache_write_long", 10),
            ("c", "output", 5),
        ]  # fmt: skip


def test_cost_pages(tmp_path: Path) -> None:
    """Anthropic counts cents, OpenAI dollars with the model in front of the kind."""
    claude = {"amount": "123.45", "currency": "USD", "token_type": "cache_read_input_tokens", "model": "c"}
    openai = {"amount": {"value": 0.06, "currency": "usd"}, "line_item": "gpt-5.6, cached input"}
    text = json.dumps(
        {
            "data": [
                {"starting_at": f"{DAY}T00:00:00Z", "results": [claude]},
                {"start_time": 1_795_514_400, "results": [openai]},
            ]
        }
    )
    assert [(line.model, line.kind, line.amount, line.currency) for line in lines(tmp_path, text)] == [
        ("c", "cache_read", Decimal("1.2345"), "USD"),
        ("gpt-5.6", "cache_read", Decimal("0.06"), "USD"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("output_tokens", "output"),
        ("cache_creation.ephemeral_5m_input_tokens", "cache_write"),
        ("cache_creation.ephemeral_1h_input_tokens", "cache_write_long"),
        ("cache write 12h", "cache_write_long"),
        ("uncached_input_tokens", "uncached_input"),
        ("input, no cache", "uncached_input"),
        ("Cached input", "cache_read"),
        ("web searches", "other"),
    ],
)
def test_kinds_by_their_words(text: str, kind: str) -> None:
    """Written, read, uncached and generated tokens go by many names."""
    assert kind_of(text) == kind


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "date,tokens\nsoon,5\n", "date,tokens\n2026-11-24,many\n", "{broken", "date,tokens\n"])  # fmt: skip
def test_what_is_no_invoice_is_refused(tmp_path: Path, text: str) -> None:
    """A fault names the file, and nothing is guessed."""
    with pytest.raises(InputError) as caught:
        lines(tmp_path, text)
    assert "invoice" in str(caught.value.place)
    with pytest.raises(UsageError, match="cannot read"):
        read_invoice(tmp_path / "nothing")
