"""Advice on engines of one's own, and on prompts: each kind where its log was made to ask for it, and nothing on a clean one."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api, index
from prefixledger.advice.advise import advise_on
from prefixledger.attribute.noise import draw_noise
from prefixledger.attribute.trial import Trials, open_trials
from prefixledger.config.scenario import default_scenario, parse_scenario
from prefixledger.replay.prepared import prepared
from prefixledger.workspace import Workspace
from stage_support import MINUTE, SECOND, make_log

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.advice.parts import Advice, Recommendation

HEAD, DAYS = 20, 7


def asked(tenants: int, replicas: int, *, homes: bool) -> Trials:
    """Return a week of requests in turn, ten minutes apart, each tenant with a head of its own; at home or anywhere."""
    draw, rows = random.Random(5), []
    for n in range(DAYS * 24 * 6):
        tenant = n % tenants
        at = n * 10 * MINUTE
        rows.append(
            {
                "at_us": at,
                "ids": [*range(1000 * tenant, 1000 * tenant + HEAD), 10**6 + n],
                "request_id": f"q{n:05d}",
                "session_id": f"s{n}",
                "tenant": f"t{tenant}",
                "replica": f"r{tenant % replicas if homes else draw.randrange(replicas)}",
                "finished_at": at + 2 * SECOND,
            }
        )
    log = make_log(rows)
    return Trials(prepared(log), draw_noise(log))


def advice_on(trials: Trials, blocks: int) -> Advice:
    """Advise on engines of so many blocks."""
    text = f"[[pool]]\nname = 'own'\n[pool.cache]\ncapacity = '{blocks} blocks'\n[pool.in_flight]\noutput = 'ignore'\n"
    scenario = parse_scenario(text)
    advice = advise_on(trials, scenario)
    prompt_tokens = trials.prepared.log.lookups.prompt_tokens
    before = trials.run(scenario)
    for one in advice.recommendations:  # its figure is that of a replay of the scenario beside it
        after = trials.run(parse_scenario(one.scenario))
        saved = before.amounts(prompt_tokens).sum() - after.amounts(prompt_tokens).sum()
        assert saved == pytest.approx(float(one.in_full.saved), rel=1e-6)
        hits = after.by_arrival("hit_tokens").sum() - before.by_arrival("hit_tokens").sum()
        assert hits == one.in_full.tokens > 0
        assert one.effect.saved_low <= one.effect.saved <= one.effect.saved_high
    return advice


def only(advice: Advice) -> Recommendation:
    """Return the one recommendation."""
    (one,) = advice.recommendations
    return one


@pytest.mark.slow
def test_requests_that_go_anywhere_are_to_be_routed_by_prefix_under_a_cap() -> None:
    """Six heads do not fit into each of three caches of three, two of them do into each; the cap is held."""
    advice = advice_on(asked(6, 3, homes=False), 3 * HEAD + 5)
    one = next(one for one in advice.recommendations if one.kind == "routing")
    assert advice.together is not None
    alone = sum(each.in_full.tokens for each in advice.recommendations)
    assert one.in_full.tokens <= advice.together.tokens < alone  # memory and routing win the same tokens
    assert "cap on the load" in one.action
    assert "the busiest replica prefills" in one.side_effects[0]


def test_more_memory_is_advised_where_twice_is_enough_and_a_tier_where_it_is_not() -> None:
    """Four heads in turn are all forgotten by a cache of three; twelve are not helped by twice, but by host memory."""
    memory = advice_on(asked(4, 1, homes=True), 3 * HEAD)
    one = only(memory)
    assert one.kind == "capacity"
    assert any(note.startswith("In place of that: keep what pool own evicts") for note in memory.notes)
    tier = only(advice_on(asked(12, 1, homes=True), 5 * HEAD))
    assert tier.kind == "tier"
    assert "host memory" in tier.action


def test_nothing_is_advised_where_nothing_is_wrong() -> None:
    """Every tenant at home, and room for all of them: no routing, no memory, no tier, no layout, no salt."""
    advice = advice_on(asked(6, 3, homes=True), 10 * HEAD)
    assert advice.recommendations == ()
    assert advice.together is None
    assert advice.tried > 3


COLUMNS = """\
format = "jsonl"
block_size = 16
block_ids = "floor"
id_scope = "global"
[columns]
started_at = { from = "at", unit = "s" }
tenant = "tenant"
cache_salt = "salt"
prompt_tokens = "n"
block_ids = "ids"
parts = "parts"
"""


def written(root: Path, name: str, prompts: list[tuple[str | None, list[dict[str, Any]]]]) -> Trials:
    """Ingest prompts of such parts, ten minutes apart, each with a salt or none; equal parts have equal blocks."""
    rows = []
    for n, (salt, parts) in enumerate(prompts):
        ids, before = [], ""
        for part in parts:
            for block in range(int(part["tokens"]) // 16):
                before += f"/{part.get('digest') or part['text']}.{block}"
                ids.append(int.from_bytes(before.encode()[-7:], "big") ^ hash_of(before))
        total = sum(int(part["tokens"]) for part in parts)
        rows.append({"at": 600 * n, "n": total + 3, "ids": ids, "parts": parts, "tenant": "t", "salt": salt})
    (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (root / "map.toml").write_text(COLUMNS, encoding="utf-8")
    place = Workspace(root / name)
    api.ingest([root / f"{name}.jsonl"], workspace=place.root, map=root / "map.toml", jobs=1)
    index.update(place)
    return open_trials(place, default_scenario())


def hash_of(text: str) -> int:
    """Return a number for a text, the same in every process."""
    found = 0
    for letter in text.encode():
        found = (found * 1_000_003 + letter) % (1 << 55)
    return found


def hits(trials: Trials) -> int:
    """Return the hit tokens of a log under the default scenario."""
    return int(trials.run(default_scenario()).by_arrival("hit_tokens").sum())


@pytest.mark.slow
def test_what_varies_at_the_head_is_to_move_and_nothing_is_said_where_it_does_not(tmp_path: Path) -> None:
    """As many hits as a log that was written with the stamp last, on which there is nothing to advise."""
    logs = {}
    for name in ("first", "last"):
        prompts = []
        for n in range(40):
            stamp = {"kind": "system", "text": f"It is 2026-11-16T08:{n:02d}:00Z.", "tokens": 16}
            rest = [
                {"kind": "system", "digest": f"head-{n % 2}", "tokens": 320},
                {"digest": f"tail-{n}", "tokens": 32},
            ]
            prompts.append((None, [stamp, *rest] if name == "first" else [*rest, stamp]))
        logs[name] = written(tmp_path, name, prompts)
    one = only(advise_on(logs["first"], default_scenario()))
    assert one.kind == "layout"
    assert "the time of day" in one.action
    assert one.in_full.tokens == hits(logs["last"]) - hits(logs["first"]) == 38 * 320
    assert advise_on(logs["last"], default_scenario()).recommendations == ()


def test_salts_that_keep_equal_prompts_apart_are_to_be_one(tmp_path: Path) -> None:
    """As many hits as a log without salts, on which there is nothing to advise; the loss of isolation is said."""
    logs = {}
    for name in ("salted", "plain"):
        prompts = [
            (
                f"x{n // 4}" if name == "salted" else None,
                [{"kind": "system", "digest": "head", "tokens": 320}, {"digest": f"tail-{n}", "tokens": 32}],
            )
            for n in range(40)
        ]
        logs[name] = written(tmp_path, name, prompts)
    one = only(advise_on(logs["salted"], default_scenario()))
    assert one.kind == "salt"
    assert one.side_effects[0].startswith("Isolation:")
    assert one.in_full.tokens == hits(logs["plain"]) - hits(logs["salted"]) == 9 * 320
    assert advise_on(logs["plain"], default_scenario()).recommendations == ()
