"""Reads what a provider says it charged: usage and cost pages of OpenAI and Anthropic, or a CSV of lines."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from prefixledger.config.units import parse_time_us
from prefixledger.errors import InputError, Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

KINDS: Final = ("uncached_input", "cache_read", "cache_write", "cache_write_long", "output", "other")
"""What a line may charge for; ``cache_write_long`` lives an hour with Claude and 12 hours with OpenAI."""

_NAMES: Final = {
    "date": ("date", "day", "usage_date", "usage_date_utc", "start_time", "starting_at", "start", "timestamp"),
    "model": ("model", "model_name", "model_version", "model_id", "sku", "line_item", "description"),
    "kind": ("kind", "token_type", "token_kind", "usage_type", "type", "cost_type", "line_item", "description", "sku"),
    "tokens": ("tokens", "quantity", "usage", "usage_quantity", "units", "token_count", "n_tokens"),
    "amount": ("amount", "cost", "total", "charge", "price", "amount_usd", "cost_usd", "net_amount"),
    "currency": ("currency", "currency_code"),
}  # fmt: skip
"""Names of the columns of a CSV with one line a kind, in any case; of several the first that is there counts."""

_WIDE: Final = {
    "uncached_input_tokens": "uncached_input", "input_uncached_tokens": "uncached_input",
    "usage_input_tokens_no_cache": "uncached_input", "uncached_tokens": "uncached_input",
    "cache_read_input_tokens": "cache_read", "input_cached_tokens": "cache_read", "cached_tokens": "cache_read",
    "usage_input_tokens_cache_read": "cache_read", "cache_read_tokens": "cache_read",
    "cache_write_5m_tokens": "cache_write", "usage_input_tokens_cache_write_5m": "cache_write",
    "cache_creation_input_tokens": "cache_write", "input_cache_write_tokens": "cache_write", "cache_write_tokens": "cache_write",
    "cache_write_1h_tokens": "cache_write_long", "usage_input_tokens_cache_write_1h": "cache_write_long",
    "output_tokens": "output", "usage_output_tokens": "output",
}  # fmt: skip
"""Columns of a CSV with one line for all kinds of a day."""
_INCLUSIVE: Final = ("input_tokens", "prompt_tokens")
_CENTS: Final = Decimal(100)
_SECOND_US: Final = 1_000_000
_LATEST_S: Final = 4_102_444_800  # 2100
_DAY_US: Final = 86_400 * _SECOND_US


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """One line of an invoice.

    Attributes:
        day: ISO date; UTC where the source has a time.
        model: As charged; None where it does not say.
        kind: One of ``KINDS``.
        tokens: How many; None where only money is told.
        amount: What they cost; None where only tokens are told.
        currency: What the amount is in.
    """

    day: str
    model: str | None
    kind: str
    tokens: int | None
    amount: Decimal | None
    currency: str = "USD"


def read_invoice(path: Path) -> tuple[InvoiceLine, ...]:
    """Read an invoice, or pages of a usage or cost interface.

    Args:
        path: CSV with a head, or JSON: one page, several in a list, or one a line.

    Raises:
        UsageError: The file is not there.
        InputError: It is neither, or a line lacks a date or says nothing; the place names it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the invoice {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError("the invoice is not UTF-8", place=Place(str(path))) from error
    lines = tuple(_pages(text, path) if text.lstrip()[:1] in "{[" else _csv(text, path))
    if not lines:
        raise InputError("the invoice has no line with tokens or money", place=Place(str(path)))
    return lines


def invoice_span(lines: Iterable[InvoiceLine]) -> tuple[int, int]:
    """Return the first microsecond of the first day of an invoice (UTC), and the first after its last day."""
    days = sorted(parse_time_us(line.day) for line in lines)
    return days[0], days[-1] + _DAY_US


def kind_of(text: str) -> str:
    """Return what a text charges for, e.g. ``Cache Write (1h)``, ``gpt-5.6, cached input`` or ``output_tokens``."""
    words = text.lower()
    if "output" in words or "completion" in words:
        return "output"
    if "write" in words or "creation" in words:
        return "cache_write_long" if re.search(r"(?<!\d)(1|12)[ _]?h", words) else "cache_write"
    if "uncached" in words or "no_cache" in words or "no cache" in words:
        return "uncached_input"
    if "read" in words or "cached" in words or "hit" in words:
        return "cache_read"
    return "uncached_input" if "input" in words or "prompt" in words else "other"


def _csv(text: str, path: Path) -> Iterator[InvoiceLine]:
    reader = csv.DictReader(text.splitlines())
    names = {name.strip().lower().replace(" ", "_"): name for name in reader.fieldnames or ()}
    found = {what: next((names[one] for one in told if one in names), None) for what, told in _NAMES.items()}
    if found["date"] is None:
        raise InputError(
            f"no column is a date; there is {', '.join(names) or 'no head'}",
            place=Place(str(path), 1),
            hint="name the columns date, model, kind, tokens and amount",
        )
    wide = {column: kind for name, kind in _WIDE.items() if (column := names.get(name)) is not None}
    inclusive = next((names[name] for name in _INCLUSIVE if name in names), None)
    # Anthropic's own names: its input tokens are what is left when reads and writes are taken away.
    exclusive = not names.keys().isdisjoint(("cache_read_input_tokens", "cache_creation_input_tokens"))
    for row in reader:
        place = Place(str(path), reader.line_num)
        day, model = _day(row[found["date"]], place), _text(row, found["model"])
        currency = _text(row, found["currency"]) or "USD"
        amount = _money(row, found["amount"], place)
        if not wide and inclusive is None:
            kind = kind_of(_text(row, found["kind"]) or "")
            tokens = _tokens(row, found["tokens"], place)
            if tokens is not None or amount is not None:
                yield InvoiceLine(day, _model(model), kind, tokens, amount, currency)
            continue
        parts: dict[str, int] = {}
        for column, kind in wide.items():
            parts[kind] = parts.get(kind, 0) + (_tokens(row, column, place) or 0)
        if inclusive is not None and "uncached_input" not in parts:
            whole = _tokens(row, inclusive, place) or 0
            within = 0 if exclusive else sum(n for kind, n in parts.items() if kind != "output")
            parts["uncached_input"] = max(0, whole - within)
        yield from (
            InvoiceLine(day, _model(model), kind, n, None, currency) for kind, n in parts.items() if n
        )
        if amount is not None:
            yield InvoiceLine(day, _model(model), "other", None, amount, currency)


def _pages(text: str, path: Path) -> Iterator[InvoiceLine]:
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError:
        try:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise InputError(
                f"the invoice is no JSON: {error.msg}", place=Place(str(path), error.lineno)
            ) from error
    for bucket in _buckets(values):
        begin = bucket.get("start_time", bucket.get("starting_at"))
        place = Place(str(path))
        for result in bucket.get("results", ()):
            yield from _result(result, _day(begin, place), place)


def _buckets(values: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for value in values:
        if isinstance(value, list):
            yield from _buckets(value)
        elif isinstance(value, dict) and isinstance(value.get("results"), list):
            yield value
        elif isinstance(value, dict) and isinstance(value.get("data"), list):
            yield from _buckets(value["data"])


def _result(result: Mapping[str, Any], day: str, place: Place) -> Iterator[InvoiceLine]:
    amount = result.get("amount")
    if isinstance(amount, dict):  # costs of OpenAI
        item = str(result.get("line_item") or "")
        tokens = int(result["quantity"]) if "token" in str(result.get("quantity_unit")) else None
        value, currency = _decimal(str(amount["value"]), place), str(amount.get("currency", "usd")).upper()
        yield InvoiceLine(day, _model(item.split(",", maxsplit=1)[0]), kind_of(item), tokens, value, currency)
    elif amount is not None:  # costs of Anthropic are in cents
        said = str(result.get("token_type") or result.get("description") or "")
        cents = _decimal(str(amount), place)
        currency = str(result.get("currency") or "USD")
        yield InvoiceLine(day, _model(result.get("model")), kind_of(said), None, cents / _CENTS, currency)
    else:
        model = _model(result.get("model"))
        parts = _usage(result)
        yield from (InvoiceLine(day, model, kind, tokens, None) for kind, tokens in parts.items() if tokens)


def _usage(result: Mapping[str, Any]) -> dict[str, int]:
    made = result.get("cache_creation") or {}
    if "uncached_input_tokens" in result:
        short, long = made.get("ephemeral_5m_input_tokens") or 0, made.get("ephemeral_1h_input_tokens") or 0
        uncached, read = result["uncached_input_tokens"] or 0, result.get("cache_read_input_tokens") or 0
    else:
        read, written = result.get("input_cached_tokens") or 0, result.get("input_cache_write_tokens") or 0
        long = result.get("input_cache_write_12h_tokens") or 0
        short = written - long
        uncached = result.get("input_uncached_tokens")
        if uncached is None:
            uncached = (result.get("input_tokens") or 0) - read - written
    return {
        "uncached_input": uncached, "cache_read": read, "cache_write": short, "cache_write_long": long,
        "output": result.get("output_tokens") or 0,
    }  # fmt: skip


def _day(value: Any, place: Place) -> str:
    if isinstance(value, (int, float)) or (
        isinstance(value, str) and re.fullmatch(r"\d{9,11}", value.strip())
    ):
        seconds = float(value)
        if not 0 <= seconds < _LATEST_S:
            raise InputError(f"{value!r} is no date", place=place, hint="write 2026-11-24")
        return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    try:
        at_us = parse_time_us(str(value))
    except UsageError as error:
        raise InputError(f"{value!r} is no date", place=place, hint="write 2026-11-24") from error
    return datetime.fromtimestamp(at_us // _DAY_US * 86_400, UTC).date().isoformat()


def _text(row: Mapping[str, Any], column: str | None) -> str | None:
    value = "" if column is None else str(row.get(column) or "").strip()
    return value or None


def _model(text: Any) -> str | None:
    return str(text).strip() or None if text is not None else None


def _tokens(row: Mapping[str, Any], column: str | None, place: Place) -> int | None:
    text = _text(row, column)
    return None if text is None else int(_decimal(text, place))


def _money(row: Mapping[str, Any], column: str | None, place: Place) -> Decimal | None:
    text = _text(row, column)
    return None if text is None else _decimal(text, place)


def _decimal(text: str, place: Place) -> Decimal:
    try:
        value = Decimal(re.sub(r"[,_\s$€£]", "", text))
    except InvalidOperation as error:
        raise InputError(f"{text!r} is no number", place=place) from error
    if not value.is_finite():
        raise InputError(f"{text!r} is no number", place=place)
    return value
