"""The entry point: help, wrong usage, exit codes, and what goes to stdout and stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import prefixledger
from prefixledger.cli import app
from prefixledger.errors import InputError, InternalError, Place, RuleCrossedError, UsageError
from prefixledger.workspace import WORKSPACE_VERSION

if TYPE_CHECKING:
    from pathlib import Path


def _formats_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("prefixledger.api.formats", fail)


def test_no_argument_is_a_short_help_with_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """And exit code 0."""
    assert app.run([]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n  prefixledger ") == 2
    assert len(said.out.splitlines()) < 12
    assert said.err == ""


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_verb(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the work, with the exit codes."""
    assert app.run([option]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"\n  {verb} ") for verb in app.VERBS]
    assert places == sorted(places)
    assert "130  interrupted" in text


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_and_option_has_help(verb: str) -> None:
    """A verb has two examples, and no option is left without a word."""
    with app.app.make_context("prefixledger", [verb], resilient_parsing=True) as context:
        command = app.app.get_command(context, verb)
    assert command is not None
    assert (command.help or "").count("prefixledger") >= 2
    for parameter in command.params:
        assert parameter.param_type_name == "argument" or parameter.help, parameter.name


def test_version_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes to stdout."""
    assert app.run(["--version"]) == 0
    assert prefixledger.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reprot"], "did you mean 'report'?"),
        (["xyzzy"], "verbs: report, demo"),
        (["query", "--worksapce", "x", "SELECT 1"], "Did you mean '--workspace'?"),
        (["query"], "Missing argument 'SQL'"),
        (["query", "SELECT 1", "--csv", "--json"], "do not go together"),
        (["report", "--jobs", "0"], "0"),
        (["ingest", "x", "--block-ids", "round"], "floor"),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, with a hint, without a traceback."""
    assert app.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert "hint: " in err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuleCrossedError("a rule"), 1),
        (UsageError("a usage"), 2),
        (InputError("an input"), 3),
        (InternalError("an invariant"), 4),
        (ZeroDivisionError("a bug"), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_ending_has_its_exit_code(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the help says; no traceback, nothing on stdout."""
    _formats_raises(monkeypatch, error)
    assert app.run(["formats"]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert str(error) in err


def test_an_error_says_where_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line and column stand in front, the hint stands below."""
    _formats_raises(monkeypatch, UsageError("it is odd", place=Place("a.toml", 3, 7), hint="make it even"))
    app.run(["formats"])
    assert capsys.readouterr().err == "error: a.toml:3:7: it is odd\nhint: make it even\n"


@pytest.mark.parametrize("arguments", [["--debug", "formats"], ["formats", "--debug"]])
def test_debug_shows_the_traceback(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the verb or after it."""
    _formats_raises(monkeypatch, ZeroDivisionError("a bug"))
    assert app.run(arguments) == 4
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_colour_follows_the_two_variables(
    variables: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NO_COLOR wins over FORCE_COLOR; an empty NO_COLOR counts as unset."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    app.run(["xyzzy"])
    assert ("\x1b[" in capsys.readouterr().err) == coloured


def test_a_reader_that_leaves_early_is_no_crash(tmp_path: Path) -> None:
    """``prefixledger … | head -1`` ends without a traceback."""
    (tmp_path / "manifest.json").write_text(
        json.dumps({"schema_version": WORKSPACE_VERSION, "sources": []}), encoding="utf-8"
    )
    command = (
        f"{sys.executable} -m prefixledger query 'FROM range(3000000)' --csv --workspace {tmp_path} | head -1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "range\n"
    assert done.stderr == ""


def test_an_interrupt_is_exit_130(tmp_path: Path) -> None:
    """Ctrl-C ends the process at once, with one sentence."""
    (tmp_path / "manifest.json").write_text(
        json.dumps({"schema_version": WORKSPACE_VERSION, "sources": []}), encoding="utf-8"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "prefixledger",
            "query",
            "FROM range(1000000000)",
            "--csv",
            "--workspace",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "range\n"
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("verb", "code"), [("formats", 0), ("nonsense", 2)])
def test_the_process_ends_after_what_asked_to_be_called_at_its_end(verb: str, code: int) -> None:
    """Nothing that was printed is lost, and the exit code is the one that the verb came to."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('last words'))\n"
        "from prefixledger.cli.app import main\n"
        f"print('x' * 100_000)\nmain(['{verb}'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:100_000]) == (code, "x" * 100_000)
    assert done.stdout.endswith("\nlast words\n")
    assert bool(done.stderr) == bool(code)


def test_whoever_watches_the_process_sees_it_end_as_python_does() -> None:
    """A profiler writes what it found after the exit."""
    script = "import sys; sys.setprofile(lambda *_: None)\nfrom prefixledger.cli.app import main\n"
    script += "try:\n    main(['--version'])\nexcept SystemExit as end:\n    print('seen', end.code)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("seen 0\n")
