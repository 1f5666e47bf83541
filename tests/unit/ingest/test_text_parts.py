"""The table of parts says what each prompt was made of, and holds no word of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from ingest_support import ingest, tree, write_lines
from prefixledger import schema_contents
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.text import write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ingest_support import Result

NOON_S = 1_795_953_600
MAP = (
    'format = "jsonl"\n[columns]\nstarted_at = { from = "ts", unit = "s" }\ntext = "body"\nprompt_tokens = "tokens"\n'
    'request_id = "id"\n'
)
SECRET = "the rain in Spain stays mainly in the plain"
TOOLS = [{"name": "ls", "input_schema": {"b": 1, "a": 2}}, {"name": "cat", "input_schema": {}}]


def read(folder: Path, bodies: list[Any], **options: Any) -> Result:
    """Ingest request bodies."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map.toml").write_text(MAP)
    rows = [
        {"ts": NOON_S + at, "id": f"q{at}", "tokens": 10_000, "body": body} for at, body in enumerate(bodies)
    ]
    return ingest(
        folder / "ws", write_lines(folder / "log.jsonl", rows), map_file=folder / "map.toml", **options
    )


def body(turns: int, tools: list[Any] = TOOLS, marked: int | None = None) -> dict[str, Any]:
    """Return a body of Anthropic's kind; one message may carry a cache mark."""
    messages = []
    for turn in range(turns):
        block: dict[str, Any] = {"type": "text", "text": f"{SECRET} {turn} " * 20}
        if turn == marked:
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
        messages.append({"role": ("user", "assistant")[turn % 2], "content": [block]})
    return {"model": "m", "system": "Be terse. " * 30, "tools": tools, "messages": messages}


def parts(result: Result) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    (path,) = (result.root / "parts").glob("*.parquet")
    return list(pq.ParquetFile(path).read().to_pylist())


def test_parts_stand_in_prompt_order_with_spans_that_meet(tmp_path: Path) -> None:
    """Tools, system, messages; each begins where the one before it ends, and equal parts have equal places."""
    result = read(tmp_path, [body(turns) for turns in (1, 3, 5)])
    rows = parts(result)
    by_line: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_line.setdefault(row["source_line"], []).append(row)
    assert [len(found) for found in by_line.values()] == [4, 6, 8]
    for found in by_line.values():
        assert [row["part"] for row in found] == list(range(len(found)))
        assert [row["kind"] for row in found[:4]] == ["tools", "tools", "system", "message"]
        assert found[0]["first_token"] == 0
        ends = [row["first_token"] + row["n_tokens"] for row in found]
        assert ends[:-1] == [row["first_token"] for row in found[1:]]
    short, long = by_line[1], by_line[3]
    names = ("role", "raw_hash", "canonical_hash", "n_bytes", "first_token", "n_tokens")
    assert [[row[name] for name in names] for row in short] == [
        [row[name] for name in names] for row in long[:4]
    ]
    roles = [None, None, "system", "user", "assistant", "user", "assistant", "user"]
    assert [row["role"] for row in long] == roles


def test_a_tool_with_its_keys_in_another_order_is_canonically_equal(tmp_path: Path) -> None:
    """The raw digest tells them apart as the keys do; the canonical one does not."""
    spelt = [dict(reversed(TOOLS[0].items())), TOOLS[1]]
    result = read(tmp_path, [body(1), body(1, spelt)])
    one, same, two, again = (row for row in parts(result) if row["kind"] == "tools")
    assert one["raw_hash"] != two["raw_hash"]
    assert one["canonical_hash"] == two["canonical_hash"]
    assert same["raw_hash"] == again["raw_hash"]
    assert result.labels(result.requests[0]) != result.labels(result.requests[1])


def test_a_moving_mark_is_in_the_table_and_not_in_the_keys(tmp_path: Path) -> None:
    """The same prompt with its cache mark elsewhere: other marks, the same digests, the same blocks."""
    result = read(tmp_path, [body(3, marked=0), body(3, marked=2)])
    rows = parts(result)
    marks = [(row["source_line"], row["part"], row["breakpoint"]) for row in rows if row["breakpoint"]]
    assert marks == [(1, 3, "ephemeral/1h"), (2, 5, "ephemeral/1h")]
    assert [row["raw_hash"] for row in rows[:6]] == [row["raw_hash"] for row in rows[6:]]
    assert result.labels(result.requests[0]) == result.labels(result.requests[1])


def test_text_is_kept_only_where_that_was_asked_for(tmp_path: Path) -> None:
    """No column of no file holds a prompt; with the option one file does, and no other."""
    plain = read(tmp_path / "plain", [body(3)])
    assert not (plain.root / "texts").exists()
    assert _holders(plain.root) == []
    kept = read(tmp_path / "kept", [body(3), body(3)], keep_text=True)
    (holder,) = _holders(kept.root)
    assert holder.parent.name == "texts"
    texts = {row["raw_hash"]: row["text"] for row in pq.ParquetFile(holder).read().to_pylist()}
    assert texts.keys() == {row["raw_hash"] for row in parts(kept)}
    assert schema_contents.TEXTS.names == ("raw_hash", "text")
    again = read(tmp_path / "kept2", [body(3), body(3)], keep_text=True)
    assert tree(again.root) == tree(kept.root)


def test_duplicates_and_rejects_have_no_parts(tmp_path: Path) -> None:
    """Only kept requests are in the table, and reading again replaces what was there."""
    (tmp_path / "map.toml").write_text(MAP)
    rows = [
        {"ts": NOON_S, "id": "a", "tokens": 500, "body": body(1)},
        {"ts": NOON_S + 1, "id": "a", "tokens": 500, "body": body(3)},
    ]
    log = write_lines(
        tmp_path / "log.jsonl", [*rows, {"ts": "soon", "id": "b", "tokens": 1, "body": body(2)}]
    )
    result = ingest(tmp_path / "ws", log, map_file=tmp_path / "map.toml")
    assert {row["source_line"] for row in parts(result)} == {1}
    before = tree(result.root / "parts")
    ingest(tmp_path / "ws", log, map_file=tmp_path / "map.toml", force=True, keep_text=True)
    assert tree(result.root / "parts") == before
    assert (result.root / "texts").is_dir()
    ingest(tmp_path / "ws", log, map_file=tmp_path / "map.toml", force=True)
    assert not list((result.root / "texts").glob("*"))


def test_large_tables_are_written_in_groups_of_whole_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded by the group; the rows are the same."""
    bodies = [body(turns) for turns in range(1, 9)]
    whole = parts(read(tmp_path / "a", bodies))
    monkeypatch.setattr(write, "GROUP_PARTS", 7)
    result = read(tmp_path / "b", bodies)
    (path,) = (result.root / "parts").glob("*.parquet")
    assert pq.ParquetFile(path).num_row_groups > 2
    assert parts(result) == whole


def test_parts_of_a_templated_prompt_have_no_spans(tmp_path: Path) -> None:
    """What a template made of them is not their sequence, so nothing is claimed."""
    (tmp_path / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    rows = parts(read(tmp_path, [body(3)], template=tmp_path / "chat.jinja"))
    assert len(rows) == 6
    assert {row["first_token"] for row in rows} == {row["n_tokens"] for row in rows} == {None}


def _holders(root: Path) -> list[Path]:
    """Return the files in which the secret can be read."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.suffix == ".parquet":
            text = str(pq.ParquetFile(path).read().to_pylist())
        else:
            text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        if SECRET[:12] in text:
            found.append(path)
    return found


def test_a_body_that_is_cached_as_a_whole_is_marked_at_its_end() -> None:
    """One mark on the body stands behind the last part, unless that has its own."""
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    whole = {"cache_control": {"type": "ephemeral", "ttl": "1h"}, "system": "s", "messages": [message]}
    assert [part.breakpoint for part in text_parts(whole)] == [None, "ephemeral/1h"]
    message["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert [part.breakpoint for part in text_parts(whole)] == [None, "ephemeral"]
