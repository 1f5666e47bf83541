"""The verb ``whatif``: the baseline and every combination, with the numbers of a replay of that scenario."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from prefixledger import api, index
from prefixledger.attribute import grid_run
from prefixledger.cli import app
from prefixledger.config.grid import read_grid
from prefixledger.config.registry import ROUTINGS
from prefixledger.errors import InputError, UsageError
from prefixledger.workspace import Workspace

MAP = """\
format = "jsonl"
block_size = 16
[columns]
started_at = { from = "at", unit = "s" }
block_ids = "ids"
prompt_tokens = "n"
output_tokens = "out"
replica = "pod"
"""
GROUPS, ROUNDS, BLOCKS = 6, 8, 5


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ingest 48 requests of 6 prefixes in turn, one a minute, on 2 pods that take turns by three."""
    rows = []
    for n in range(GROUPS * ROUNDS):
        group = n % GROUPS
        ids = [*(100 * group + k for k in range(BLOCKS)), 10_000 + n]
        rows.append(
            {
                "at": 1_000_000_000 + 60 * n,
                "ids": ids,
                "n": 16 * len(ids),
                "out": 3,
                "pod": f"p{n // 3 % 4 // 2}",
            }
        )
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "map.toml").write_text(MAP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    api.ingest(["log.jsonl"], map="map.toml")
    return tmp_path


def _cells(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert app.run(["whatif", *arguments, "--json", "-q"]) == 0
    cells: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["cells"]
    return cells


def _replayed(place: Path, text: str) -> tuple[int, dict[str, int]]:
    """Return hits and misses by cause of a scenario, by way of ``replay`` and ``query``."""
    (place / "one.toml").write_text(text, encoding="utf-8")
    (one,) = api.replay(scenario=["one.toml"]).replays
    missed = api.query(
        "SELECT cause, sum(tokens)::INT FROM misses WHERE scenario = 'one' GROUP BY ALL"
    ).rows()
    return one.hit_tokens, dict(missed)


@pytest.mark.parametrize(
    ("arguments", "scenario"),
    [
        (["--capacity", "12"], "[cache]\ncapacity = '12 blocks'\n"),
        (["--ttl", "5m"], "[cache]\nttl = '5m'\n"),
        (["--routing", "round-robin"], "[fleet]\nrouting = 'round-robin'\nreplicas = 2\n"),
        (
            ["--routing", "random", "--replicas", "3", "--capacity", "320 tokens"],
            "[cache]\ncapacity = '320 tokens'\n[fleet]\nrouting = 'random'\nreplicas = 3\n",
        ),
    ],
    ids=["capacity", "ttl", "routing", "all"],
)
def test_a_cell_has_the_numbers_of_a_replay(
    arguments: list[str], scenario: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hits and every cause, of the cell and of the baseline; the two books close, and shares are whole."""
    baseline, cell = _cells(capsys, *arguments)
    for found, text in ((baseline, ""), (cell, scenario)):
        hits, missed = _replayed(place, text)
        assert found["totals"]["hit_tokens"] == hits
        assert {cause: tokens for cause, tokens in found["misses"]["by_cause"].items() if tokens} == missed
        assert hits + sum(missed.values()) == found["totals"]["prompt_tokens"]
        assert sum(one["requests"] for one in found["replicas"]) == GROUPS * ROUNDS
        prefill = sum(one["prefill_tokens"] for one in found["replicas"])
        assert found["cost"] == {
            "currency": "prefill tokens",
            "uncached": found["totals"]["prompt_tokens"],
            "actual": prefill,
            "multiplier": pytest.approx(prefill / found["totals"]["prompt_tokens"]),
        }
    assert baseline["totals"]["change_pp"] == 0
    rates = [one["totals"]["token_hit_rate"] for one in (baseline, cell)]
    assert cell["totals"]["change_pp"] == pytest.approx(100 * (rates[1] - rates[0]))
    assert rates[0] != rates[1]


def test_the_grid_is_every_combination_that_differs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As-logged has no number of replicas, so it is there once for each capacity; nothing is left in the workspace."""
    workspace = Workspace(place / ".prefixledger")
    index.update(workspace)
    before = sorted(workspace.root.rglob("*"))
    cells = _cells(capsys, "--capacity", "12", "--routing", "as-logged,random", "--replicas", "2,4")
    shown = [(c["axes"]["capacity"], c["axes"]["routing"], c["axes"]["replicas"]) for c in cells]
    assert shown == [
        ("unlimited", "as-logged", None),
        ("12 blocks", "as-logged", None),
        ("12 blocks", "random", 2),
        ("12 blocks", "random", 4),
    ]
    assert {path for path in workspace.root.rglob("*") if path.name != "run.json"} == {
        path for path in before if path.name != "run.json"
    }
    assert not (place / ".prefixledger" / "replays").exists()


@pytest.mark.usefixtures("place")
def test_python_csv_and_table_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """One row per cell, the baseline first."""
    result = api.whatif(capacity=[12], ttl="none")
    capsys.readouterr()
    assert app.run(["whatif", "--capacity", "12", "--csv", "-q"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["hit_tokens"]) for row in rows] == [cell.totals["hit_tokens"] for cell in result.cells]
    assert [int(row["miss_evicted_tokens"]) for row in rows] == [
        cell.misses["by_cause"]["evicted"] for cell in result.cells
    ]
    assert app.run(["whatif", "--capacity", "12"]) == 0
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if "%" in line]
    assert len(rows) == 2
    assert "baseline" in lines[0]
    asked, hits, *misses, residual = lines[2:]
    assert [asked[:5], hits[:4], residual[:17]] == ["asked", "hits", "not accounted for"]
    tokens = [[int(line[20:].split()[n].replace(",", "")) for n in (0, 3)] for line in (asked, hits, *misses)]
    assert tokens[0] == [sum(column) for column in zip(*tokens[1:], strict=True)]
    assert tokens[1] == [int(row["hit_tokens"]) for row in rows]
    assert f"{float(rows[1]['change_pp']):+.2f}" in lines[1]
    assert "points are against the baseline" in err


def test_all_routings_are_those_that_place_requests_themselves() -> None:
    """What the log placed is the baseline's affair."""
    assert read_grid(routing="all").routing == tuple(name for name in ROUTINGS if name != "as-logged")


ROUTED = "name = '{0}'\n[cache]\ncapacity = '20 blocks'\n[fleet]\nrouting = '{0}'\nreplicas = 2\n"


def test_routings_are_ranked_in_words_and_stand_in_the_report(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell of a router that draws carries its range; the table explains itself; a report of the same says the same."""
    asked = ["--capacity", "20", "--routing", "random,prefix-hash"]
    _, random, hashed = _cells(capsys, *asked)
    low, rate, high = (random["totals"][f"token_hit_rate{end}"] for end in ("_low", "", "_high"))
    assert random["totals"]["seeds"] == 5
    assert low <= rate <= high
    assert low < high
    assert hashed["totals"]["seeds"] == 1
    assert hashed["totals"]["token_hit_rate_low"] == hashed["totals"]["token_hit_rate"]
    monkeypatch.setenv("COLUMNS", "220")
    assert app.run(["whatif", *asked]) == 0
    out, err = capsys.readouterr()
    assert f"({low:.1%} … {high:.1%})" in out
    assert "random hits" in out
    # Which of the two wins turns on the keys, and those on the name of the log.
    why = f"than random, because it {'takes away' if hashed['totals']['token_hit_rate'] > rate else 'adds'}"
    assert why in out
    assert "! marks one that melts a replica" in err

    for routing in ("random", "prefix-hash"):
        (place / f"{routing}.toml").write_text(ROUTED.format(routing), encoding="utf-8")
    found = api.report(scenario=["random.toml", "prefix-hash.toml"], output=place / "out.html")
    twin = json.loads(found.json.read_text(encoding="utf-8"))
    for row, cell in zip(twin["routing"], (random, hashed), strict=True):
        assert row["hit_tokens"] == cell["totals"]["hit_tokens"]
        assert row["seeds"] == cell["totals"]["seeds"]
        assert row["imbalance_requests"] == pytest.approx(cell["totals"]["imbalance_requests"], rel=1e-5)
        assert row["busiest_prefill_tokens"] == cell["totals"]["busiest_prefill_tokens"]
        assert row["hit_tokens"] + sum(row["by_cause"].values()) == row["prompt_tokens"]
    assert twin["seeds"]["token_hit_rate_low"] == pytest.approx(low, rel=1e-5)
    assert any("over 5 seeds" in line for line in found.lines)
    assert any(why in text for text in twin["ranking"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing is to be changed"),
        (["--routing", "prefix-hsah"], "did you mean 'prefix-hash'?"),
        (["--capacity", "lots"], "'lots' is not a capacity"),
        (["--capacity", "0"], "holds no block"),
        (["--ttl", "5m,soon"], "'soon' is not a duration"),
        (["--replicas", "0"], "no number of replicas"),
        (["--replicas", "4"], "--replicas changes nothing"),
        (["--capacity", "12,,24"], "empty value"),
        (["--capacity", "60GiB"], "needs the shape of the model"),
        (["--ttl", "5m", "--csv", "--json"], "do not go together"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_tried_is_exit_2(
    arguments: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a hint, and nothing on stdout; the side folder is gone."""
    assert app.run(["whatif", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "hint: " in err
    assert not (place / ".prefixledger" / ".whatif").exists()


@pytest.mark.usefixtures("place")
def test_what_cannot_be_replayed_is_a_row_that_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """The others stand; its numbers are empty, in every form."""
    baseline, session, random = _cells(capsys, "--routing", "session,random", "--replicas", "2")
    assert session["problem"] == "pool 'engine': routing 'session' goes by session ids, and the log has none"
    assert (session["totals"], session["misses"], session["replicas"]) == ({}, {"by_cause": {}}, [])
    assert baseline["problem"] is random["problem"] is None
    assert random["totals"]["requests"] == GROUPS * ROUNDS
    assert app.run(["whatif", "--routing", "session,random", "--replicas", "2"]) == 0
    out, err = capsys.readouterr()
    assert "refused" in out
    assert "replicas 2: not replayed: pool 'engine': routing 'session' goes by session ids" in err
    assert app.run(["whatif", "--routing", "session,random", "--replicas", "2", "--csv", "-q"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [bool(row["problem"]) for row in rows] == [False, True, False]
    assert rows[1]["hit_tokens"] == ""


@pytest.mark.usefixtures("place")
def test_ctrl_c_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cells so far are printed, with a word on how many they are; exit code 130."""
    whole = _cells(capsys, "--capacity", "12,16,20,24", "--jobs", "1")

    tried = grid_run._try_cell

    def interrupted(ground: Any, one: Any) -> Any:
        done.append(one)
        if len(done) == 3:
            raise KeyboardInterrupt
        return tried(ground, one)

    done: list[Any] = []
    monkeypatch.setattr(grid_run, "_try_cell", interrupted)
    assert app.run(["whatif", "--capacity", "12,16,20,24", "--jobs", "1", "--json"]) == 130
    out, err = capsys.readouterr()
    printed = json.loads(out)
    cells = printed["cells"]
    assert printed.keys() == {"notes", "cells"}
    assert len(cells) == 3
    assert all(cell in whole for cell in cells)
    assert "cut short: 2 of 4 combinations were replayed" in err


def test_a_provider_keeps_its_own_rules(place: Path) -> None:
    """Its lifetime is one of those that are sold, and it has no capacity to choose."""
    (place / "hosted.toml").write_text(
        "[cache]\nprofile = 'anthropic'\nminimum_tokens = 16\n"
        "[pricing]\nrates = { base = 3.0, write = 1.25, read = 0.1, output = 15.0 }\n",
        encoding="utf-8",
    )
    five, hour = api.whatif(scenario="hosted.toml", ttl="1h").cells
    assert (five.axes["ttl"], hour.axes["ttl"]) == ("5m", "1h")
    with pytest.raises(UsageError, match="no ttl '2h'"):
        api.whatif(scenario="hosted.toml", ttl="1h,2h")
    with pytest.raises(UsageError, match="--capacity changes nothing"):
        api.whatif(scenario="hosted.toml", capacity="12")


def test_a_policy_that_is_not_reproduced_is_said_on_top(place: Path) -> None:
    """A service that says it read nothing at all is not the one that is replayed: the first note says so."""
    (place / "told.toml").write_text(MAP + 'cached_tokens_observed = "cached"\n', encoding="utf-8")
    rows = [json.loads(line) for line in (place / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    told = "".join(json.dumps({**row, "cached": 0}) + "\n" for row in rows)
    (place / "told.jsonl").write_text(told, encoding="utf-8")
    result = api.whatif(["told.jsonl"], map="told.toml", workspace="told", ttl="5m")
    assert "is not reproduced" in result.notes[0]
    assert not any("reproduced" in note for note in api.whatif(ttl="5m").notes)


@pytest.mark.usefixtures("place")
def test_a_page_shows_the_table_and_what_nothing_beats(capsys: pytest.CaptureFixture[str]) -> None:
    """One file without script or address, a CSV beside it with the rows of --csv; nothing of others is replaced."""
    asked = ["whatif", "--capacity", "12,16,20", "--routing", "random,session", "--replicas", "2"]
    assert app.run([*asked, "-o", "grid.html", "--figures", "drawn", "--csv", "-q"]) == 0
    drawn = [f"frontier-{n}.{kind}" for n in range(3) for kind in ("png", "svg")]
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["figures.json", *drawn]
    out = capsys.readouterr().out
    page, table = Path("grid.html").read_text(encoding="utf-8"), Path("grid.csv").read_text(encoding="utf-8")
    assert table == out
    assert page.count("<svg role") + page.count("<figure") >= 2
    assert "goes by session ids" in page
    assert "The baseline hits" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    before = page
    assert app.run([*asked, "-o", "grid.html", "-q"]) == 0
    assert Path("grid.html").read_text(encoding="utf-8") == before
    Path("other.html").write_text("mine", encoding="utf-8")
    assert app.run([*asked, "-o", "other.html"]) == 2
    assert "was not written by prefixledger" in capsys.readouterr().err
    assert Path("other.html").read_text(encoding="utf-8") == "mine"


def test_prices_and_residence_are_axes_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prices change no hit; a cell without one says so; amounts of two currencies stand beside each other."""
    own = "rates = { base = 3.0, write = 1.25, read = 0.1, output = 15.0, currency = 'EUR' }\n"
    (place / "priced.toml").write_text(f"[pricing]\n{own}", encoding="utf-8")
    asked = ["--scenario", "priced.toml", "--rates", "claude-sonnet-4-5,no-such", "--residence", "none"]
    baseline, claude, unknown = _cells(capsys, *asked)
    assert [cell["axes"]["rates"] for cell in (baseline, claude, unknown)] == [
        "3.0 EUR",
        "claude-sonnet-4-5",
        "no-such",
    ]
    assert claude["axes"]["residence"] == "none"
    assert claude["totals"]["hit_tokens"] == baseline["totals"]["hit_tokens"]
    assert (baseline["cost"]["currency"], claude["cost"]["currency"]) == ("EUR", "USD")
    assert claude["cost_interval"] is None
    assert "no rate for the model 'no-such'" in unknown["problem"]
    assert app.run(["whatif", *asked, "--csv", "-q"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(bool(row["actual_EUR"]), bool(row["actual_USD"])) for row in rows] == [
        (True, False), (False, True), (False, False)
    ]  # fmt: skip
    assert app.run(["whatif", *asked]) == 0
    assert "EUR" in capsys.readouterr().out


@pytest.mark.usefixtures("place")
def test_the_capacity_for_a_hit_rate_is_the_smallest_that_gives_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One block less hits less; what no capacity gives is refused, and so is one size for several routings."""
    _, found = _cells(capsys, "--capacity", "40%")
    blocks = int(found["axes"]["capacity"].split()[0])
    assert found["totals"]["token_hit_rate"] >= 0.4
    _, less = _cells(capsys, "--capacity", str(blocks - 1))
    assert less["totals"]["token_hit_rate"] < 0.4
    shape = '[[pool]]\nname = "a"\n[pool.model]\nlayers = 32\nkv_heads = 8\nhead_dim = 128\n'
    Path("shape.toml").write_text(shape, encoding="utf-8")
    assert app.run(["whatif", "--scenario", "shape.toml", "--capacity", "40%"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert (
        f"{blocks} blocks, {16 * blocks} tokens, {2 * blocks / 1024:.2f} GiB per replica on" in said
    )  # 2 MiB each
    for arguments, said in (
        (["--capacity", "99.9%"], "no capacity hits 99.9 %: without a limit"),
        (["--capacity", "lots%"], "is no hit rate"),
        (
            ["--capacity", "40%", "--ttl", "5m"],
            "target 40%, ttl 5m: no capacity hits 40 %: without a limit 0.0 %",
        ),
    ):
        assert app.run(["whatif", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_two_workspaces_are_compared_by_their_last_replays(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures are those of the replays; a workspace without one, or with one of another version, says what to do."""
    api.ingest(["log.jsonl"], map="map.toml", workspace="small")
    (place / "small.toml").write_text("[cache]\ncapacity = '12 blocks'\n", encoding="utf-8")
    before, after = (
        api.replay(workspace=name, scenario=files).replays[0]
        for name, files in ((".prefixledger", []), ("small", ["small.toml"]))
    )
    capsys.readouterr()
    assert app.run(["compare", ".prefixledger", "small", "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["change"] == pytest.approx(after.token_hit_rate - before.token_hit_rate, abs=1e-5)
    assert found["change"] < 0
    assert "The capacity differs: unlimited in the first, 12 blocks in the second." in found["notes"]
    (after.folder / "replicas.parquet").unlink()
    with pytest.raises(InputError, match="lacks some of its files"):
        api.compare(".prefixledger", "small")
    api.ingest(["log.jsonl"], map="map.toml", workspace="empty")
    with pytest.raises(UsageError, match="no replay"):
        api.compare(".prefixledger", "empty")
