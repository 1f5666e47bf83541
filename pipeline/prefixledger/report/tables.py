"""The tables of a report as CSV files, made of the values of the JSON twin so that both say the same."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from prefixledger.schema import CAUSES

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Csv:
    """One file of the folder.

    Attributes:
        name: File name.
        meaning: What one row is.
        columns: Headings.
        rows: Cells, in the order of the headings; None is an empty cell.
    """

    name: str
    meaning: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def text(self) -> str:
        """Return the file: UTF-8, comma, LF; text that a spreadsheet would run as a formula is quoted by ``'``."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return buffer.getvalue()


def tables(twin: dict[str, Any]) -> tuple[Csv, ...]:
    """Return every table of a report.

    Args:
        twin: The JSON twin.
    """
    return (
        _account(twin),
        _flat("details.csv", "missed tokens by cause and detail", ("key", "tokens"), _details(twin)),
        _of("inputs.csv", "one input", twin["inputs"], without=("reasons", "notes")),
        _of("timeline.csv", "the lookups of one slice of time", twin["timeline"]["slices"]),
        _flat(
            "breakdowns.csv",
            "the lookups with one value of one field",
            ("field", "value", "requests", "prompt_tokens", "hit_tokens", *_miss_columns()),
            _breakdown_rows(twin),
        ),
        _of("prefixes.csv", "one shared prefix; below_ columns must not be summed", twin["prefixes"]),
        _of("spend.csv", "what the lookups with one value of one field cost", twin["spend"]),
        _of(
            "invoice_days.csv",
            "one model on one day (UTC), in the log and on the invoice",
            (twin["reconciliation"] or {}).get("by_model_day", []),
        ),
        _of("lengths.csv", "one model and range of prompt lengths, with what was read", twin["by_length"]),
        _of(
            "policy_days.csv",
            "one model on one day: reads and writes as billed, and in the replay",
            (twin["policy"] or {}).get("by_model_day", []),
        ),
        _of(
            "disagreements.csv",
            "one request that replay and service disagree on, the 50 largest of each kind",
            (twin["policy"] or {}).get("disagreements", []),
        ),
        _of("replicas.csv", "one replica", twin["replicas"]),
        _of(
            "recommendations.csv",
            "one change that was replayed and pays",
            twin["recommendations"],
            without=("in_full", "side_effects", "scenario"),
        ),
        _of("decisions.csv", "one shared prefix of a hosted cache", twin["advice"]["decisions"]),
        _of("replica_slices.csv", "one replica in one slice of time", twin["replica_slices"]),
        _of(
            "observed_hours.csv",
            "one hour of one replica, with what the service reports beside the replay",
            (twin["observed"] or {}).get("by_replica_hour", []),
        ),
        _of(
            "engine_hours.csv",
            "one hour of one replica, with what its engine said of its cache beside the replay",
            (twin["engines"] or {}).get("by_replica_hour", []),
        ),
        _of("routing.csv", "the same lookups under one routing", twin["routing"]),
        _of("ladder.csv", "one rung of the ladder of bounds", twin["ladder"]),
        _of("capacity_curve.csv", "hits, misses and price of one capacity", twin["curves"]["capacity"]),
        _of(
            "curve_surface.csv",
            "hits and price of one capacity and time to live",
            twin["curves"].get("surface", []),
        ),
        _of(
            "models.csv",
            "one formula beside a replayed curve",
            twin["curves"]["models"],
            without=("parameters", "points"),
        ),
        _of(
            "curve_parts.csv",
            "hits of a part of a pool at one capacity or time to live",
            twin["curves"]["parts"],
        ),
        _of("ages.csv", "hits and evictions of one age since the last use", twin["curves"]["ages"]),
        _of(
            "held.csv",
            "what running requests of one replica held in one slice of time",
            twin["curves"]["held"],
        ),
        _of(
            "capacity_targets.csv",
            "the smallest capacity for a share of the hits that no limit would give",
            twin["curves"]["targets"],
        ),
        _of("ttl_curve.csv", "hits and price of one time to live", twin["curves"]["ttl"]),
        _of("events.csv", "one reset or release", twin["events"]),
        _of(
            "silent_writes.csv",
            "one model and tenant whose cache was written on a day and never read",
            twin["silent_writes"],
        ),
        _of("gaps.csv", "one model and range of gaps between two requests of a conversation", twin["gaps"]),
        _of("failures.csv", "one prompt that failed again and again", twin["failures"]),
        _of(
            "keep_alive.csv",
            "one model and tenant with calls that are said to keep its prefixes alive",
            twin["keep_alive"],
        ),
        _of(
            "longer_lives.csv",
            "one model and what the longer lifetime of writes would be worth to it",
            twin["longer_lives"],
        ),
        _of(
            "ttl_changes.csv",
            "one model and tenant whose writes have another lifetime since a day",
            twin["ttl_changes"],
        ),
        _of("findings.csv", "one finding", twin["findings"]),
    )


def _account(twin: dict[str, Any]) -> Csv:
    rows = []
    for scenario in twin["scenarios"]:
        totals, costs = scenario["totals"], scenario["costs"]
        for line, tokens in (
            ("asked", totals["prompt_tokens"]),
            ("hit", totals["hit_tokens"]),
            *scenario["misses"]["by_cause"].items(),
        ):
            prices = [(c["currency"], c["by_cause"].get(line)) for c in costs] or [(None, None)]
            rows += [(scenario["name"], line, tokens, currency, excess) for currency, excess in prices]
    columns = ("scenario", "line", "tokens", "currency", "excess_cost")
    return Csv(
        "account.csv", "one line of the account, per currency; asked = hit + the causes", columns, tuple(rows)
    )


def _details(twin: dict[str, Any]) -> list[tuple[Any, ...]]:
    return list(twin["misses"]["by_detail"].items())


def _breakdown_rows(twin: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            breakdown["field"],
            value["value"],
            value["requests"],
            value["prompt_tokens"],
            value["hit_tokens"],
            *(value["by_cause"].get(cause, 0) for cause in CAUSES),
        )
        for breakdown in twin["breakdowns"]
        for value in breakdown["values"]
    ]


def _miss_columns() -> tuple[str, ...]:
    return tuple(f"miss_{cause}_tokens" for cause in CAUSES)


def _flat(name: str, meaning: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Csv:
    return Csv(name, meaning, columns, tuple(rows))


def _of(name: str, meaning: str, values: list[dict[str, Any]], without: tuple[str, ...] = ()) -> Csv:
    """Make a table of equal objects: causes become columns, lists are joined by a space."""
    if not values:
        return Csv(name, meaning, (), ())
    plain = [key for key in values[0] if key not in {"by_cause", *without}]
    causes = _miss_columns() if "by_cause" in values[0] else ()
    rows = []
    for value in values:
        row = [" ".join(value[key]) if isinstance(value[key], list) else value[key] for key in plain]
        if causes:
            row += [value["by_cause"].get(cause, 0) for cause in CAUSES]
        rows.append(tuple(row))
    return Csv(name, meaning, (*plain, *causes), tuple(rows))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
