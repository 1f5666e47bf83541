"""The verbs end to end on small logs: exit codes, outputs, and the same through Python."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES
from prefixledger import api
from prefixledger.cli import app
from prefixledger.cli.bars import progress_of
from prefixledger.cli.console import Talk
from prefixledger.outcomes import PartialInputError

if TYPE_CHECKING:
    from pathlib import Path

SHARED, OWN = 3, 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write 40 requests of 4 blocks, 3 of which they share, in the Mooncake form."""
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "timestamp": 1000 * n,
            "input_length": 4 * 512,
            "output_length": 10,
            "hash_ids": [*range(SHARED), 100 + n],
        }
        for n in range(OWN)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own, where the defaults point."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_ingest_accounts_for_every_record(log: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr for people, as JSON on stdout for programs."""
    assert app.run(["ingest", str(log), "--json"]) == 0
    out, err = capsys.readouterr()
    (source,) = json.loads(out)["inputs"]
    assert (source["records"], source["kept"], source["format"]) == (OWN, OWN, "mooncake")
    assert "log.jsonl: mooncake" in err
    assert (place / ".prefixledger" / "manifest.json").is_file()
    assert app.run(["ingest", str(log)]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()] == [
        [w, str(n)] for w, n in (("records", OWN), ("kept", 0), ("duplicates", OWN))
    ]
    assert err.endswith("next: prefixledger report --workspace .prefixledger\n")


def test_replay_names_a_cause_for_every_missed_token(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the same numbers stand in the workspace, where SQL finds them."""
    assert app.run(["replay", str(log), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["replays"]
    assert (place / ".prefixledger" / "replays" / "as-is" / "scenario.toml").is_file()
    assert (one["lookups"], one["prompt_tokens"]) == (OWN, OWN * 2048)
    assert one["hit_tokens"] == (OWN - 1) * SHARED * 512
    books = "SELECT sum(prompt_tokens)::INT, sum(hit_tokens)::INT FROM lookups"
    assert list(api.query(books).rows()) == [(one["prompt_tokens"], one["hit_tokens"])]
    missed = list(api.query("SELECT sum(tokens)::INT FROM misses").rows())
    assert missed == [(one["prompt_tokens"] - one["hit_tokens"],)]


def test_a_workspace_may_stand_in_place_of_logs(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two scenarios, each under its own name."""
    app.run(["ingest", str(log), "-q"])
    (place / "small.toml").write_text("[cache]\ncapacity = '4 blocks'\n", encoding="utf-8")
    (place / "large.toml").write_text("[cache]\ncapacity = '400 blocks'\n", encoding="utf-8")
    assert app.run(["replay", ".prefixledger", "--scenario", "small.toml", "--scenario", "large.toml"]) == 0
    assert capsys.readouterr().out.count("\n") >= 3
    rows = list(
        api.query("SELECT scenario, sum(hit_tokens)::INT FROM lookups GROUP BY ALL ORDER BY 1").rows()
    )
    assert rows == [("large", (OWN - 1) * SHARED * 512), ("small", (OWN - 1) * SHARED * 512)]


def test_report_writes_three_outputs_and_ends_with_the_verdict(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is itself the JSON twin where --json is given."""
    assert app.run(["report", str(log), "-o", "week.html"]) == 0
    out, _ = capsys.readouterr()
    assert sorted(path.name for path in place.iterdir()) == [
        ".prefixledger",
        "week.csv",
        "week.html",
        "week.json",
    ]
    verdict = out.splitlines()[-1]
    assert verdict.endswith(".")
    assert app.run(["report", ".prefixledger", "-o", "week.html", "--json"]) == 0
    twin = capsys.readouterr().out
    assert twin == (place / "week.json").read_text(encoding="utf-8")
    assert json.loads(twin)["totals"]["prompt_tokens"] == OWN * 2048


def test_a_foreign_file_stops_a_report_before_it_begins(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, the file is whole, and no workspace was made."""
    (place / "week.html").write_text("mine", encoding="utf-8")
    assert app.run(["report", str(log), "-o", "week.html"]) == 2
    assert (place / "week.html").read_text(encoding="utf-8") == "mine"
    assert not (place / ".prefixledger").exists()
    assert "--force" in capsys.readouterr().err
    assert app.run(["report", str(log), "-o", "week.html", "--force", "-q"]) == 0


def test_python_and_the_command_line_write_the_same_bytes(log: Path, place: Path) -> None:
    """Whatever the number of jobs."""
    assert app.run(["report", str(log), "-o", "cli.html", "--workspace", "a", "--jobs", "1", "-q"]) == 0
    result = api.report([log], output="python.html", workspace="b", jobs=2)
    for ending in ("html", "json"):
        assert (place / f"cli.{ending}").read_bytes() == (place / f"python.{ending}").read_bytes()
    assert result.verdict in result.lines


def test_too_many_rejects_are_exit_3_after_everything_is_written(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account is printed, the report is there, and Python gets both with the error."""
    with log.open("a", encoding="utf-8") as stream:
        stream.write("{broken\n" * 12)
    assert app.run(["report", str(log), "-o", "week.html"]) == 3
    out, err = capsys.readouterr()
    assert (place / "week.html").is_file()
    assert "12 rejected" in err
    assert "error: " in err
    assert out
    with pytest.raises(PartialInputError) as caught:
        api.ingest([log], workspace="other")
    assert caught.value.result is not None
    assert api.ingest([log], workspace="third", max_rejects="50%").rejected == 12


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("rubbish\n", "no known format fits"),
        ('{"id": "a", "ids": [1, 2]}\n' * 2, "Every one of the 2 records was rejected"),
    ],
)
def test_a_log_of_which_nothing_is_kept_gets_a_page_that_says_why(
    text: str, told: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3 all the same; page, twin and tables are whole, and the page shows where the first rejects are."""
    (place / "bad.jsonl").write_text(text, encoding="utf-8")
    mapped = ["--map", str(FIXTURES / "token_ids.map.toml")] if text.startswith("{") else []

    assert app.run(["report", str(place / "bad.jsonl"), *mapped]) == 3

    said = capsys.readouterr()
    page = (place / "prefixledger.html").read_text(encoding="utf-8")
    assert told in said.out
    assert told in page
    assert str(place) not in page
    assert json.loads((place / "prefixledger.json").read_text(encoding="utf-8"))["totals"]["requests"] == 0
    assert ("bad.jsonl</bdi>:2" in page) == bool(mapped)
    assert "<svg viewBox" not in page


@pytest.mark.parametrize("verb", ["ingest", "replay", "report"])
def test_an_input_that_is_not_there_is_exit_3(
    verb: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the file is named."""
    assert app.run([verb, "no-such-log.jsonl"]) == 3
    assert "no-such-log.jsonl" in capsys.readouterr().err
    assert not list(place.glob("*.html"))


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "nonsense"],
        ["--t0", "yesterday"],
        ["--t0", "2026-11-24", "--after", "x"],
        ["--max-rejects", "some"],
        ["--scenario", "none.toml"],
        ["--events", "none.toml"],
        ["--replica-grace", "soon"],
        ["--tz", "Mars/Olympus"],
        ["--from", "monday"],
        ["-o", "week.pdf"],
    ],
    ids=" ".join,
)
def test_an_option_that_means_nothing_is_exit_2_and_leaves_no_trace(
    options: list[str], log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found before anything is read."""
    assert app.run(["report", str(log), *options]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not [path for path in place.iterdir() if path.name != ".prefixledger"]


def test_the_window_can_be_asked_for(log: Path, place: Path) -> None:
    """Offsets on a relative clock, times on an absolute one."""
    whole = api.report([log], output="whole.html")
    half = api.report(output="half.html", from_="+10s", to="+20s")
    totals = [json.loads(one.json.read_text(encoding="utf-8"))["totals"] for one in (whole, half)]
    assert [total["requests"] for total in totals] == [OWN, 10]
    assert (place / "half.html").is_file()


def test_formats_say_how_to_log_what_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """Best way first, each with what it gives and lacks; every format it names is read."""
    assert app.run(["formats", "--how"]) == 0
    out = capsys.readouterr().out
    assert "DYN_REQUEST_TRACE=1" in out
    assert "--log-requests-level 3" in out
    assert app.run(["formats", "--how", "--json"]) == 0
    ways = json.loads(capsys.readouterr().out)
    assert [way["keys"] for way in ways] == sorted(
        (way["keys"] for way in ways), key=["exact", "from text", "none"].index
    )
    known = {one.name for one in api.formats()}
    named = {name.split(" (")[0] for way in ways for name in way["format"].split(", ")}
    assert named <= known


def test_export_prints_what_it_wrote(
    log: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account on stderr, JSON on stdout where it is asked for; without a workspace exit code 2."""
    output = tmp_path / "trace.jsonl"
    assert app.run(["ingest", str(log), "--workspace", str(place / "ws")]) == 0
    capsys.readouterr()
    assert app.run(["export", str(place / "ws"), "-o", str(output), "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["rows"] == len(output.read_text(encoding="utf-8").splitlines()) == OWN
    assert told["blocks"] == SHARED + OWN
    assert "distinct blocks" in printed.err
    assert app.run(["export", str(tmp_path / "none"), "-o", str(output)]) == 2


def test_a_crossed_rule_is_exit_1_after_the_report_is_written(
    log: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule learns of it from the exit code, people from the page and from the last line on stderr."""
    asked = ["report", str(log), "--fail-on", "cold_share<1%", "--fail-on", "token_hit_rate<80%"]
    assert app.run(asked) == 1
    out, err = capsys.readouterr()
    assert (place / "prefixledger.html").is_file()
    assert "asked" in out
    assert "token_hit_rate<80%: it is 0.73" in err
    assert "cold_share" not in err
    assert app.run(["report", ".prefixledger", "--fail-on", "token_hit_rate<50%"]) == 0


def test_the_statements_of_explain_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Whole, in order, and without a workspace."""
    assert app.run(["explain", "any", "--print-sql"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.endswith(".sql")] == [
        f"-- 80_explain/{name}.sql" for name in ("candidates", "near", "life", "spans")
    ]
    assert out.count("-- Question:") == 4


def test_a_long_phase_off_a_terminal_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line after ten seconds, none before."""
    clock = iter((0.0, 1.0, 5.0, 12.0, 12.0, 13.0))
    monkeypatch.setattr("prefixledger.cli.bars.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress_of(Talk()) as progress:
        progress.phase("ingest", 400)
        for rejects in (0, 2, 0):
            progress.advance(100, rejects)
    assert capsys.readouterr().err == "ingest: 200 of 400 bytes (50%), 2 rejected\n"
