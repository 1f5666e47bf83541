"""The caller may know better: names of files, and models that go by several names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest_support import ingest, mooncake, write_lines
from prefixledger.errors import UsageError
from prefixledger.ingest.overrides import alias_of, compile_names, load_aliases, named_in

if TYPE_CHECKING:
    from pathlib import Path

NOON_S = 1_795_953_600
MAP = (
    'format = "jsonl"\n[columns]\nstarted_at = { from = "ts", unit = "s" }\nprompt_tokens = "n"\nmodel = "model"\n'
    'replica = "pod"\n'
)
ARN = "arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.anthropic.claude-sonnet-4-5"


def test_the_name_of_a_file_names_the_replica(tmp_path: Path) -> None:
    """Folder and file name are looked at; what they say is stronger than the log; a name that does not fit says nothing."""
    (tmp_path / "map.toml").write_text(MAP)
    for name in ("eu/host-a_0.log", "us/host-b_1.log", "us/readme.log"):
        write_lines(tmp_path / "logs" / name, [{"ts": NOON_S + len(name), "n": 9, "pod": name}])
    pattern = r"^(?P<tenant>\w+)/(?P<replica>.*_\d)\.log"
    result = ingest(tmp_path / "ws", tmp_path / "logs", map_file=tmp_path / "map.toml", from_name=pattern)
    found = [(row["tenant"], row["replica"]) for row in result.requests]
    assert found == [("eu", "host-a_0"), ("us", "host-b_1"), (None, "us/readme.log")]
    assert any("us/readme.log: its name does not fit" in text for text in result.summary.messages)


def test_one_group_without_a_name_is_the_replica(tmp_path: Path) -> None:
    """Also for formats that have no replica of their own."""
    log = write_lines(tmp_path / "pod7.jsonl", [mooncake(0, [1, 2])])
    result = ingest(tmp_path / "ws", log, block_size=16, from_name=r"(pod\d+)")
    assert result.requests[0]["replica"] == "pod7"


@pytest.mark.parametrize("pattern", ["(", r"(?P<pod>x)", "x", "(a)(b)"])
def test_a_pattern_that_means_nothing_is_refused(pattern: str) -> None:
    """Before any log is read."""
    with pytest.raises(UsageError, match="--from-name"):
        compile_names(pattern)


def test_a_group_that_did_not_take_part_says_nothing() -> None:
    """``(?P<tenant>…)?`` leaves the log's own word."""
    assert named_in("a/b", compile_names(r"(?P<tenant>z)?(?P<replica>b)")) == (("replica", "b"),)


def test_models_that_are_one_share_their_keys(tmp_path: Path) -> None:
    """An ARN, a deployment and a group become one name, and what was logged stays a label."""
    (tmp_path / "map.toml").write_text(MAP.replace('prompt_tokens = "n"', 'text = "prompt"'))
    (tmp_path / "models.toml").write_text(
        f'[models]\n"{ARN}" = "claude-sonnet-4-5"\n"prod-*" = "claude-sonnet-4-5"\n'
    )
    told: list[Any] = [ARN, "prod-chat", "other", None]
    rows = [{"ts": NOON_S + at, "prompt": "same text " * 40, "model": model} for at, model in enumerate(told)]
    log = write_lines(tmp_path / "log.jsonl", rows)
    result = ingest(tmp_path / "ws", log, map_file=tmp_path / "map.toml", models=tmp_path / "models.toml")
    assert [row["model"] for row in result.requests] == [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5",
        "other",
        None,
    ]
    assert result.requests[0]["source_node"] == result.requests[1]["source_node"]
    assert dict(result.requests[0]["labels"]) == {"logged_model": ARN}
    assert json.loads(result.requests[1]["namespace"])["model"] == "claude-sonnet-4-5"


def test_an_exact_name_goes_before_a_pattern(tmp_path: Path) -> None:
    """Then patterns in the order of the file; a file that is none is refused."""
    (tmp_path / "m.toml").write_text('"a*" = "one"\n"ab" = "two"\n"ab*" = "three"\n')
    aliases = load_aliases(tmp_path / "m.toml")
    assert [alias_of(name, aliases) for name in ("ab", "abc", "b")] == ["two", "one", "b"]
    (tmp_path / "m.toml").write_text('"a" = 3\n')
    with pytest.raises(UsageError, match="alias of 'a'"):
        load_aliases(tmp_path / "m.toml")
    (tmp_path / "m.toml").write_text("a b\n")
    with pytest.raises(UsageError, match="not TOML"):
        load_aliases(tmp_path / "m.toml")
