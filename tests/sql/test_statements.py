"""Every statement of ``sql/``: its form, its header, and what it makes of small tables."""

from __future__ import annotations

import re

import duckdb
import pytest

from prefixledger.attribute.cell import STEPS as CELL_STEPS
from prefixledger.attribute.explain import STEPS as EXPLAIN_STEPS
from prefixledger.attribute.investigate import STEPS as INVESTIGATE_STEPS
from prefixledger.attribute.marts import CHECKS as MART_CHECKS
from prefixledger.attribute.marts import STEPS as MART_STEPS
from prefixledger.attribute.marts import STEPS_BEFORE_PRICES
from prefixledger.attribute.run import ACCOUNT, CHECKS, STEPS, WHOLE_CHECK
from prefixledger.attribute.session import Session
from sql_cases import CASES, SQL, columns_of, comparable, header, listed, read_cases, steps

RAN = (
    *STEPS,
    *CHECKS,
    ACCOUNT,
    WHOLE_CHECK,
    *STEPS_BEFORE_PRICES,
    *MART_STEPS,
    *MART_CHECKS,
    *EXPLAIN_STEPS,
    *INVESTIGATE_STEPS,
    *CELL_STEPS,
)
BUILT_CASES = [(step, case) for step in steps() for case in read_cases(step)]


def test_every_statement_is_run_once_and_has_cases() -> None:
    """Files, the steps that run them, and their cases are the same set."""
    assert sorted(RAN) == steps()
    assert (
        sorted(path.relative_to(CASES).with_suffix("").as_posix() for path in CASES.rglob("*.txt")) == steps()
    )


def test_folders_run_in_the_order_of_their_numbers() -> None:
    """A statement only needs what an earlier folder, or an earlier one in its own, has made."""
    books = len(STEPS) + len(CHECKS) + 2
    for order in (RAN[:books], RAN[books:]):
        assert [step.split("/")[0] for step in order] == sorted(step.split("/")[0] for step in order)
        made: set[str] = set()
        for step in order:
            later = {other.split("/")[1] for other in order} - made
            assert not later & set(listed(header(step)["Inputs"])), f"{step} comes too early"
            made.add(step.split("/")[1])


@pytest.mark.parametrize("step", steps())
def test_header_says_what_the_statement_does(step: str) -> None:
    """One statement a file; the header names its question, rows, true inputs and true parameters."""
    text = (SQL / f"{step}.sql").read_text(encoding="utf-8")
    (statement,) = duckdb.extract_statements(text)
    parts = header(step)
    assert statement.type == duckdb.StatementType.SELECT
    assert parts["Question"].endswith("?")
    assert parts["Row"]
    read = re.findall(r"(?<!distinct )\b(?:from|join) (\w+)", re.sub(r"--.*", "", text))
    made_here = re.findall(r"^(?:with )?(\w+)(?: \([^)]*\))? as \($", text, re.MULTILINE)
    assert sorted(set(read) - set(made_here)) == sorted(listed(parts["Inputs"]))
    assert sorted(statement.named_parameters) == sorted(
        listed(parts["Parameters"]) if "Parameters" in parts else []
    )
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize(
    ("step", "case"), BUILT_CASES, ids=[f"{step}: {case.title}" for step, case in BUILT_CASES]
)
def test_statement(step: str, case) -> None:
    """The statement makes the expected rows, in order, and exactly the columns that its header names."""
    with Session() as session:
        session.bind(case.inputs)
        session.run([step], case.parameters)
        found = session.table(step.split("/")[1])
    assert found.column_names == list(columns_of(step.split("/")[1]))
    named = list(case.expected[0]) if case.expected else []
    rows = comparable(found, named)
    if named:
        if not re.search(r"^order by", (SQL / f"{step}.sql").read_text(encoding="utf-8"), re.MULTILINE):
            rows, case.expected = sorted(rows, key=str), sorted(case.expected, key=str)
        assert [_approximately(row) for row in rows] == case.expected
    else:
        assert found.num_rows == 0, found.to_pylist()


def _approximately(row: dict) -> dict:
    return {name: pytest.approx(value) if isinstance(value, float) else value for name, value in row.items()}
