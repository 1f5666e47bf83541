"""The JSON twin, its schema, and the tables made of it."""

from __future__ import annotations

import copy
import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import jsonschema
import pytest

import report_data
from prefixledger.report.document.schema import text
from prefixledger.report.parts import Cost, Finding, Group
from prefixledger.report.tables import tables
from prefixledger.report.twin import twin
from prefixledger.resources import read_text
from prefixledger.schema import CAUSES
from support import ROOT

if TYPE_CHECKING:
    from prefixledger.report.view import ReportView

SCHEMA = json.loads(read_text("reports", "schema/report.schema.json"))
STATES = (report_data.week, report_data.nothing, report_data.one_request, report_data.all_cold)


@pytest.mark.parametrize("make", STATES)
def test_twin_follows_its_schema(make: object) -> None:
    """Every state validates, and the schema itself is one."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(json.dumps(twin(make()), allow_nan=False)), SCHEMA)  # type: ignore[operator]


def test_the_published_schema_is_that_of_the_types() -> None:
    """``make schema`` writes it; what the builders may return and what is published are one."""
    assert text() == read_text("reports", "schema/report.schema.json")


def test_the_schema_names_every_cause_in_order() -> None:
    """The types of the accounts by cause list the causes again."""
    for name in ("TokensByCause", "MoneyByCause"):
        closed = SCHEMA["$defs"][name]
        assert (*closed["properties"],) == (*closed["required"],) == CAUSES
        assert closed["additionalProperties"] is False


def test_every_key_of_a_report_is_in_the_schema() -> None:
    """Nothing is written that the schema does not describe, and only what is not known is null."""
    closed = copy.deepcopy(SCHEMA)
    for one in (closed, *closed["$defs"].values()):
        if "properties" in one:
            one["additionalProperties"] = False
    for make in STATES:
        jsonschema.validate(json.loads(json.dumps(twin(make()))), closed)


def test_reports_that_were_written_before_still_validate() -> None:
    """One kept report for each form of ``report.json``, cut to the first row of each list."""
    kept = sorted((ROOT / "tests" / "kept").glob("report-*.json"))
    assert kept
    for path in kept:
        jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)


def test_what_the_schema_forbids_is_refused() -> None:
    """A token too few, a cause of another name, a lost section: each is seen."""
    value = json.loads(json.dumps(twin(report_data.week())))
    for wrong in (
        value | {"prefixes": [value["prefixes"][0] | {"requests": -1}]},
        value | {"misses": {"by_cause": value["misses"]["by_cause"] | {"weather": 1}, "by_detail": {}}},
        value
        | {
            "timeline": {
                "width_s": 3600,
                "slices": [value["timeline"]["slices"][0] | {"by_cause": {"weather": 1}}],
            }
        },
        {key: one for key, one in value.items() if key != "gaps"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_twin_has_every_promised_key() -> None:
    """The keys that other programs rely on."""
    value = twin(report_data.week())
    promised = {
        "": "schema_version inputs window scenarios totals misses observed cost prefixes replicas curves ladder routing events findings recommendations",
        "inputs": "path format bytes records kept rejected duplicates joined skipped reasons truncated_at",
        "scenarios": "name totals misses observed cost ladder",
        "totals": "requests failed_requests by_basis prompt_tokens output_tokens hit_tokens token_hit_rate request_hit_rate ideal_hit_rate",
        "misses": "by_cause by_detail",
        "observed": "cached_tokens cache_write_tokens cache_write_5m_tokens cache_write_1h_tokens uncached_tokens token_hit_rate "
        "requests_with_usage agreement unexplained_tokens unpredicted_hit_tokens",
        "cost": "currency uncached actual logged multiplier by_cause",
        "replicas": "replica requests share prompt_tokens hit_tokens prefill_tokens",
        "ladder": "rung hit_tokens lost_tokens",
        "findings": "kind title tokens cost from to where evidence",
    }
    for place, keys in promised.items():
        at = value[place] if place else value
        assert set(keys.split()) <= set(at[0] if isinstance(at, list) else at), place
    assert {"capacity_blocks", "hit_tokens", "token_hit_rate"} <= set(value["curves"]["capacity"][0])
    assert {"ttl_s", "hit_tokens", "multiplier"} <= set(value["curves"]["ttl"][0])


def test_top_level_repeats_the_first_scenario() -> None:
    """Programs that know one scenario read the first."""
    view = report_data.week()
    value = twin(replace(view, results=(view.result, replace(view.result, name="other", failed_requests=99))))
    for key in ("totals", "misses", "observed", "cost", "ladder"):
        assert value[key] == value["scenarios"][0][key]
    assert [s["name"] for s in value["scenarios"]] == ["as-is", "other"]


def test_books_close_in_the_twin() -> None:
    """Prompt = hit + causes, in total, over time, by tenant and by replica."""
    value = twin(report_data.week())
    totals, lost = value["totals"], value["misses"]["by_cause"]
    assert tuple(lost) == CAUSES
    assert totals["prompt_tokens"] == totals["hit_tokens"] + sum(lost.values())
    assert sum(value["misses"]["by_detail"].values()) == sum(lost.values())
    rows = [*value["timeline"]["slices"], *value["replicas"], *value["breakdowns"][0]["values"]]
    assert all(r["prompt_tokens"] == r["hit_tokens"] + sum(r["by_cause"].values()) for r in rows)


def test_floats_have_six_digits_and_nothing_is_nan() -> None:
    """Money is decimal inside and rounded once, here."""
    view = report_data.week()
    cost = Cost(
        "USD", Decimal("1234.56789"), Decimal("0.123456789"), None, float("nan"), {"evicted": Decimal("1E-9")}
    )
    value = twin(replace(view, results=(replace(view.result, costs=(cost,)),)))
    assert value["cost"]["uncached"] == 1234.57
    assert value["cost"]["actual"] == 0.123457
    assert value["cost"]["multiplier"] is None
    assert value["cost"]["by_cause"]["evicted"] == 1e-9
    json.dumps(value, allow_nan=False)


def test_ids_are_shortened_unless_asked_for() -> None:
    """Request ids are private by default."""
    view = report_data.week(findings=(Finding("evicted", "t", 5, evidence=("request-0123456789",)),))
    assert twin(view)["findings"][0]["evidence"] == ["request-01…"]
    assert twin(view, show_ids=True)["findings"][0]["evidence"] == ["request-0123456789"]


def read(view: ReportView, name: str) -> list[dict[str, str]]:
    """Parse one table back."""
    table = next(t for t in tables(twin(view)) if t.name == name)
    return list(csv.DictReader(io.StringIO(table.text())))


def test_tables_say_what_the_twin_says() -> None:
    """The account closes in its CSV, and every table has the rows of its list."""
    view = report_data.week()
    lines = {row["line"]: int(row["tokens"]) for row in read(view, "account.csv")}
    assert lines["asked"] == lines["hit"] + sum(lines[c] for c in CAUSES)
    assert len(read(view, "timeline.csv")) == 168
    assert len(read(view, "prefixes.csv")) == 22
    row = read(view, "replicas.csv")[0]
    assert int(row["prompt_tokens"]) == int(row["hit_tokens"]) + sum(
        int(row[f"miss_{c}_tokens"]) for c in CAUSES
    )


def test_no_cell_is_a_formula() -> None:
    """Names that a spreadsheet would run are quoted; numbers are not."""
    view = report_data.week()
    groups = (
        Group("=HYPERLINK(1)", 1, 10, 10, report_data.misses()),
        Group("@x", 1, 10, 10, report_data.misses()),
    )
    rows = read(replace(view, breakdowns=(replace(view.breakdowns[0], groups=groups),)), "breakdowns.csv")
    assert [row["value"] for row in rows] == ["'=HYPERLINK(1)", "'@x"]
    assert rows[0]["prompt_tokens"] == "10"
