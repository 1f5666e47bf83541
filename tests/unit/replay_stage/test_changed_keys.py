"""Planted changes are named with their place, innocent look-alikes are not: logs of text, of token ids, and of parts."""

from __future__ import annotations

import json
import random
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from prefixledger import attribute, replay
from prefixledger.attribute.cell import count, name_cells
from prefixledger.attribute.trial import open_trials
from prefixledger.config.scenario import parse_scenario
from prefixledger.workspace import Workspace
from prompt_logs import BLOCK, at, of, plain, replayed, talk, tools, words

if TYPE_CHECKING:
    from pathlib import Path


def agent(name: str) -> list[dict[str, Any]]:
    """Return an agent that takes turns with others in one session, and reads the file that they read."""
    rows = talk(name, plain, 4)
    for turn, row in enumerate(rows):
        late = timedelta(seconds=11 * len(name))
        row |= {"tenant": "agents", "session": "shared", "ts": (at(2 * turn) + late).isoformat()}
        if turn >= 2:
            row["body"]["messages"][3] = {"role": "tool", "content": words(900, "read by both")}
    return rows


def innocents() -> dict[str, list[dict[str, Any]]]:
    """Return conversations that look as if something were changed."""
    logs = {
        "clean": talk("clean", plain),
        "constant": talk("constant", lambda _turn, text: f"key 77aa12; {text}"),
        "kept": talk("kept", plain),
        "again": talk("again", plain, 7),
        "trailer": talk("trailer", plain),
        "agents": [*agent("first"), *agent("another")],
    }
    for row in logs["kept"]:
        for turn, message in enumerate(row["body"]["messages"]):
            message["content"] = f"[{at(turn):%H:%M:%S}] {message['content']}"
    for row in logs["again"]:  # a file that is read twice in one conversation
        for place in (3, 9):
            if place < len(row["body"]["messages"]):
                row["body"]["messages"][place] = {"role": "tool", "content": words(200, "file")}
    for row in logs["trailer"]:  # a reminder that ends every prompt and is kept in none
        row["body"]["messages"].append({"role": "user", "content": words(70, "reminder")})
    for number in range(6):
        row = talk("alone", plain, 1)[0]
        row["body"]["messages"] = [
            {"role": "user", "content": words(60, f"q{number}") + " Be brief, answer in JSON."}
        ]
        logs[f"alone{number}"] = [{**row, "session": f"alone{number}", "ts": at(number).isoformat()}]
    return logs


def planted() -> list[dict[str, Any]]:
    """Return one conversation for each kind of change, and for each innocent that looks like one."""
    cut = 900
    logs = {
        "clock": talk("clock", lambda turn, text: f"now {at(turn):%H:%M:%S}. {text}"),
        "date": talk("date", lambda turn, text: f"run {turn // 2} {text}"),
        "id": talk(
            "id", lambda turn, text: f"{text[:cut]} {random.Random(turn).getrandbits(96):024x} {text[cut:]}"
        ),
        "twice": talk(
            "twice",
            lambda turn, text: (
                f"now {at(turn):%H:%M:%S}. {text[:cut]} v{random.Random(turn).getrandbits(64):016x} {text[cut:]}"
            ),
        ),
        "mixed": talk("mixed", plain),
        "pruned": talk("pruned", plain, 8),
        "compacted": talk("compacted", plain, 9),
        "model": talk("model", plain),
        "salt": talk("salt", plain),
        "switched": [talk("switched", plain, 1, model="other")[0], *talk("switched", plain)],
        "rerun": [*talk("rerun", plain), *talk("rerun", lambda _turn, text: f"again: {text}")],
        **innocents(),
    }
    for turn, row in enumerate(logs["rerun"][5:]):
        row |= {"session": "second run", "ts": at(turn + 9).isoformat()}
    for turn, row in enumerate(logs["mixed"]):
        row["body"]["tools"] = random.Random(turn).sample(tools("mixed"), 3)
    for row in logs["pruned"][4:]:
        row["body"]["messages"][1] = {"role": "assistant", "content": "[removed]"}
    for row in logs["compacted"][7:]:
        row["body"]["messages"][:8] = [{"role": "user", "content": words(12, "summary")}]
    for row in logs["model"][3:]:
        row["model"] = "other"
    logs["switched"][0] |= {"session": "asked before", "ts": at(-9).isoformat()}
    for row in logs["switched"][4:]:
        row["model"] = "other"
        row["body"]["system"] = f"v2 {row['body']['system']}"
    for row in logs["salt"][1::2]:
        row["salt"] = "x"
    rows = [row for log in logs.values() for row in log]
    return [{"id": f"q{number}", **row} for number, row in enumerate(rows)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the planted conversations are replayed."""
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def misses(folder: Path) -> list[dict[str, Any]]:
    """Return the misses of all planted conversations, replayed as one log."""
    return replayed(folder, planted(), 'text = "body"')


@pytest.mark.parametrize(
    ("tenant", "detail", "varies", "part", "n_turns"),
    [
        ("clock", "prefix_edited", {"time of day"}, "system", 4),
        ("date", "prefix_edited", {"counter"}, "system", 2),
        ("id", "prefix_edited", {"random"}, "system", 4),
        ("twice", "prefix_edited", {"time of day", "random"}, "system", 4),
        ("mixed", "tools_reordered", {"reordering"}, "tools", None),
        ("pruned", "history_rewritten", {"free text"}, "message", 1),
        ("compacted", "compaction", {"free text"}, "message", 1),
        ("rerun", "prefix_edited", {"free text"}, "system", 5),
        ("model", "model_changed", {None}, None, 1),
        ("salt", "namespace_split", {None}, None, None),
    ],
)
def test_a_planted_change_is_named(
    misses: list[dict[str, Any]],
    tenant: str,
    detail: str,
    varies: set[str | None],
    part: str | None,
    n_turns: int | None,
) -> None:
    """By detail, by what varies, by its part; once for each turn that it broke."""
    found = of(misses, tenant)
    assert found
    assert {row["detail"] for row in found} == {detail}
    assert {row["varies"] for row in found} == varies
    assert {row["changed_part"] for row in found} == {part}
    if n_turns is not None:
        assert len({row["request_id"] for row in found}) == n_turns


def test_an_edit_beside_another_model_is_charged_with_what_that_model_had(
    misses: list[dict[str, Any]],
) -> None:
    """Of the first prompt that goes to it the system text was there, from another conversation; the turns before were not."""
    *_, first, second = sorted(
        of(misses, "switched"), key=lambda row: (row["request_id"], row["first_block"])
    )
    assert first["request_id"] == second["request_id"]
    assert (first["detail"], first["changed_part"], first["first_block"]) == ("prefix_edited", "system", 0)
    assert (second["detail"], second["first_block"]) == ("model_changed", first["n_blocks"])
    assert first["previous_request_id"] != second["previous_request_id"]
    assert first["tokens"] > second["tokens"] > 10 * BLOCK
    assert (first["changed_layer"], second["changed_layer"]) == (0, 1)


@pytest.mark.parametrize("tenant", ["clean", "constant", "kept", "alone", "again", "trailer", "agents"])
def test_an_innocent_is_not_accused(misses: list[dict[str, Any]], tenant: str) -> None:
    """New text at the tail, also where it was read before; constant suspects, stamps kept word for word, new sessions."""
    assert of(misses, tenant) == []


@pytest.mark.usefixtures("misses")
def test_a_suspect_that_never_changes_is_told_as_checked(folder: Path) -> None:
    """Of all that looks volatile in the system prompts one place stayed the same; stamps in messages are no part of it."""
    (file,) = (folder / "workspace" / "replays").glob("*/summary.json")
    told = (
        "checked, constant: 1 place in tools or system prompts looks like a random string, but it is the same in every "
        "prompt and broke nothing"
    )
    notes = json.loads(file.read_text(encoding="utf-8"))["notes"]
    assert [note for note in notes if note.startswith("checked")] == [told]


def test_a_change_says_where_it_is_and_what_it_cost(misses: list[dict[str, Any]]) -> None:
    """The clock stands behind 'now ', is two tokens long, and costs all of the system text behind it."""
    for row in of(misses, "clock"):
        assert row["changed_at_token"] <= 3
        assert row["changed_new_tokens"] <= 3
        assert row["first_block"] == 0
        assert row["previous_request_id"] is not None
        assert row["hit_with_stable_prefix"]


def test_layers_are_told_apart_each_with_what_it_frees(misses: list[dict[str, Any]]) -> None:
    """The second change is named behind the first, and is charged with what stands behind it alone."""
    by_request: dict[str, list[dict[str, Any]]] = {}
    for row in of(misses, "twice"):
        by_request.setdefault(row["request_id"], []).append(row)
    assert len(by_request) == 4
    for first, second in by_request.values():
        assert (first["changed_layer"], first["varies"]) == (0, "time of day")
        assert (second["changed_layer"], second["varies"]) == (1, "random")
        assert abs(first["tokens"] - 240) <= 2 * BLOCK
        assert second["first_block"] * BLOCK == first["tokens"]


@pytest.mark.parametrize("extra", [1, pytest.param(16, marks=pytest.mark.slow)])
def test_token_ids_are_known_again_wherever_they_are_shifted(tmp_path: Path, extra: int) -> None:
    """Other tokens on top, one or a whole block of them: the prompt behind is the same, and nothing else is."""
    draw = random.Random(3)
    prompt = [draw.randrange(50_000) for _ in range(800)]
    rows = []
    for number in range(6):
        top = [draw.randrange(50_000) for _ in range(extra)] if number >= 3 else []
        tail = [draw.randrange(50_000) for _ in range(80)]
        rows.append({
            "id": f"q{number}", "ts": at(number).isoformat(), "tenant": "t", "session": f"s{number}",
            "ids": [*top, *prompt, *tail],
        })  # fmt: skip
    found = replayed(tmp_path, rows, 'token_ids = "ids"')
    blamed = of(found, "t")
    assert sorted(row["request_id"] for row in blamed) == ["q3", "q4", "q5"]
    for row in blamed:
        assert (row["detail"], row["varies"], row["changed_part"]) == ("prefix_edited", None, None)
        assert abs(row["tokens"] - len(prompt)) <= 2 * BLOCK
        assert row["changed_at_token"] == 0


def test_parts_logged_by_digest_prove_a_change_in_front_of_them(tmp_path: Path) -> None:
    """Block ids alone prove nothing; with the parts of each prompt beside them they do."""
    rows = []
    for number in range(5):
        parts = [
            {"kind": "system", "text": f"It is {at(number):%H:%M:%S}", "tokens": 6},
            {"kind": "system", "digest": "abc", "tokens": 320},
            {"digest": f"q{number}", "tokens": 40},
        ]
        ids = [1_000 * number + block for block in range(22)]
        rows.append({
            "id": f"q{number}", "ts": at(number).isoformat(), "tenant": "t", "session": "s", "n": 366, "ids": ids,
            "parts": parts,
        })  # fmt: skip
    columns = 'block_ids = "ids"\nprompt_tokens = "n"'
    assert of(replayed(tmp_path, rows, columns), "t") == []
    (tmp_path / "more").mkdir()
    blamed = of(replayed(tmp_path / "more", rows, f'{columns}\nparts = "parts"'), "t")
    assert [(row["request_id"], row["tokens"], row["varies"]) for row in blamed] == [
        (f"q{number}", 320, "time of day") for number in range(1, 5)
    ]


def test_parts_that_stayed_under_other_keys_were_rendered_anew(tmp_path: Path) -> None:
    """An answer loses its empty tags once the next question comes: the log shows the same parts, and other blocks."""
    parts = [{"kind": "system", "digest": "s", "tokens": 320}]
    rows: list[dict[str, Any]] = []
    for number in range(4):
        parts = [*parts, {"digest": f"turn {number}", "tokens": 80}]
        n_tokens = sum(part["tokens"] for part in parts)
        old, new = list(range(20)), [1_000 * (number // 2) + block for block in range(20, n_tokens // BLOCK)]
        rows.append({
            "id": f"q{number}", "ts": at(number).isoformat(), "tenant": "t", "session": "s", "n": n_tokens,
            "ids": old + new, "parts": parts,
        })  # fmt: skip
    columns = 'block_ids = "ids"\nprompt_tokens = "n"\nparts = "parts"'
    blamed = of(replayed(tmp_path, rows, columns), "t")
    assert [(row["request_id"], row["detail"], row["first_block"], row["tokens"]) for row in blamed] == [
        ("q2", "template_changed", 20, 160)
    ]
    (tmp_path / "gaps").mkdir()
    for row in rows:  # what the parts leave out may have changed
        row["n"] += 160
        row["ids"] = row["ids"] + [row["ids"][-1] + 1 + block for block in range(10)]
    assert of(replayed(tmp_path / "gaps", rows, columns), "t") == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_proof_takes_from_cold_and_from_nothing_else(tmp_path: Path, seed: int) -> None:
    """Whatever is edited, moved, said twice, salted or sent to another model: to every request all other causes stay."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(60):
        stamp = draw.choice(["", "", f"now {at(number):%H:%M:%S}. "])
        pieces = [words(90, f"piece {draw.randrange(8)}") for _ in range(draw.randint(1, 6))]
        body = {"messages": [{"role": "user", "content": text} for text in pieces]}
        rows.append({
            "id": f"q{number}", "ts": at(number).isoformat(), "tenant": draw.choice("ab"), "model": draw.choice("mmn"),
            "session": f"s{draw.randrange(6)}", "salt": draw.choice([None, None, "x"]),
            "body": {"system": stamp + words(90, "piece 0"), **body},
        })  # fmt: skip
    proven = by_request(replayed(tmp_path, rows, 'text = "body"'))
    assert sum(causes.get("key_changed", 0) for causes in proven.values()) > 0
    workspace, scenario = Workspace(tmp_path / "workspace"), parse_scenario("")
    for contents in (workspace.contents, workspace.pieces):
        shutil.rmtree(contents, ignore_errors=True)
    replay.run(workspace, scenario)
    attribute.run(workspace, scenario.name)
    without = by_request(pq.read_table(workspace.replay(scenario.name) / "misses.parquet").to_pylist())
    assert proven.keys() == without.keys()
    for request, causes in without.items():
        found = proven[request]
        assert "key_changed" not in causes
        moved = found.pop("key_changed", 0)
        assert found.pop("cold", 0) + moved == causes.pop("cold", 0)
        assert found == causes


def by_request(misses: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return missed tokens by request and cause."""
    out: dict[str, dict[str, int]] = {}
    for row in misses:
        causes = out.setdefault(row["request_id"], {})
        causes[row["cause"]] = causes.get(row["cause"], 0) + row["tokens"]
    return out


def test_a_trial_in_memory_tells_the_same_changes(tmp_path: Path) -> None:
    """However much room there is and whoever is asked: misses by cause are those of a full replay."""
    rows = [*talk("clock", lambda turn, text: f"now {at(turn):%H:%M:%S}. {text}"), *talk("clean", plain)]
    replayed(tmp_path, [{**row, "id": f"q{number}"} for number, row in enumerate(rows)], 'text = "body"')
    workspace = Workspace(tmp_path / "workspace")
    for text in ("", "[cache]\ncapacity = '90 blocks'\n[fleet]\nrouting = 'random'\nreplicas = 2\n"):
        scenario = parse_scenario(text)
        trials = open_trials(workspace, scenario)
        tried = [trials.run(scenario) for _ in range(2)]  # the second takes what the first has kept
        replay.run(workspace, scenario)
        attribute.run(workspace, scenario.name)
        misses = pq.read_table(
            workspace.replay(scenario.name) / "misses.parquet", columns=["cause", "tokens"]
        )
        expected = {
            row["cause"]: row["tokens_sum"]
            for row in misses.group_by("cause").aggregate([("tokens", "sum")]).to_pylist()
        }
        assert expected["key_changed"] > 0
        for cell in name_cells([count(trial, {}, trials.loads(trial)) for trial in tried]):
            assert {cause: n for cause, n in cell.misses["by_cause"].items() if n} == expected
