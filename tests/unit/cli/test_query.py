"""``query`` answers from the workspace, from nothing else, and changes nothing."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from prefixledger import api, schema
from prefixledger.cli import app
from prefixledger.errors import UsageError
from prefixledger.workspace import WORKSPACE_VERSION, Workspace, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make a workspace with three lookups in each of two replays and no request."""
    place = Workspace(tmp_path / "ws")
    write_json(place.manifest, {"schema_version": WORKSPACE_VERSION, "sources": []})
    for name, hit in (("as-is", 16), ("bigger", 32)):
        table = pa.table(
            {
                "request_id": [f"request-number-{n}" for n in range(3)],
                "admitted_at": pa.array([n * 1_000_000 for n in range(3)], pa.timestamp("us", tz="UTC")),
                "hit_tokens": [hit] * 3,
                "labels": pa.array([[("a", "b")], [], None], pa.map_(pa.string(), pa.string())),
                "prefix_key": pa.array([b"\x01" * 16, None, b"\xff" * 16], pa.binary(16)),
            }
        )
        write_table(place.replay(name) / "lookups.parquet", table)
    return place.root


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = app.run(["query", *arguments])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert err == ""
    return out


def test_views_join_all_replays_and_say_which(workspace: Path) -> None:
    """The first column is the scenario."""
    answer = api.query(
        "SELECT scenario, sum(hit_tokens)::INT FROM lookups GROUP BY ALL ORDER BY 1", workspace=workspace
    )
    assert list(answer.rows()) == [("as-is", 48), ("bigger", 96)]
    assert api.query("FROM lookups", workspace=workspace).columns[0] == "scenario"


def test_tables_of_the_workspace_exist_before_they_have_rows(workspace: Path) -> None:
    """With the columns of the schema."""
    for table in (schema.REQUESTS, schema.REJECTS, schema.BLOCKS, schema.LAST_BLOCKS):
        answer = api.query(f"FROM {table.name}", workspace=workspace)
        assert answer.columns == table.names
        assert list(answer.rows()) == []


def test_a_frame_has_all_rows_with_their_types(workspace: Path) -> None:
    """For Python: polars."""
    answer = api.query("SELECT request_id, admitted_at FROM lookups ORDER BY ALL", workspace=workspace)
    frame = answer.frame()
    assert frame.shape == (6, 2)
    assert frame["admitted_at"][-1] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY lookups TO '{outside}/x.csv'",
        "COPY lookups TO '{inside}/x.csv'",
        "CREATE TABLE t AS SELECT 1",
        "INSERT INTO requests SELECT 1",
        "DROP VIEW lookups",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "ATTACH '{outside}/x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA enable_profiling",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "EXPORT DATABASE '{inside}/x'",
    ],
)
def test_a_query_only_asks(sql: str, workspace: Path, tmp_path: Path) -> None:
    """Everything else is refused before it runs."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError):
        list(api.query(sql.format(inside=workspace, outside=tmp_path), workspace=workspace).rows())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "table",
    [
        "read_text('{file}')",
        "read_csv('{file}')",
        "'{file}'",
        "glob('{folder}/*')",
        "read_text('{inside}/../secret.csv')",
        "'https://127.0.0.1/x.parquet'",
    ],
)
def test_a_query_reads_nothing_outside_the_workspace(table: str, workspace: Path, tmp_path: Path) -> None:
    """Not by name, not by a path through the workspace, not over the network."""
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    source = table.format(file=secret, folder=tmp_path, inside=workspace)
    with pytest.raises(UsageError) as caught:
        list(api.query(f"FROM {source}", workspace=workspace).rows())
    assert "Permission" in caught.value.message


def test_python_variables_are_no_tables(workspace: Path) -> None:
    """DuckDB would otherwise read the frames of its caller."""
    local_table = pa.table({"a": [1]})
    assert local_table.num_rows == 1
    with pytest.raises(UsageError, match="local_table"):
        api.query("FROM local_table", workspace=workspace)


def test_a_wrong_statement_names_the_views(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With DuckDB's own pointer at the place."""
    assert app.run(["query", "SELECT x FROM lookup", "--workspace", str(workspace)]) == 2
    err = capsys.readouterr().err
    assert "LINE 1" in err
    assert (
        "views: blocks, contents, kv_events, last_blocks, lookups, parts, pieces, rejects, requests, series"
        in err
    )


def test_a_folder_that_is_no_workspace_is_refused(tmp_path: Path) -> None:
    """And nothing is made there."""
    with pytest.raises(UsageError, match="not a workspace"):
        api.query("SELECT 1", workspace=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_csv_is_the_default_off_a_terminal(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times are ISO 8601 in UTC, keys are hex, null is empty, nested values are JSON."""
    sql = "SELECT * FROM lookups WHERE scenario = 'as-is' ORDER BY admitted_at"
    rows = list(csv.DictReader(io.StringIO(_printed(capsys, sql, "--workspace", str(workspace)))))
    assert len(rows) == 3
    assert rows[2]["admitted_at"] == "1970-01-01T00:00:02Z"
    assert [row["prefix_key"] for row in rows] == ["01" * 16, "", "ff" * 16]
    assert [row["labels"] for row in rows] == ['{"a": "b"}', "{}", ""]


def test_json_is_an_array_of_objects(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers stay numbers, what is no JSON number is null."""
    sql = "SELECT 1.5::DECIMAL(9, 2) AS d, 'nan'::DOUBLE AS n, 170141183460469231731687303715884105727 AS big, [1, 2] AS l"
    (row,) = json.loads(_printed(capsys, sql, "--json", "--workspace", str(workspace)))
    assert row == {"d": 1.5, "n": None, "big": 2**127 - 1, "l": [1, 2]}
    assert json.loads(_printed(capsys, "SELECT 1 WHERE false", "--json", "--workspace", str(workspace))) == []


def test_ids_are_shortened_unless_asked_for(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In every form of output."""
    where = ("SELECT min(request_id) AS request_id FROM lookups", "--workspace", str(workspace))
    for form in ((), ("--csv",), ("--json",)):
        assert "request-number-0" not in _printed(capsys, *where, *form)
        assert "request-number-0" in _printed(capsys, *where, *form, "--show-ids")


def test_a_terminal_gets_a_table_of_the_first_rows(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is told that there are more."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert app.run(["query", "SELECT range AS number FROM range(700)", "--workspace", str(workspace)]) == 0
    out, err = capsys.readouterr()
    assert "number" in out
    assert " 499" in out
    assert " 500" not in out
    assert "only the first 500 rows" in err


def test_sql_comes_from_stdin_on_request(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``-`` in its place."""
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 42 AS answer"))
    assert _printed(capsys, "-", "--workspace", str(workspace)) == "answer\n42\n"


def test_a_name_in_a_log_cannot_steer_the_terminal(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters are replaced on a terminal and in complaints; data off a terminal keep them."""
    question = ["query", "SELECT chr(27) || '[31mred' AS pod", "--workspace", str(workspace)]
    assert "\x1b[31mred" in _printed(capsys, *question[1:])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert app.run(question) == 0
    assert "\ufffd[31mred" in capsys.readouterr().out
    assert app.run(["query", "SELECT 1", "--workspace", "no\x1b[31mred"]) == 2
    assert "no\ufffd[31mred" in capsys.readouterr().err
