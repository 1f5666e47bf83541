"""``explain`` tells the life of one request, finds it by a short id, and closes with its prompt."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from facts import at
from prefixledger import api, attribute, replay
from prefixledger.attribute.explained import Limits, segment
from prefixledger.cli import app
from prefixledger.config.scenario import parse_scenario
from prefixledger.errors import InputError
from replayed import booked

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.attribute.explained import ExplainedSegment, Explanation

MINUTE_US = 60_000_000
SCENARIO = """
[cache]
ttl = "10m"
[[event]]
at = 1970-01-01T00:03:30Z
kind = "restart"
replica = "a"
note = "new image"
"""
SHARED = (1, 2)


def _row(
    minute: int, name: str, ids: tuple[int, ...], replica: str = "a", **more: object
) -> dict[str, object]:
    return {
        "at_us": minute * MINUTE_US,
        "request_id": name,
        "ids": ids,
        "prompt_tokens": 16 * len(ids) + 1,
        "replica": replica,
        **more,
    }


ROWS = [
    _row(1, "first-of-all-requests", (*SHARED, 3), tenant="acme", model="m", session_id="a-long-session-id"),
    _row(2, "again-with-hits", (*SHARED, 4)),
    _row(3, "wrong-replica", SHARED, "b"),
    _row(4, "after-restart-1", SHARED),
    _row(5, "after-restart-2", SHARED),
    _row(30, "much-too-late", SHARED),
    _row(31, "never-reached", SHARED, status="failed"),
    _row(32, "no-keys", (), keyed=False, prompt_tokens=50, usage_state="present", cached_tokens_observed=30, block_size=0),
    _row(33, "nothing-known", (), keyed=False, prompt_tokens=50, block_size=0),
]  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay a log in which a request is missed for each of four reasons."""
    return booked(tmp_path_factory.mktemp("ws"), ROWS, 16, SCENARIO).root


def _of(workspace: Path, name: str) -> tuple[Explanation, ExplainedSegment]:
    found = api.explain(name, workspace=workspace, show_ids=True)
    return found, found.segments[0]


def test_every_life_closes_with_its_prompt(workspace: Path) -> None:
    """Segments follow each other without a gap, from the first token to the last."""
    for row in ROWS[:6]:
        found, _ = _of(workspace, str(row["request_id"]))
        ends = [0]
        for each in found.segments:
            assert each.first_token == ends[-1]
            ends.append(ends[-1] + each.tokens)
        assert ends[-1] == found.prompt_tokens == row["prompt_tokens"]
        assert (found.hit_tokens or 0) + sum(found.missed_tokens.values()) == found.prompt_tokens
        assert f"= {found.prompt_tokens} tokens of the prompt" in found.closing


def test_a_hit_names_the_request_before(workspace: Path) -> None:
    """And when it was used."""
    found, hit = _of(workspace, "again-with-hits")
    assert (hit.hit, hit.tokens, found.replica, found.route) == (True, 32, "a", "as logged")
    assert hit.evidence == ("last used at 1970-01-01 00:01:00.000Z by request first-of-all-requests",)


@pytest.mark.parametrize(
    ("name", "cause", "evidence", "helps"),
    [
        ("first-of-all-requests", ("cold", "window_start"), "first seen during the warm-up", ()),
        ("wrong-replica", ("misrouted", "a"), "replica a was live and held it", ("another replica: a",)),
        ("after-restart-1", ("invalidated", "restart"), "restart at 1970-01-01 00:03:30.000Z (new image)", ()),
        ("much-too-late", ("expired", "1500 s"), "unused for 1,500 s; the TTL is 600 s", ("a longer TTL: 1,500 s",)),
    ],
)  # fmt: skip
def test_a_miss_shows_its_evidence(
    workspace: Path, name: str, cause: tuple[str, str], evidence: str, helps: tuple[str, ...]
) -> None:
    """The cause, what proves it, and what would have helped."""
    _, miss = _of(workspace, name)
    assert (miss.cause, miss.detail) == cause
    assert any(evidence in words for words in miss.evidence), miss.evidence
    assert set(helps) <= set(miss.would_have_helped)


@pytest.mark.parametrize(
    ("name", "why", "hit_tokens"),
    [
        ("never-reached", "it failed before it reached a cache", None),
        ("no-keys", "has its usage but no keys", 30),
        ("nothing-known", "neither keys nor cached tokens", None),
    ],
)
def test_a_row_that_is_no_lookup_says_why(
    workspace: Path, name: str, why: str, hit_tokens: int | None
) -> None:
    """What the service reports is told without a place in the prompt."""
    found = api.explain(name, workspace=workspace)
    assert why in (found.no_lookup or "")
    assert found.hit_tokens == hit_tokens
    assert all(each.first_token is None for each in found.segments)


def test_ids_are_short_and_may_be_given_short(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In text and JSON, unless asked for whole; a line is no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "60")
    assert app.run(["explain", "first-of-a…", "--workspace", str(workspace)]) == 0
    text = capsys.readouterr().out
    assert "first-of-a…" in text
    assert "tenant acme, model m, session a-long-ses…" in text
    assert "first-of-all" not in text
    assert max(map(len, text.splitlines())) <= 60
    assert app.run(["explain", "log.jsonl:2", "--workspace", str(workspace), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["request_id"] == "again-with…"
    assert told["segments"][0]["evidence"][0].endswith("by request first-of-a…")


def test_an_id_that_is_not_one_request_is_exit_2(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Candidates with their places, near ids, and the replays that there are."""
    place = ["--workspace", str(workspace)]
    assert app.run(["explain", "after-rest…", *place]) == 2
    said = capsys.readouterr().err
    assert "names 2 requests" in said
    assert "log.jsonl:4" in said
    assert app.run(["explain", "much-too-lade", *place, "--show-ids"]) == 2
    assert "near: much-too-late" in capsys.readouterr().err
    assert app.run(["explain", "no-keys", *place, "--scenario", "other"]) == 2
    assert "replays: as-is" in capsys.readouterr().err
    assert app.run(["explain", "…", *place]) == 2


def test_the_replay_is_the_last_or_the_one_named_and_never_stale(tmp_path: Path) -> None:
    """What would have helped depends on it; other requests in the workspace refuse both."""
    place = booked(tmp_path, ROWS[:5], 16, SCENARIO)
    small = parse_scenario('name = "small"\n[cache]\ncapacity = "3 blocks"\n')
    replay.run(place, small)
    attribute.run(place, "small")
    os.utime(place.replay("as-is") / "lookups.parquet", (1, 1))
    assert api.explain("again-with", workspace=place.root).scenario == "small"
    assert api.explain("again-with", workspace=place.root, scenario="as-is").scenario == "as-is"
    missed = api.explain("wrong-replica", workspace=place.root, scenario="as-is").segments[0]
    assert missed.evidence[0].startswith("last used on another replica at")
    fingerprint = place.replay("small") / "fingerprint.json"
    kept = json.loads(fingerprint.read_text(encoding="utf-8"))
    kept["made_from"]["workspace"] = "another"
    fingerprint.write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(InputError, match="was made from other requests"):
        api.explain("again-with", workspace=place.root)


@pytest.mark.parametrize(
    ("needed", "bound", "helps"),
    [
        (1700, "takes 1,700 blocks; the cache has 1,600", "more capacity: 1,700 blocks"),
        (1551, "takes 1,551 blocks by itself; the cache has 1,600, shared with running", "more capacity"),
    ],
)
def test_needed_capacity_is_no_advice_where_the_cache_has_more(needed: int, bound: str, helps: str) -> None:
    """Running requests hold blocks, too, so that less than the capacity may be needed and yet missing."""
    names = ("detail", "last_used_at", "previous_request_id", "removed_at", "removed_by", "event_id")
    helped = ("hit_on_other_replica", "hit_with_longer_ttl", "hit_with_stable_prefix")
    more = dict.fromkeys(("hit", "elsewhere", *helped), False)
    row = {
        **dict.fromkeys((*names, "resident_replica", "needed_ttl_s")),
        **more,
        "first_token": 0,
        "tokens": 16,
        "cause": "evicted",
        "needed_capacity_blocks": needed,
        "hit_with_more_capacity": True,
    }
    told = segment(row, Limits(None, 1600), show_ids=False)
    assert bound in told.evidence[0]
    assert told.would_have_helped == (helps,)


def test_a_changed_key_is_told_with_the_place_and_the_prompt_that_it_departs_from() -> None:
    """Where, how much for how much, and what varies; undone, it would have hit."""
    names = (
        "removed_at", "removed_by", "event_id", "resident_replica", "needed_ttl_s", "needed_capacity_blocks",
    )  # fmt: skip
    helped = ("hit_on_other_replica", "hit_with_more_capacity", "hit_with_longer_ttl")
    row = {
        **dict.fromkeys(names),
        **dict.fromkeys(("hit", "elsewhere", *helped), False),
        "first_token": 0,
        "tokens": 320,
        "cause": "key_changed",
        "detail": "prefix_edited",
        "previous_request_id": "q1",
        "last_used_at": at(60),
        "changed_part": "system",
        "changed_at_token": 4,
        "changed_new_tokens": 3,
        "changed_old_tokens": 2,
        "varies": "counter",
        "hit_with_stable_prefix": True,
    }
    told = segment(row, Limits(None, 1600), show_ids=False)
    assert told.evidence == (
        "the same content was served under another key at 1970-01-01 00:01:00.000Z by request q1",
        "that prompt departs from this one at token 4, in the system prompt, 3 new for 2 old: counter",
    )
    assert told.would_have_helped == ("a stable prefix",)
    other = {**row, "model": "n", "previous_model": "m", "adapter": "x", "previous_adapter": None}
    edited = segment({**other, "detail": "model_changed"}, Limits(None, 1600), show_ids=False)
    assert edited.evidence[1] == "that request went to model m, this one to n, and models share no keys"
    assert edited.would_have_helped == ("the same model and a stable prefix",)
    split = {**other, "detail": "namespace_split", "changed_new_tokens": 0, "changed_old_tokens": 0}
    told = segment(split, Limits(None, 1600), show_ids=False)
    assert (
        told.evidence[1]
        == "that request asked for adapter (none), this one for x, and adapters share no keys"
    )
    assert told.evidence[2] == "what stands before it is the same in both prompts"
    assert told.would_have_helped == ("the same namespace",)
    told = segment({**split, "previous_adapter": "x"}, Limits(None, 1600), show_ids=False)
    assert told.evidence[1] == "that request had another salt or namespace, and those share no keys"
