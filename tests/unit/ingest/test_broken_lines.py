"""Bad records are found again as rejects, each with its place and reason, and good ones among them survive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import closes, ingest, mooncake, write_lines
from prefixledger.engine.task import run_task
from prefixledger.errors import UsageError
from prefixledger.ingest import TooManyRejectsError
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.parse import parse_values
from prefixledger.ingest.pieces import parse_piece
from prefixledger.ingest.plan import FieldPlan, MapPlan
from prefixledger.ingest.reader import Context

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SECRET = "swordfish"


def _broken(**change: Any) -> dict[str, Any]:
    return {**mooncake(50, [1, 2]), **change}


def _raw(**change: str) -> bytes:
    """A record with some values written as raw JSON text."""
    values = {"timestamp": "50", "input_length": "32", "output_length": "5", "hash_ids": "[1,2]", **change}
    return ("{" + ",".join(f'"{name}":{text}' for name, text in values.items()) + "}").encode()


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in mooncake(50, [1, 2]).items() if key != name}


BROKEN: list[tuple[str, object]] = [
    ("broken JSON", f'{{"timestamp": 50, "text": "{SECRET}'),
    ("broken JSON", b'{"timestamp":50,"input_length":32,"output_length":5,"hash_ids":[1,2'),
    ("broken JSON", f"{SECRET} is no JSON at all"),
    ("broken JSON", b'{"timestamp":50} {"timestamp":51}'),
    ("broken JSON", b'{"timestamp":050,"input_length":32,"output_length":5,"hash_ids":[1,2]}'),
    (
        "broken JSON",
        b'{"timestamp":50,"input_length":32,"output_length":5,"hash_ids":[1,2],"text_input":"\\ud800"}',
    ),
    ("broken JSON", b"{'timestamp': 50}"),
    ("wrong type", b"[1,2,3]"),
    ("wrong type", b'"text"'),
    ("wrong type", b"17"),
    ("wrong type", b"null"),
    ("wrong type", _broken(input_length="32")),
    ("wrong type", _broken(input_length=32.5)),
    ("wrong type", _broken(input_length=True)),
    ("wrong type", _broken(timestamp="yesterday")),
    ("wrong type", _broken(hash_ids="1,2")),
    ("wrong type", _broken(hash_ids={"1": 2})),
    ("wrong type", _broken(hash_ids=[1, "2"])),
    ("wrong type", _broken(hash_ids=[1, True])),
    ("wrong type", _broken(hash_ids=[1, None])),
    ("wrong type", _broken(hash_ids=[1, [2]])),
    ("wrong type", _broken(hash_ids=[1.5, 2])),
    ("missing field", _without("timestamp")),
    ("missing field", _without("input_length")),
    ("null field", _broken(timestamp=None)),
    ("null field", _broken(input_length=None)),
    ("negative number", _broken(input_length=-1)),
    ("negative number", _broken(output_length=-5)),
    ("negative time", _broken(timestamp=-50)),
    ("absurd number", _broken(input_length=100_000_001)),
    ("absurd number", _raw(output_length="1e30")),
    ("time out of range", _broken(timestamp=10**18)),
    ("mixed time units", _broken(timestamp=1_795_946_400_000)),
    ("not a finite number", _raw(timestamp="NaN")),
    ("not a finite number", _raw(input_length="Infinity")),
    ("not a finite number", _raw(timestamp="-Infinity")),
    ("not a finite number", _raw(timestamp="1e999")),
    ("NUL byte", b'{"timestamp":50,\x00"input_length":32,"output_length":5,"hash_ids":[1,2]}'),
    ("NUL byte", b"\x00" * 40),
    (
        "bad UTF-8",
        b'{"timestamp":50,"input_length":32,"output_length":5,"hash_ids":[1,2],"text_input":"\xff\xfe"}',
    ),
    ("u64 out of range", _broken(hash_ids=[1, 1 << 64])),
    ("u64 out of range", _broken(hash_ids=[-1, 2])),
    ("nested too deeply", b'{"timestamp":50,"x":' + b"[" * 3_000 + b"]" * 3_000 + b"}"),
    ("block count", _broken(hash_ids=[1, 2, 3, 4])),
    ("block count", _broken(hash_ids=[1])),
    ("text too long", _broken(session_id="s" * 1_001)),
]
"""Reason and line of every kind of fault."""
GOOD = [mooncake(at, [100, 101, at]) for at in range(200, 320)]


def _log(folder: Path) -> Path:
    """Spread the broken lines between good ones."""
    rows: list[object] = list(GOOD)
    for position, (_, line) in enumerate(BROKEN):
        rows.insert(2 * position + 3, line)
    return write_lines(folder / "log_blksz_16.jsonl", rows)


def test_every_record_is_found_again(tmp_path: Path) -> None:
    """Good lines are requests, bad ones are rejects with the right line, offset and reason, and nothing else exists."""
    path = _log(tmp_path)
    result = ingest(tmp_path / "ws", path)
    lines = path.read_bytes().split(b"\n")[:-1]
    kept = [row["source_line"] for row in result.requests]
    rejected = {row["line"]: row for row in result.rejects}

    assert result.too_many
    assert sorted([*kept, *rejected]) == list(range(1, len(lines) + 1))
    assert len(kept) == len(GOOD)
    assert closes(result.summary)
    account = result.account
    assert (account.records, account.kept, account.rejected) == (len(lines), len(GOOD), len(BROKEN))
    for position, (reason, _) in enumerate(BROKEN):
        line = 2 * position + 4
        found = rejected[line]
        assert found["reason"].partition(":")[0] == reason, (line, found)
        assert found["record"] == line
        assert found["byte_offset"] == sum(len(text) + 1 for text in lines[: line - 1])
        assert found["source_file"] == path.name
    assert sum(account.reasons.values()) == len(BROKEN)


def test_too_many_rejects_end_with_exit_code_3(tmp_path: Path) -> None:
    """The error comes after everything was written, has exit code 3 and names the most frequent reasons."""
    with pytest.raises(TooManyRejectsError, match=r"46 of 166 records were rejected, more than 10") as caught:
        _run(tmp_path)
    assert caught.value.exit_code == 3
    assert "wrong type (" in str(caught.value.hint)
    assert (tmp_path / "ws" / "manifest.json").is_file()


def test_the_limit_is_a_choice(tmp_path: Path) -> None:
    """A number or a share above the rejects lets the call pass."""
    path = _log(tmp_path)
    assert not ingest(tmp_path / "a", path, max_rejects=len(BROKEN)).too_many
    assert not ingest(tmp_path / "b", path, max_rejects="30%").too_many
    assert ingest(tmp_path / "c", path, max_rejects=len(BROKEN) - 1).too_many
    assert ingest(tmp_path / "d", path, max_rejects="5%").too_many


def test_excerpts_are_short_and_hold_no_text(tmp_path: Path) -> None:
    """No reject shows a word of a prompt, and none is longer than 120 characters."""
    result = ingest(tmp_path / "ws", _log(tmp_path))
    for row in result.rejects:
        assert len(row["excerpt"]) <= 120
        assert SECRET not in json.dumps(row)


def test_a_last_line_without_end_is_truncated(tmp_path: Path) -> None:
    """A live file is read to its last whole record; the rest is one reject and the account says where."""
    path = write_lines(tmp_path / "live_blksz_16.jsonl", GOOD)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"timestamp":900,"input_le')
    result = ingest(tmp_path / "ws", path)
    assert [row["reason"] for row in result.rejects] == ["truncated last line"]
    assert result.account.truncated_at == len(whole)
    assert result.account.kept == len(GOOD)
    assert not result.too_many
    assert any("no end" in message for message in result.summary.messages)


def test_harmless_oddities_are_no_faults(tmp_path: Path) -> None:
    """A byte order mark, CRLF, blank lines, separators inside strings and a missing last line end are all fine."""
    odd = {**mooncake(1, [1, 2]), "text_input": "a\u2028b\u2029c\u0085d"}
    lines = [
        json.dumps(odd, ensure_ascii=False).encode(),
        b"",
        b"  ",
        json.dumps(mooncake(2, [1, 3])).encode(),
    ]
    path = tmp_path / "odd_blksz_16.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    result = ingest(tmp_path / "ws", path)
    assert [row["source_line"] for row in result.requests] == [1, 4]
    assert result.rejects == []
    assert result.account.records == 2


def test_an_endless_line_is_rejected_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record above the cap is one reject with its place, and the next line is read as if nothing had been."""
    monkeypatch.setattr("prefixledger.ingest.chunks.MAX_RECORD_BYTES", 1_000)
    huge = mooncake(2, range(500))
    path = write_lines(tmp_path / "huge_blksz_16.jsonl", [mooncake(1, [1]), huge, mooncake(3, [1])])
    result = ingest(tmp_path / "ws", path, chunk_bytes=100)
    assert [row["source_line"] for row in result.requests] == [1, 3]
    (reject,) = result.rejects
    assert reject["reason"].startswith("oversize record")
    assert (reject["record"], reject["line"]) == (2, 2)
    assert reject["byte_offset"] == len(path.read_bytes().split(b"\n")[0]) + 1


def test_a_log_of_nothing_but_faults_is_refused(tmp_path: Path) -> None:
    """Even below the limit, an input that leaves no row does not pass."""
    path = write_lines(tmp_path / "bad_blksz_16.jsonl", [_broken(input_length=-1)] * 3)
    result = ingest(tmp_path / "ws", path)
    assert result.too_many
    assert len(result.rejects) == 3


def _run(tmp_path: Path) -> None:
    from prefixledger.ingest import run
    from prefixledger.workspace import Workspace

    run([str(_log(tmp_path))], Workspace(tmp_path / "ws"))


@pytest.mark.parametrize("keeps", [(), (9,), range(20, 29)], ids=["none", "one", "some"])
def test_lines_that_a_collector_cut_off_are_one_reject_each(tmp_path: Path, keeps: Iterable[int]) -> None:
    """A log of lines without their ends is no JSON over many lines, however many of them there are."""
    lines = [json.dumps(mooncake(at, [1, at])).encode() for at in range(50)]
    path = write_lines(
        tmp_path / "cut_blksz_16.jsonl",
        [line if at in keeps else line[: -1 - at % 9] for at, line in enumerate(lines)],
    )
    result = ingest(tmp_path / "ws", path, format="mooncake")
    assert [row["source_line"] for row in result.requests] == [at + 1 for at in keeps]
    assert [row["line"] for row in result.rejects] == [at + 1 for at in range(50) if at not in keeps]
    assert {row["reason"].partition(":")[0] for row in result.rejects} == {"broken JSON"}
    assert result.account.records == 50


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1,\n"b": [\n{"c": 1},\n{"c": 2},\n{"c":',
        b'{\n  "a": {\n    "b": 1\n  },\n  "c": [1,',
        b'{"a": 1',
    ],
)
def test_a_value_over_many_lines_that_lost_its_end_is_one_reject(tmp_path: Path, text: bytes) -> None:
    """Its lines are no records: most go on in the next."""
    (tmp_path / "cut.json").write_bytes(text)
    result = ingest(tmp_path / "ws", tmp_path / "cut.json", format="mooncake")
    assert (len(result.rejects), result.account.records) == (1, 1)


def _indented(rows: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(row, indent=1) for row in rows]


def test_values_over_many_lines_behind_a_broken_one_are_read(tmp_path: Path) -> None:
    """Objects that follow each other are records of their own: one that is broken takes no other with it."""
    texts = _indented([mooncake(at, [1, at]) for at in range(5)])
    texts[1] = texts[1].replace(": 1,", ": ,", 1)
    texts[3] = texts[3][:-2]
    path = tmp_path / "pretty_blksz_16.json"
    path.write_text("\n".join(texts) + "\n")
    result = ingest(tmp_path / "ws", path)
    assert (result.account.records, result.account.kept) == (5, 3)
    begins = [1 + sum(text.count("\n") + 1 for text in texts[:at]) for at in (1, 3)]
    assert [(row["line"], row["reason"].partition(":")[0]) for row in result.rejects] == [
        (line, "broken JSON") for line in begins
    ]
    data = path.read_bytes()
    assert [data[row["byte_offset"] :].startswith(b"{") for row in result.rejects] == [True, True]


@pytest.mark.parametrize("lost", [1, 2, 3, 40])
def test_a_list_that_lost_its_end_is_read_to_its_last_whole_element(tmp_path: Path, lost: int) -> None:
    """The rest is one reject, and the account says where the input was cut off."""
    text = "[\n" + ",\n".join(_indented([mooncake(at, [1, at]) for at in range(5)])) + "\n]"
    path = tmp_path / "list_blksz_16.json"
    path.write_text(text[:-lost])
    result = ingest(tmp_path / "ws", path)
    whole = 4 if lost > 2 else 5
    assert (result.account.kept, len(result.rejects), result.account.records) == (whole, 1, whole + 1)
    assert [row["reason"] for row in result.rejects] == ["truncated last line"]
    assert result.account.truncated_at == result.rejects[0]["byte_offset"]


def test_a_line_that_finds_no_memory_is_not_broken() -> None:
    """The parser wants 12 bytes for each of a line and tells a lack like a line that is no JSON: the task ends, no record is lost."""
    line = b'{"timestamp":1,"input_length":9,"output_length":1,"hash_ids":[1],"more":"%b"}' % (
        b"x" * 9_000_000
    )
    context = Context("mooncake", "a.jsonl", "json", fallback_block_size=16)
    kept = run_task(parse_piece, context, Chunk(line, 1, 0), memory_bytes=512 << 20).result
    assert [len(batch.rows) for batch in kept] == [1]
    with pytest.raises(UsageError, match="needs more than the 64 MiB"):
        run_task(parse_piece, context, Chunk(line, 1, 0), memory_bytes=64 << 20)
    plan = MapPlan((("started_at", FieldPlan("t", ("t",), "ms")),), (), (), "text", FieldPlan("p", ("p",)))
    cells = Context("mapped", "a.parquet", "table", plan=plan)
    prompt = '[{"role":"user","content":"%s"}]' % ("x" * 9_000_000)
    with pytest.raises(UsageError, match="needs more than the 64 MiB"):  # not one message of plain text
        run_task(
            lambda *_: parse_values([(1, {"t": 1, "p": prompt})], cells), None, None, memory_bytes=64 << 20
        )
