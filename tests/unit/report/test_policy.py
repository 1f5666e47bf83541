"""Whether a replay reproduces what was billed: errors by model and day, requests that disagree, and what a what-if says on top."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from prefixledger import attribute, replay
from prefixledger.attribute.policy import MOST_ERROR, PolicyError, doubts, policy_error
from prefixledger.attribute.trial import open_trials
from prefixledger.attribute.window import Window
from prefixledger.config.scenario import default_scenario
from prefixledger.report.policy_parts import policy, policy_value
from prefixledger.report.render import html
from prefixledger.report.twin import twin
from prefixledger.resources import read_text
from report_data import week
from stage_support import MINUTE, write_workspace

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads(read_text("reports", "schema/report.schema.json"))
PROMPT = list(range(10))
SONNET = {"provider": "anthropic", "model": "claude-sonnet-4-5", "block_size": 128}


def billed(n: int, read: int, written: int) -> dict[str, Any]:
    """Return the nth request of one prompt of ten blocks, with what the service read and wrote."""
    return {
        "at_us": n * MINUTE, "ids": PROMPT, "prompt_tokens": 1300, "usage_state": "present", "cached_tokens_observed": read,
        "cache_write_5m_tokens_observed": written, "cache_write_1h_tokens_observed": 0, **SONNET,
    }  # fmt: skip


def replayed(folder: Path, rows: list[dict[str, Any]]) -> tuple[Any, tuple[str, ...]]:
    """Return what the report says of the policy, and what a what-if would say on top."""
    workspace = write_workspace(folder, rows)
    found = replay.run(workspace)
    attribute.run(workspace, found.name)
    marts = attribute.marts(workspace, found.name, Window(0, rows[-1]["at_us"] + 1))
    trials = open_trials(workspace, default_scenario())
    trial = trials.run(default_scenario())
    told = doubts(trials.requests, trial.by_arrival("hit_tokens"), trial.by_arrival("written_tokens"))
    return policy(marts.policy_days, marts.disagreements), told


def test_a_reproduced_policy_is_said_to_be_one(tmp_path: Path) -> None:
    """Written once and read twice, in the bill and in the replay, but for a few tokens beyond whole blocks."""
    seen, told = replayed(tmp_path, [billed(0, 0, 1290), billed(1, 1290, 0), billed(2, 1290, 0)])
    assert (seen.error.read_tokens, seen.error.write_tokens) == (20, 10)
    assert seen.error.reproduced
    assert told == seen.disagreements == ()


def test_a_whatif_on_another_policy_says_so_on_top(tmp_path: Path) -> None:
    """The service wrote anew what the replay reads: 1,280 tokens too much read and too little written of 3,900."""
    seen, told = replayed(tmp_path, [billed(0, 0, 1280), billed(1, 0, 1280), billed(2, 1280, 0)])
    assert not seen.error.reproduced
    assert (seen.error.read, seen.error.write) == (1280 / 3900, 1280 / 3900)
    assert [(words, requests, tokens) for words, requests, tokens, _ in seen.kinds] == [
        ("The service read less than the replay", 1, 1280),
        ("The service wrote more than the replay", 1, 1280),
    ]
    assert "not reproduced" in told[0]
    assert "32.8 %" in told[0]


@pytest.mark.parametrize(("differing", "reproduced"), [(2000, True), (2001, False)])
def test_the_stated_error_is_the_limit(differing: int, reproduced: bool) -> None:
    """Two percent still count as reproduced, be it of reads or of writes."""
    assert MOST_ERROR * 100_000 == 2000
    assert PolicyError(100_000, differing).reproduced is reproduced
    assert PolicyError(100_000, 0, 100_000, differing).reproduced is reproduced


def test_errors_do_not_cancel_out() -> None:
    """Too much on one day does not hide too little on another."""
    day = {"prompt_tokens": 100, "write_prompt_tokens": None, "write_error_tokens": None}
    found = policy_error([{**day, "read_error_tokens": 10}, {**day, "read_error_tokens": 10}])
    assert found == PolicyError(200, 20)
    assert policy_error([]) is None


def test_the_page_and_its_twin_show_it(tmp_path: Path) -> None:
    """Model, day and kinds are on the page; ids are short in the twin; the twin follows its schema."""
    seen, _ = replayed(tmp_path, [billed(0, 0, 1280), billed(1, 0, 1280)])
    view = replace(week(), policy=seen)
    page = html(view)
    assert "claude-sonnet-4-5" in page
    assert "The service read less than the replay" in page
    jsonschema.validate(twin(view), SCHEMA)
    value = policy_value(seen, show_ids=True)
    assert [row["day"] for row in value["by_model_day"]] == ["1970-01-01"]
    assert value["by_model_day"][0]["read_error"] == value["read_error"]
    assert value["disagreements"][0]["request_id"] == "q2"
