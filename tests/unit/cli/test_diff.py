"""``diff`` finds where two prompts part, and shows no text unless it is asked for and kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api
from prefixledger.cli import app
from prefixledger.errors import UsageError
from replayed import booked

if TYPE_CHECKING:
    from pathlib import Path

MAP = """
format = "jsonl"
block_size = 16
[columns]
request_id = "id"
started_at = { from = "at", unit = "iso" }
text = "body"
cache_salt = "salt"
"""
SYLLABLES = ("ka", "lo", "mi", "ter", "vas", "ne", "rup", "sol")
LONG = " ".join("word" + SYLLABLES[n * 7919 % 1009 % 8] + SYLLABLES[n * 31 % 97 % 8] for n in range(150))
QUESTION = {"role": "user", "content": "What is on the secret menu of the ferry today?"}


def _call(
    name: str, minute: int, system: str, *more: dict[str, Any], salt: str | None = None, **body: Any
) -> str:
    body["messages"] = [{"role": "system", "content": system}, QUESTION, *more]
    return json.dumps({"id": name, "at": f"2026-11-24T10:{minute:02d}:00Z", "body": body, "salt": salt})


def _blocks(name: str, minute: int, *texts: str) -> str:
    """Return a call of two tools and two messages, the second of several content blocks."""
    tools = [{"name": "ls", "text": texts[0]}, {"name": "cat", "text": LONG[:300]}]
    content = [{"type": "text", "text": f"{text} {LONG[:200]}"} for text in texts[1:]]
    return _call(name, minute, LONG[:100], {"role": "user", "content": content}, tools=tools)


LINES = [
    _call("one", 0, f"It is 10:00.\n{LONG}"),
    _call("two", 1, f"It is 10:01.\n{LONG}"),
    _call("more", 2, f"It is 10:00.\n{LONG}", {"role": "assistant", "content": "Soup."}),
    _call("salted", 3, f"It is 10:00.\n{LONG}", salt="s"),
    _blocks("blocks", 4, LONG[:300], "a", "b", "c"),
    _blocks("block", 5, LONG[:300], "a", "B", "c"),
    _blocks("tool", 6, LONG[1:300], "a", "b", "c"),
]


def _workspace(folder: Path, *, keep_text: bool) -> Path:
    (folder / "log.jsonl").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "map.toml").write_text(MAP, encoding="utf-8")
    place = folder / f"ws-{keep_text}"
    api.replay([folder / "log.jsonl"], workspace=place, map=folder / "map.toml", keep_text=keep_text, jobs=1)
    return place


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay four prompts and keep their text."""
    return _workspace(tmp_path_factory.mktemp("kept"), keep_text=True)


def test_a_clock_on_top_costs_what_stands_behind_it(kept: Path) -> None:
    """The last digit of the minute differs, byte 10; nearly all tokens behind it are the first prompt's, too."""
    found = api.diff("one", "two", workspace=kept, show_text=True)
    assert (found.relation, found.segment, found.equal_bytes, found.within_bytes) == (
        "diverges",
        "system",
        10,
        1,
    )
    assert found.equal_tokens <= 10 < found.equal_tokens + 4 * found.within_tokens
    assert found.shared_blocks == 0
    assert found.lost_tokens is not None
    assert 0.7 * found.second_tokens < found.lost_tokens <= found.behind_tokens
    assert found.first_text is not None
    assert found.first_text.startswith("It is 10:00.")


def test_new_text_at_the_tail_breaks_nothing(kept: Path) -> None:
    """A prompt that goes on where another ends does not diverge from it."""
    found = api.diff("one", "more", workspace=kept)
    assert (found.relation, found.lost_tokens, found.within_tokens) == ("continues", 0, 0)
    assert "breaks nothing" in found.closing
    assert api.diff("more", "one", workspace=kept).relation == "begins"


def test_messages_are_counted_as_they_were_sent(kept: Path) -> None:
    """The place is a message and, of several content blocks in it, which; of tools which one."""
    assert api.diff("blocks", "block", workspace=kept).segment == "message 2, content block 2"
    assert api.diff("blocks", "tool", workspace=kept).segment == "tool 1"


def test_a_salt_parts_keys_but_not_contents(kept: Path) -> None:
    """Equal content has other keys in another namespace, and the field is named."""
    found = api.diff("one", "salted", workspace=kept)
    assert (found.relation, found.namespace_fields, found.shared_blocks) == ("equal", ("cache_salt",), 0)


def test_text_is_neither_shown_unasked_nor_made_up(
    tmp_path: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No word of a prompt is printed without --show-text; without kept text it is refused."""
    assert app.run(["diff", "one", "two", "--workspace", str(kept)]) == 0
    assert app.run(["diff", "one", "two", "--workspace", str(kept), "--json"]) == 0
    shown = capsys.readouterr().out
    assert "word" not in shown
    assert "10:0" not in shown
    bare = _workspace(tmp_path, keep_text=False)
    found = api.diff("one", "two", workspace=bare)
    assert (found.equal_bytes, found.within_bytes) == (0, len(f"It is 10:00.\n{LONG}"))
    assert api.diff("one", "more", workspace=bare).within_bytes == 0
    with pytest.raises(UsageError, match="keeps no text"):
        api.diff("one", "two", workspace=bare, show_text=True)


def test_block_ids_tell_the_block_and_no_more(tmp_path: Path) -> None:
    """Two prompts share two blocks of 16; what of the rest is equal cannot be told."""
    rows = [
        {"at_us": n, "request_id": name, "ids": ids, "prompt_tokens": 52, "replica": "a"}
        for n, (name, ids) in enumerate({"one": (1, 2, 3), "two": (1, 2, 4)}.items())
    ]
    workspace = booked(tmp_path / "ws", rows, 16, "").root
    found = api.diff("one", "two", workspace=workspace)
    assert (found.basis, found.equal_tokens, found.within_tokens, found.lost_tokens) == (
        "blocks",
        32,
        16,
        None,
    )
    with pytest.raises(UsageError, match="there is no request 'six'"):
        api.diff("one", "six", workspace=workspace)
