"""Reads the cases of ``tests/sql``: small input tables and the rows that a statement must give for them.

A case begins with ``# title``; ``$ name=1 other=2`` binds parameters; ``[table]`` begins a table whose first line
names columns and whose other lines are rows, cells parted by ``|``; ``[expected]`` holds the result. ``-`` is null,
times are seconds since 1970, keys are text. A column that a case leaves out is null, or what ``_DEFAULTS`` says;
of the result only the columns that are named are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from facts import at
from prefixledger import schema, schema_contents, schema_curves, schema_engines
from prefixledger.attribute import inputs, investigate, turns
from prefixledger.attribute import tables as books
from support import ROOT

SQL = ROOT / "sql"
CASES = Path(__file__).parent / "sql"
_CONTRACTS = {
    "lookup_facts": schema.LOOKUP_FACTS,
    "facts": schema.SEGMENT_FACTS,
    "changes": schema_contents.CHANGES,
    "events": schema.EVENTS,
    "replicas": schema.REPLICAS,
    "held": schema_curves.HELD,
    "draws": schema_curves.DRAWS,
    "removals": schema.REMOVALS,
    "warm_ups": schema.WARMUPS,
    "ladder": schema_curves.LADDER,
    "shared": schema.SHARED,
    "lookup_shared": schema.LOOKUP_SHARED,
    "kv_changes": schema_engines.KV_CHANGES,
    "kv_lookups": schema_engines.KV_LOOKUPS,
    "counters": schema_engines.COUNTERS,
    "requests": schema.REQUESTS,
}
_READ_BACK = {"lookups": books.LOOKUPS, "segments": books.SEGMENTS}
"""What the statements from folder 50 on read is what the earlier ones have left in files."""
_MADE_IN_PYTHON = {
    "pools": ("pool", "ttl_us", "capacity_blocks"),
    "block_keys": ("block", "prefix_key"),
    "conversations": ("request_row", "conversation"),
    "used_lookups": ("lookup", "request_row", "request_id", "admitted_at"),
    "named_requests": ("request_row", "request_id"),
    "turns": tuple(turns.SCHEMA.names),
    "days": ("day", "from_us"),
    "sharing": ("pool",),
    "keeping": ("pool", "interval_us", "most_calls"),
    "salts": ("request_row", "cache_salt"),
    "sessions": ("request_row", "session_id"),
    "lives": ("request_row", *investigate._OF_LIVES),
    "prices": (
        "pool",
        "provider",
        "model",
        "service_tier",
        "inference_geo",
        "slot",
        "basis",
        "above_tokens",
        "upto_tokens",
        "card",
    ),
    "cards": (
        "card",
        "currency",
        "base_price",
        "read_price",
        "write_price",
        "write_1h_price",
        "output_price",
        "storage_price",
        "short_ttl_us",
        "long_ttl_us",
    ),
    "sums": (
        "cell", "pool", "card", "observed", "capped", "hit", "rule", "own", "resident", "elsewhere", "changed", "reset", "outlived",
        "proven", "tokens", "written_tokens", "written_1h_tokens",
    ),
}  # fmt: skip
_BY_NUMBER = {"judged": schema.SEGMENT_FACTS, "merged": schema.SEGMENT_FACTS}
"""Tables that know lookups and replicas by number, as facts do."""
_TYPES = {
    (
        "prefix", "side", "thing", "differs", "other_tenant", "reason", "field", "value", "judged", "cut", "kind", "total", "rung", "currency", "parent_key", "cause",
        "detail", "part", "replica_name", "basis", "route_branch", "problem", "opening", "day", "proven",
        "previous_model", "previous_adapter",
    ): pa.string(),
    (
        "opens", "other_replica", "more_capacity", "longer_ttl", "stable_prefix", "busiest", "one_salt", "elsewhere", "hit", "counts_writes",
        "warming_up",
        "observed", "capped", "own", "resident", "changed", "outlived", "reset",
    ): pa.bool_(),
    (
        "share", "mean_share", "share_variance", "median_gap_s", "rate_before", "rate_after", "agreement", "multiplier", "imbalance_requests", "imbalance_prefill",
        "long_share_before", "long_share_since",
    ): pa.float64(),
    ("replicas", "clients_before", "clients_since"): pa.list_(pa.string()),
}  # fmt: skip
_ENDINGS = {
    "_price": pa.decimal128(22, 18),
    "_cost": pa.decimal128(38, 18),
    "_at": pa.timestamp("us", tz="UTC"),
}
_DEFAULTS = {"usage_state": "absent", "basis": "simulated", "status": "ok", "elsewhere": "no"}
_ZERO = re.compile(
    r"(miss_.*|observed_(?!hit|write|prompt).*|left_.*|hit|hit_host|written|written_1h|prompt)_tokens"
)


@dataclass
class Case:
    """One input and what comes of it."""

    title: str
    parameters: dict[str, int | str] = field(default_factory=dict)
    inputs: dict[str, pa.Table] = field(default_factory=dict)
    expected: list[dict[str, Any]] = field(default_factory=list)


def steps() -> list[str]:
    """Return every statement of ``sql/`` that asks for rows, as ``folder/name``."""
    found = sorted(path.relative_to(SQL).with_suffix("").as_posix() for path in SQL.rglob("*.sql"))
    return [step for step in found if not step.startswith("00_session/")]


@cache
def header(step: str) -> dict[str, str]:
    """Return the parts of a statement's header comment: Question, Row, Inputs, Parameters, Columns."""
    lines = (SQL / f"{step}.sql").read_text(encoding="utf-8").splitlines()
    parts: dict[str, str] = {}
    name = ""
    for line in lines:
        if not line.startswith("--"):
            break
        if begin := re.match(r"-- (\w+): (.*)", line):
            name = begin[1]
            parts[name] = begin[2]
        else:
            parts[name] += " " + line.removeprefix("--").strip()
    return parts


def listed(text: str) -> list[str]:
    """Return the names of a list in a header; what is in brackets explains them."""
    return re.sub(r"\([^)]*\)", "", text).replace(".", "").replace(" ", "").split(",")


def columns_of(table: str, reader: str = "") -> tuple[str, ...]:
    """Return the columns of an input: a file of the replay, or what another statement makes.

    Args:
        table: Its name.
        reader: The statement that reads it.
    """
    if table in _MADE_IN_PYTHON:
        return _MADE_IN_PYTHON[table]
    if table == "requests":
        session = ("session_id",) if reader >= "80" else ()
        asked = inputs._COLUMNS if reader >= "50" else inputs._OF_BOOKS
        return (*asked, *session, "request_row", "pool", "replica_name")
    if contract := _contract(table, reader):
        return contract.names
    (step,) = (step for step in steps() if step.endswith(f"/{table}"))
    return tuple(listed(header(step)["Columns"]))


def _contract(table: str, reader: str) -> schema.Table | None:
    read_back = _READ_BACK.get(table) if reader >= "50" else None
    return read_back or _CONTRACTS.get(table)


def read_cases(step: str) -> list[Case]:
    """Return the cases of one statement."""
    path = CASES / f"{step}.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    cases: list[Case] = []
    for block in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, *lines = block.splitlines()
        case = Case(
            title, inputs={table: _table(step, table, [], []) for table in listed(header(step)["Inputs"])}
        )
        sections: dict[str, list[list[str]]] = {}
        for line in filter(str.strip, lines):
            if line.startswith("$ "):
                case.parameters = {
                    n: _parameter(v) for n, v in (pair.split("=") for pair in line[2:].split())
                }
            elif line.startswith("["):
                rows = sections.setdefault(line.strip("[]"), [])
            else:
                rows.append([cell.strip() for cell in line.split("|")])
        for name, (head, *body) in sections.items():
            if name == "expected":
                case.expected = [
                    {
                        n: _plain(_value(_type(step, step.split("/")[1], n), c))
                        for n, c in zip(head, row, strict=True)
                    }
                    for row in body
                ]
            else:
                case.inputs[name] = _table(step, name, head, body)
        cases.append(case)
    return cases


def comparable(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    """Return rows with times as seconds and keys as text."""
    return [{name: _plain(row[name]) for name in columns} for row in table.to_pylist()]


def _table(reader: str, name: str, head: list[str], body: list[list[str]]) -> pa.Table:
    every = columns_of(name, reader)
    assert set(head) <= set(every), f"{name} has no columns {set(head) - set(every)}"
    rows = [dict(zip(head, row, strict=True)) for row in body]
    columns = {}
    for column in every:
        kind = _type(reader, name, column)
        columns[column] = pa.array([_value(kind, row.get(column, _default(column))) for row in rows], kind)
    return pa.table(columns)


def _default(column: str) -> str:
    return _DEFAULTS.get(column, "0" if _ZERO.fullmatch(column) else "-")


@cache
def _known() -> dict[str, pa.DataType]:
    contracts = [
        value
        for module in (schema, schema_contents, books)
        for value in vars(module).values()
        if isinstance(value, schema.Table)
    ]
    return {column.name: schema.arrow_type(column.type) for table in contracts for column in table.columns}


def _type(reader: str, table: str, column: str) -> pa.DataType:
    contract = _contract(table, reader) or _BY_NUMBER.get(table)
    if contract and column in contract.names:
        return contract.arrow().field(column).type
    for names, kind in _TYPES.items():
        if column in names:
            return kind
    for end, kind in _ENDINGS.items():
        if column.endswith(end):
            return kind
    return _known().get(column, pa.int64())


def _parameter(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _value(kind: pa.DataType, cell: str) -> Any:
    if cell == "-":
        return None
    readers = {
        pa.types.is_timestamp: lambda: at(float(cell)),
        pa.types.is_boolean: lambda: {"yes": True, "no": False}[cell],
        pa.types.is_floating: lambda: float(cell),
        pa.types.is_decimal: lambda: Decimal(cell),
        pa.types.is_integer: lambda: int(cell),
        pa.types.is_map: lambda: [tuple(pair.split("=")) for pair in cell.split(",")],
        pa.types.is_list: lambda: cell.split(","),
        pa.types.is_fixed_size_binary: lambda: cell.encode().ljust(16, b"\0"),
    }
    return next((read() for fits, read in readers.items() if fits(kind)), cell)


def _plain(value: Any) -> Any:
    if hasattr(value, "tzinfo"):
        return (value - at(0)) / timedelta(seconds=1)
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode()
    return value
