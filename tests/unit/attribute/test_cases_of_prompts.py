"""What people report of prompts whose beginning, tools or history changed, each as a small conversation: the right cause or none."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from prompt_logs import BLOCK, at, of, plain, replayed, talk, tools, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CUT = 900
COLUMNS = 'text = "body"\nnamespace = "account"\nprovider = "provider"\ncached_tokens_observed = "ct"'


def three_changes() -> list[dict[str, Any]]:
    """A clock on the first line, a memory block that differs between calls, and tools in order of relevance."""

    def system(turn: int, text: str) -> str:
        return f"now {at(turn):%H:%M:%S}. {text[:CUT]} memory: {words(12, f'm{turn}')} {text[CUT:]}"

    rows = talk("three", system)
    for turn, row in enumerate(rows):
        row["body"]["tools"] = random.Random(turn).sample(tools("three"), 3)
    return rows


def label_of_age() -> list[dict[str, Any]]:
    """A snapshot in the system text says how many minutes old it is."""
    return talk("age", lambda turn, text: f"{text[:CUT]} age {3 + turn}m {text[CUT:]}")


def compiled_each_turn() -> list[dict[str, Any]]:
    """The system text is compiled anew for every question; the calls within a turn share it."""
    rows = talk(
        "compiled", lambda turn, text: f"{text[:CUT]} {words(3, f'state {turn // 3}')} {text[CUT:]}", 9
    )
    for row in rows:
        for number, message in enumerate(row["body"]["messages"]):
            if message["role"] == "user" and (number // 2) % 3:
                message["role"] = "tool"
    return rows


def lane(name: str, *, stable_first: bool) -> list[dict[str, Any]]:
    """One-off prompts of one app over one provider's lane, the stable text first or behind what is new in each."""
    rows = []
    for turn in range(4):
        (row,) = talk("app", plain, 1)
        new, text = words(60, f"{name} ground {turn}"), f"lane {name} {row['body']['system']}"
        row["body"]["system"] = f"{text} {new}" if stable_first else f"{new} {text}"
        rows.append({**row, "tenant": name, "session": f"{name}{turn}", "ts": at(turn).isoformat()})
    return rows


def reconnects() -> list[dict[str, Any]]:
    """The tools of one server go to the end of the list when it reconnects, and come back to their place."""
    rows = talk("reconnect", plain, 6)
    for turn, row in enumerate(rows):
        sent = tools("reconnect")
        row["body"]["tools"] = sent[1:] + sent[:1] if turn in (2, 3) else sent
    return rows


def written_anew_on_the_way() -> list[dict[str, Any]]:
    """A gateway writes the body with its keys in another order, those of the tools too."""
    rows = talk("gateway", plain, 4)
    for turn, row in enumerate(rows):
        sent = [dict(reversed(each.items())) if turn % 2 else each for each in tools("gateway")]
        row["body"] = {"tools": sent, **row["body"]}
    return rows


def envelope_in_any_order() -> list[dict[str, Any]]:
    """Only the parts of the body stand in another order, which no prompt shows."""
    rows = talk("envelope", plain, 4)
    for row in rows[1::2]:
        row["body"] = dict(reversed(row["body"].items()))
    return rows


def a_plugin() -> list[dict[str, Any]]:
    """Behind tools that never change stands one whose text does."""
    rows = talk("plugin", plain, 4)
    for turn, row in enumerate(rows):
        last = {"name": "plug", "description": words(40, f"v{turn // 2}")}
        row["body"]["tools"] = [*tools("plugin"), *tools("core"), last]
    return rows


def thoughts_expire() -> list[dict[str, Any]]:
    """Answers carry thoughts that are dropped two turns later."""
    rows = talk("thoughts", plain, 6)
    for row in rows:
        messages = row["body"]["messages"]
        for number, message in enumerate(messages):
            if message["role"] == "assistant" and number >= len(messages) - 4:
                message["content"] = f"<think>{words(30, message['content'])}</think>{message['content']}"
    return rows


def effort() -> list[dict[str, Any]]:
    """A setting of the request is a line at the head of the prompt."""
    return talk("effort", lambda turn, text: f"Effort: {'high' if turn < 2 else 'max'}\n{text}")


def aged_in_place() -> list[dict[str, Any]]:
    """Two of nine transitions shorten an old result in the middle of the history."""
    rows = talk("aged", plain, 10)
    for turn, row in enumerate(rows):
        messages = row["body"]["messages"]
        for since, place in ((4, 3), (8, 9)):
            if turn >= since:
                messages[place]["content"] = "[result removed]"
    return rows


def one_floor() -> list[dict[str, Any]]:
    """Whatever stands behind the second message is injected anew every other turn."""
    rows = talk("floor", plain, 8)
    for turn, row in enumerate(rows):
        note = {"role": "user", "content": words(25, f"injected {turn // 2}")}
        if turn >= 2:
            row["body"]["messages"].insert(2, note)
    return rows


def a_block_leaves_its_message() -> list[dict[str, Any]]:
    """When a session is taken up again, a reminder leaves the first message for the newest one, and stays there."""
    said = words(70, "skills")
    rows = talk("resumed", plain, 6)
    for turn, row in enumerate(rows):
        message = row["body"]["messages"][6 if turn >= 3 else 0]
        message["content"] = f"{message['content']} {said}" if turn >= 3 else f"{said} {message['content']}"
    return rows


def two_accounts() -> list[dict[str, Any]]:
    """Keys of two accounts are used in turn; each has a cache of its own."""
    rows = talk("accounts", plain, 6)
    for turn, row in enumerate(rows):
        row["account"] = f"k{turn % 2}"
    return rows


def reported(
    name: str, cached: Callable[[int], int], system: Callable[[int, str], str] = plain
) -> list[dict[str, Any]]:
    """Return a conversation whose service reports what it read from its cache."""
    rows = talk(name, system, 4)
    for turn, row in enumerate(rows):
        row["ct"] = cached(turn)
    return rows


def marked(name: str, text: str) -> list[dict[str, Any]]:
    """Return a conversation whose system text is cached up to its mark, and that is asked of a service which reads marks."""
    rows = talk(name, plain, 4)
    for row in rows:
        block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        row["body"]["system"] = [block]
        row |= {"model": "claude-sonnet-4-5", "provider": "anthropic"}
    return rows


def edited_behind_the_mark() -> list[dict[str, Any]]:
    """The history is written anew in every turn, but nothing of it was to be cached."""
    rows = marked("behind", words(1_300, "behind"))
    for turn, row in enumerate(rows):
        for message in row["body"]["messages"][:-1]:
            message["content"] = f"edited {turn} {message['content']}"
    return rows


def one_marked_tool(name: str, place: int) -> list[dict[str, Any]]:
    """A tool that never changes stands before one whose text does, and the only mark is on one of them."""
    rows = marked(name, words(20, "one marked tool"))
    for turn, row in enumerate(rows):
        sent = [
            {"name": "core", "description": words(1_300, f"{name} core")},
            {"name": "plug", "description": words(60, f"v{turn // 2}")},
        ]
        sent[place]["cache_control"] = {"type": "ephemeral"}
        row["body"] = {"tools": sent, **row["body"], "system": words(20, "one marked tool")}
    return rows


def log() -> list[dict[str, Any]]:
    """Return all conversations as one log."""
    cases = [
        three_changes(), label_of_age(), compiled_each_turn(), lane("stable first", stable_first=True),
        lane("new first", stable_first=False), reconnects(), written_anew_on_the_way(), envelope_in_any_order(), a_plugin(),
        thoughts_expire(), effort(), aged_in_place(), one_floor(), a_block_leaves_its_message(), two_accounts(),
        edited_behind_the_mark(), one_marked_tool("last tool", 1), one_marked_tool("first tool", 0),
        reported("never cached", lambda _: 0, lambda _, text: f"header k=5f0c1c1e77 {text}"),
        reported("rendered", lambda turn: 16 if turn else 0), reported("cut otherwise", lambda turn: 400 if turn else 0),
    ]  # fmt: skip
    return [{**row, "id": f"{row['tenant']}/{turn}"} for rows in cases for turn, row in enumerate(rows)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the log is replayed."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def misses(folder: Path) -> list[dict[str, Any]]:
    """Return the misses of all conversations, replayed as one log."""
    return replayed(folder, log(), COLUMNS)


EDITED, REORDERED, REWRITTEN = "prefix_edited", "tools_reordered", "history_rewritten"


@pytest.mark.parametrize(
    ("tenant", "turns", "details", "varies"),
    [
        ("three", {1, 2, 3, 4}, {REORDERED, EDITED}, {"reordering", "time of day", "free text"}),
        ("age", {1, 2, 3, 4}, {EDITED}, {"counter"}),
        ("compiled", {3, 6}, {EDITED}, {"free text"}),
        ("new first", {0, 1, 2, 3}, {EDITED}, {"free text"}),
        ("reconnect", {2, 4}, {REORDERED}, {"reordering"}),
        ("gateway", {1, 2, 3}, {REORDERED}, {"reordering"}),
        ("plugin", {2}, {EDITED}, {"free text"}),
        ("thoughts", {3, 4, 5}, {REWRITTEN}, {"free text"}),
        ("effort", {2}, {EDITED}, {"free text"}),
        ("aged", {4, 8}, {REWRITTEN}, {"free text"}),
        ("floor", {4, 6}, {REWRITTEN}, {"free text"}),
        ("resumed", {3}, {REWRITTEN}, {"reordering"}),
        ("accounts", {1, 2, 3, 4, 5}, {"namespace_split"}, {None}),
        *((innocent, set(), set(), set()) for innocent in ("stable first", "envelope", "never cached", "rendered", "cut otherwise", "behind", "last tool", "first tool")),
    ],
)  # fmt: skip
def test_the_turns_that_broke_are_named_and_no_others(
    misses: list[dict[str, Any]], tenant: str, turns: set[int], details: set[str], varies: set[str | None]
) -> None:
    """By what was changed and what varies there; everything else was new, and nothing expired or was evicted."""
    found = of(misses, tenant)
    assert {int(row["request_id"].rpartition("/")[2]) for row in found} == turns
    assert {row["detail"] for row in found} == details
    assert {row["varies"] for row in found} == varies
    assert {row["cause"] for row in misses if row["tenant"] == tenant} <= {
        "key_changed",
        "cold",
        "uncacheable",
    }


def test_changes_behind_each_other_are_charged_in_turn(misses: list[dict[str, Any]]) -> None:
    """Tools, clock, memory: each with what stands between it and the next, and all of a prompt together."""
    layers = [row for row in of(misses, "three") if row["request_id"] == "three/1"]
    assert [(row["changed_layer"], row["changed_part"], row["varies"]) for row in layers] == [
        (0, "tools", "reordering"), (1, "system", "time of day"), (2, "system", "free text")
    ]  # fmt: skip
    ends = [(row["first_block"], row["first_block"] + row["n_blocks"]) for row in layers]
    assert [end for _, end in ends[:-1]] == [begin for begin, _ in ends[1:]]


def test_an_edit_of_a_word_costs_what_stands_behind_it(misses: list[dict[str, Any]]) -> None:
    """A label of one token loses hundreds, the tools before the one that changed are kept, and a floor is one place."""
    assert all(row["tokens"] > 500 * row["changed_new_tokens"] for row in of(misses, "age"))
    (plugin,) = of(misses, "plugin")
    assert plugin["first_block"] > 30
    assert plugin["changed_part"] == "tools"
    assert len({row["first_block"] for row in of(misses, "floor")}) == 1
    (moved,) = [row for row in of(misses, "resumed") if row["changed_layer"] == 1]
    assert abs(moved["tokens"] - 128) <= BLOCK


def test_a_mark_that_was_set_too_late_is_no_change_of_keys(misses: list[dict[str, Any]]) -> None:
    """The tool that stayed the same is lost with the one that changed, for want of a mark between them; with one it is kept."""
    for tenant, lost_tokens in (("last tool", range(2_000, 4_000)), ("first tool", range(600))):
        missed = [row for row in misses if row["request_id"] == f"{tenant}/2"]
        lost = [row["tokens"] for row in missed if row["detail"] == "no_breakpoint"]
        assert sum(lost) in lost_tokens
        assert sum(row["tokens"] for row in missed) < sum(lost) + 200


def test_what_a_service_does_not_read_of_equal_text_stays_unexplained(
    folder: Path, misses: list[dict[str, Any]]
) -> None:
    """A header that never changes is no cause, nor is what no log of messages shows: the template, and how text is cut."""
    assert misses
    (file,) = (folder / "workspace" / "replays").glob("*/lookups.parquet")
    found = pq.read_table(file, columns=["request_id", "unexplained_tokens"]).to_pylist()
    left = {row["request_id"]: row["unexplained_tokens"] for row in found}
    for tenant in ("never cached", "rendered", "cut otherwise"):
        assert all(left[f"{tenant}/{turn}"] > 100 for turn in (1, 2, 3))
