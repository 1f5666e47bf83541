"""Nothing that a log says in confidence is in the workspace or the report: prompts, answers, arguments, users, keys."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, ingest, mooncake, write_lines
from prefixledger import api
from prefixledger.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

TEXT, USER, KEY = "zqxtext", "zqxuser", "zqxkey"
PLANTED = (TEXT, USER, KEY)
JSON_LOGS = (
    "api_exchange.jsonl", "api_batch.jsonl", "azure_openai.jsonl", "bedrock.jsonl", "claude_code.jsonl", "codex.jsonl",
    "envoy.jsonl", "helicone.jsonl", "langfuse.jsonl", "litellm.jsonl", "litellm_spend.jsonl", "lmcache.jsonl",
    "openinference.jsonl", "otel_genai.jsonl", "vertex.jsonl",
)  # fmt: skip
TEXT_LOGS = ("sglang_text.log", "vllm_text.log")
USERS = re.compile(
    r"(?i)(end_?)?user(_?id|_?name)?|enduser\.id|user\.id|x-user-id|request_user_id|email|safety_identifier"
)
KEYS = re.compile(r"(?i)(x-)?api[-_]?key(_hash)?|(proxy-)?authorization|cookie|key_hash|secret|token")
HELD_TEXTS = frozenset(
    {"content", "text", "prompt", "input", "output", "arguments", "query", "thinking", "completion"}
)


def _planted(value: Any, key: str = "") -> Any:
    """Put a mark into every text, user id and secret of a record, also inside JSON that is kept as text."""
    if isinstance(value, dict):
        return {name: _planted(held, name) for name, held in value.items()}
    if isinstance(value, list):
        return [_planted(held, key) for held in value]
    if not isinstance(value, str):
        return value
    if value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.dumps(_planted(json.loads(value), key))
    is_text = key in HELD_TEXTS or (value.count(" ") > 2 and not re.match(r"\d{4}-\d\d-\d\d", value))
    mark = USER if USERS.fullmatch(key) else KEY if KEYS.fullmatch(key) else TEXT if is_text else ""
    return f"{mark}{' ' if mark == TEXT else '-'}{value}" if mark else value


def _logs(folder: Path) -> list[Path]:
    folder.mkdir()
    for name in JSON_LOGS:
        lines = (FIXTURES / name).read_text(encoding="utf-8").splitlines()
        planted = [json.dumps(_planted(json.loads(line))) for line in lines]
        broken = [
            planted[0][: len(planted[0]) * 2 // 3],
            planted[-1].replace(":", "", 1),
            f'{{"prompt": "{TEXT}',
        ]
        (folder / name).write_text("\n".join([*planted, *broken]) + "\n", encoding="utf-8")
    for name in TEXT_LOGS:
        text = (FIXTURES / name).read_text(encoding="utf-8")
        text = re.sub(r"(prompt: ['\"]|text=['\"])", rf"\g<1>{TEXT} ", text)
        (folder / name).write_text(text, encoding="utf-8")
    paths = [folder / name for name in (*JSON_LOGS, *TEXT_LOGS)]
    held = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert all(held.count(mark) > 5 for mark in PLANTED)
    return paths


def _found(path: Path, marks: tuple[str, ...]) -> list[str]:
    """Return what of the marks is in a file: in its bytes, and in every value and name of a Parquet file."""
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".parquet":
        table = pq.ParquetFile(path).read()
        text += repr(table.schema.metadata) + "".join(repr(column.to_pylist()) for column in table.columns)
    text += path.name
    return [
        f"{path.name}: …{text[max(at - 60, 0) : at + 40]}…" for mark in marks if (at := text.find(mark)) >= 0
    ]


def _run(verb: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[Path]:
    """Run a verb over planted logs, look through what it says, and return what it wrote."""
    logs = _logs(folder / "logs")
    status = run([verb, *map(str, logs), "--workspace", str(folder / "out" / "ws"), "--max-rejects", "90%", "--jobs",
                  "1", "-v", *more])  # fmt: skip
    said = capsys.readouterr()
    assert status == 0, said.err
    assert not [mark for mark in PLANTED if mark in said.out + said.err]
    return [path for path in (folder / "out").rglob("*") if path.is_file() and path.name != "run.json"]


def test_planted_secrets_are_not_in_the_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, labels, rejects with their excerpts, parts of prompts, and what the terminal says."""
    files = _run("ingest", tmp_path, capsys)
    assert len(files) > 40
    assert [place for path in files for place in _found(path, PLANTED)] == []


@pytest.mark.slow
def test_planted_secrets_are_in_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor in the index, the replay, the marts, the page, its twin and the tables."""
    files = _run("report", tmp_path, capsys, "-o", str(tmp_path / "out" / "week.html"))
    assert len(files) > 100
    assert [place for path in files for place in _found(path, PLANTED)] == []


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("user", True), ("userId", True), ("account_email", True), ("x-api-key", True), ("client_ip", True),
     ("db_password", True), ("user_tier", False), ("region", False), ("tokens_kind", False)],
)  # fmt: skip
def test_labels_that_name_people_or_open_doors_are_hashed(name: str, hidden: bool, tmp_path: Path) -> None:
    """Other fields of the envelope are what findings are split by, and stay as they are."""
    rows = [mooncake(at, [1, at], **{name: f"{USER}{at % 3}"}) for at in range(30)]
    result = ingest(tmp_path / "ws", write_lines(tmp_path / "log_blksz_16.jsonl", rows))
    values = {dict(row["labels"])[name] for row in result.requests}
    assert len(values) == 3
    assert all(value.startswith(USER) != hidden for value in values)


def test_texts_are_kept_only_when_asked_for(tmp_path: Path) -> None:
    """And then in one folder, which can be deleted alone; users and keys are kept in no case."""
    log = next(path for path in _logs(tmp_path / "logs") if path.name == "litellm.jsonl")
    api.ingest([log], workspace=tmp_path / "ws", keep_text=True, max_rejects="90%", jobs=1)
    files = [path for path in (tmp_path / "ws").rglob("*") if path.is_file()]
    holders = {path.parent.name for path in files if _found(path, (TEXT,))}
    assert holders == {"texts"}
    assert [place for path in files for place in _found(path, (USER, KEY))] == []
