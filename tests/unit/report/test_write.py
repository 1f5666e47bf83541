"""Writing a report: three outputs of one stem, never over somebody else's file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import report_data
from prefixledger.errors import UsageError
from prefixledger.report.summary import summary
from prefixledger.report.write import check, write

if TYPE_CHECKING:
    from pathlib import Path

WEEK = report_data.week()


def content(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_three_outputs_with_one_stem_twice_the_same(tmp_path: Path) -> None:
    """Page, twin and tables are there, replace their own kind, and do not change on a second run."""
    written = write(WEEK, tmp_path / "week.html")
    first = content(tmp_path)
    assert {"week.html", "week.json", "week.csv/account.csv", "week.csv/datapackage.json"} <= set(first)
    assert written.html_bytes == len(first["week.html"])
    assert json.loads(first["week.json"])["schema_version"] == 1
    write(WEEK, tmp_path / "week.html")
    assert content(tmp_path) == first


def test_tables_of_an_earlier_report_that_are_no_more_go(tmp_path: Path) -> None:
    """A folder never mixes two reports; a file that we did not list stays."""
    write(WEEK, tmp_path / "week.html")
    (tmp_path / "week.csv" / "mine.csv").write_text("a\n")
    write(report_data.nothing(), tmp_path / "week.html")
    names = {p.name for p in (tmp_path / "week.csv").iterdir()}
    assert "timeline.csv" not in names
    assert {"account.csv", "inputs.csv", "mine.csv"} <= names
    listed = json.loads((tmp_path / "week.csv" / "datapackage.json").read_text())["resources"]
    assert {one["path"] for one in listed} | {"mine.csv", "datapackage.json"} == names


@pytest.mark.parametrize("name", ["week.html", "week.json", "week.csv/x.csv"])
def test_a_foreign_file_is_not_replaced_without_force(tmp_path: Path, name: str) -> None:
    """Nothing at all is written when one of the three is somebody else's."""
    foreign = tmp_path / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text('{"schema_version": 1}')
    with pytest.raises(UsageError, match="not written by prefixledger") as raised:
        write(WEEK, tmp_path / "week.html")
    assert "--force" in (raised.value.hint or "")
    assert content(tmp_path) == {name: b'{"schema_version": 1}'}
    write(WEEK, tmp_path / "week.html", force=True)
    assert check(tmp_path / "week.html").html.is_file()


@pytest.mark.parametrize("name", ["week", "-", "week.pdf"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    """The name decides where twin and tables go, so it has to end in .html."""
    with pytest.raises(UsageError, match="no name for a report"):
        check(tmp_path / name)


def test_a_folder_in_the_way_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """Both are usage errors that name the place."""
    (tmp_path / "week.html").mkdir()
    with pytest.raises(UsageError, match="in the way"):
        check(tmp_path / "week.html", force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written") as raised:
        write(WEEK, tmp_path / "file" / "x.html")
    assert "file" in str(raised.value)


def test_summary_has_the_account_the_files_and_the_verdict_last(tmp_path: Path) -> None:
    """The eye falls on the last line of a terminal."""
    found = summary(WEEK, write(WEEK, tmp_path / "week.html"))
    lines = found.lines()
    assert lines[-1] == found.verdict
    assert lines[-1].startswith("In the replay, 68.5 %")
    assert any(line.startswith("not accounted for ") and " 0 " in line for line in lines)
    assert sum(line.startswith("wrote ") for line in lines) == 3
    tokens = {name: int(value.replace(",", "")) for name, value, _ in found.account}
    assert tokens.pop("asked") == sum(tokens.values())


def test_summary_of_nothing_has_no_table() -> None:
    """No lookups, no account, still a verdict."""
    found = summary(report_data.nothing())
    assert found.account == ()
    assert found.lines()[-1].startswith("No request falls into this window")
