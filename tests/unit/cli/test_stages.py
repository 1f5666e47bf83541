"""Before any stage runs: sources against workspaces, scenarios, events; and what a run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefixledger import api, stages
from prefixledger.cli import app
from prefixledger.config.scenario import Cache, Pool, Scenario, dump, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.running import running
from prefixledger.workspace import Workspace, write_json


def _workspace(folder: Path) -> Path:
    place = Workspace(folder)
    place.requests.mkdir(parents=True)
    write_json(place.manifest, {})
    return folder


def _scenario(folder: Path, name: str, text: str = "") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_one_workspace_may_stand_in_place_of_sources(tmp_path: Path) -> None:
    """Logs go to --workspace; a lone workspace is used itself."""
    place = _workspace(tmp_path / "ws")
    assert stages.resolve(["a.jsonl", "b.jsonl"], "elsewhere") == (
        ("a.jsonl", "b.jsonl"),
        Workspace(Path("elsewhere")),
    )
    assert stages.resolve([place], "elsewhere") == ((), Workspace(place))
    assert stages.resolve([], place) == ((), Workspace(place))


def test_nothing_to_read_or_a_mixture_is_a_usage_error(tmp_path: Path) -> None:
    """Before anything is written."""
    place = _workspace(tmp_path / "ws")
    with pytest.raises(UsageError, match="does not go with logs"):
        stages.resolve(["a.jsonl", place], "elsewhere")
    with pytest.raises(UsageError, match="no SOURCE"):
        stages.resolve([], tmp_path / "none")


def test_two_scenarios_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would overwrite each other's replay."""
    first, second = _scenario(tmp_path, "a"), _scenario(tmp_path, "b", "name = 'a'\n")
    with pytest.raises(UsageError, match="two scenarios are called 'a'"):
        stages.ask([first, second], (), None)
    assert [s.name for s in stages.ask([first, Scenario(name="b")], (), None).scenarios] == ["a", "b"]


def test_without_a_scenario_the_default_is_asked() -> None:
    """vLLM, as logged, unlimited."""
    (only,) = stages.ask((), (), None).scenarios
    assert (only.name, only.pool[-1].cache) == ("as-is", Cache())
    (changed,) = stages.ask((), (), "1h").scenarios
    assert changed.pool[-1].fleet.replica_grace == "1h"


def test_events_of_several_files_are_in_order_of_time_and_fit_the_pools(tmp_path: Path) -> None:
    """An event that names a pool of no scenario is refused."""
    late, early = tmp_path / "late.csv", tmp_path / "early.jsonl"
    late.write_text("at,kind\n2026-11-24T10:00:00Z,flush\n", encoding="utf-8")
    early.write_text('{"at": "2026-11-23T10:00:00Z", "kind": "restart", "pool": "x"}\n', encoding="utf-8")
    named = Scenario(pool=(Pool(name="x"),))
    assert [event.kind for event in stages.ask([named], [late, early], None).events] == ["restart", "flush"]
    with pytest.raises(UsageError, match="no pool 'x'"):
        stages.ask((), [late, early], None)


def test_clock_and_machine_stand_in_run_json_alone(tmp_path: Path) -> None:
    """One file, which nothing is compared with."""
    place = Workspace(tmp_path / "ws")
    with running(place, "ingest", force=False):
        pass
    run = json.loads((place.root / "run.json").read_text(encoding="utf-8"))
    assert run["verb"] == "ingest"
    assert run["seconds"] >= 0


def test_print_scenario_is_a_scenario_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is read or written, and what is printed reads back."""
    path = _scenario(tmp_path, "mine", "[cache]\ncapacity = '9 blocks'\n")
    assert app.run(["replay", "--print-scenario", "--scenario", str(path), "--replica-grace", "1h"]) == 0
    text = capsys.readouterr().out
    assert text == api.print_scenario(scenario=[path], replica_grace="1h")
    again = parse_scenario(text)
    assert (again.name, again.pool[0].cache.capacity, again.pool[0].fleet.replica_grace) == (
        "mine",
        "9 blocks",
        "1h",
    )
    assert dump(again) == text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.toml"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("[cache]\nprofile = 'sglangg'\n", "profiles that exist"), ("[cache\n", "not TOML")],
)
def test_a_bad_scenario_ends_in_exit_2_before_anything_is_read(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the place."""
    path = _scenario(tmp_path, "bad", text)
    arguments = ["replay", "no-such-log.jsonl", "--scenario", str(path), "--workspace", str(tmp_path / "ws")]
    assert app.run(arguments) == 2
    err = capsys.readouterr().err
    assert f"error: {path}:" in err
    assert said in err
    assert not (tmp_path / "ws").exists()
