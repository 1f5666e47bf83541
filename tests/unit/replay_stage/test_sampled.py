"""A sample of subtrees hits as the whole log does, and says how far it may be off."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ingest_support import mooncake, write_lines
from prefixledger import api, index
from prefixledger.attribute.trial import open_trials, sampled_trials
from prefixledger.cli import app
from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.errors import UsageError
from prefixledger.replay.sampled import SHARED_BY, Sample, sampled
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 16


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ingest 600 requests: four tenants with a shared head each, and sessions that grow below it."""
    folder = tmp_path_factory.mktemp("sampled")
    draw, fresh, rows = random.Random(5), 10_000, []
    sessions: list[list[int]] = []
    for at in range(600):
        if sessions and draw.random() < 0.6:
            ids = sessions[draw.randrange(max(0, len(sessions) - 30), len(sessions))]
        else:
            ids = [100 * draw.randrange(4) + n for n in range(5)]
            sessions.append(ids)
        new = draw.randrange(0 if len(ids) == 5 else 1, 4)
        ids += range(fresh, fresh + new)
        fresh += new
        rows.append(mooncake(1_000 * at, ids, tokens=BLOCK * len(ids) + 3))
    log = write_lines(folder / f"log_blksz_{BLOCK}.jsonl", rows)
    api.ingest([log], workspace=folder / "ws", t0="2026-11-24T00:00:00Z", jobs=1)
    index.update(Workspace(folder / "ws"))
    return folder / "ws"


def _scenario(capacity: str = "unlimited") -> Scenario:
    return Scenario(name="s", pool=(Pool(cache=Cache(profile="vllm", capacity=capacity)),))


def test_subtrees_are_whole_and_hit_as_before(place: Path) -> None:
    """Lookups that share a block below what is kept anyway stay together; without a limit each hits to the token what it hit."""
    trials = open_trials(Workspace(place), _scenario())
    log = trials.prepared.log
    part, sample = sampled(log, 0.4, 0)
    asked: dict[int, set[int]] = {}
    for lookup, last in enumerate(log.lookups.last_block.tolist()):
        block = last
        while block >= 0:
            asked.setdefault(block, set()).add(lookup)
            block = int(log.forest.parent[block])
    shared = {block for block, users in asked.items() if len(users) > SHARED_BY * len(log.lookups)}
    assert sample.shared_blocks == len(shared) >= 20
    drawn = part.lookups.request_row[sample.drawn]
    kept = set(np.flatnonzero(np.isin(log.lookups.request_row, drawn)).tolist())
    assert len(part.lookups) == len(log.lookups)  # all of them use what is shared
    assert all(users <= kept or not users & kept for block, users in asked.items() if block not in shared)
    assert abs(sample.share - 0.4) < 0.1
    few = sampled_trials(trials, 0.4, 0)
    for ttl in ("none", "60s"):
        scenario = Scenario(name="s", pool=(Pool(cache=Cache(profile="vllm", ttl=ttl)),))
        whole, cut = (one.run(scenario) for one in (trials, few))
        hits = whole.by_arrival("hit_tokens")[sorted(kept)]
        assert cut.by_arrival("hit_tokens")[sample.drawn].tolist() == hits.tolist()
        assert not cut.by_arrival("hit_tokens")[~sample.drawn].any()
        (sums,) = (pool.sums for pool in cut.pools)
        assert sums.tokens.sum() == few.prompt_tokens.sum() == part.lookups.prompt_tokens[sample.drawn].sum()


def test_the_error_that_is_told_holds() -> None:
    """Of 200 draws of units by chance some 190 lie within it; it is 0 where all is drawn."""
    random_ = np.random.default_rng(1)
    unit = np.repeat(np.arange(300), random_.integers(1, 6, 300))
    prompt = random_.integers(100, 2_000, unit.size)
    hit = (prompt * random_.beta(2, 2, 300)[unit]).astype(np.int64)
    rate, within = 100 * hit.sum() / prompt.sum(), 0
    for _ in range(200):
        drawn = np.isin(unit, random_.choice(300, 60, replace=False))
        sample = Sample(0.2, 0, unit[drawn], 300, unit.size)
        found = 100 * hit[drawn].sum() / prompt[drawn].sum()
        within += abs(found - rate) <= sample.error_pp(hit[drawn], prompt[drawn])
    assert 180 <= within <= 199
    assert Sample(1.0, 0, unit, 300, unit.size).error_pp(hit, prompt) == 0


def test_memory_shrinks_with_what_is_drawn(place: Path) -> None:
    """What is shared keeps its room; what leaves none for the largest prompt is refused."""
    sample = Sample(0.25, 100, np.zeros(1, np.int64), 4, 4)
    assert [sample.capacity_blocks(blocks) for blocks in (50, 100, 500)] == [50, 100, 200]
    prepared = open_trials(Workspace(place), _scenario()).prepared
    few = replace(prepared, sample=replace(sample, share=0.01, shared_blocks=2))
    with pytest.raises(UsageError, match="leaves 5 of 300 blocks of a cache, and the largest prompt has"):
        few.plan(_scenario("300 blocks"))


def test_cells_say_how_far_they_may_be_off(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON and in the note; the rate of the whole lies within."""
    command = ["whatif", "--workspace", str(place), "--capacity", "300,unlimited", "--json", "--jobs", "1"]
    found: list[list[dict[str, Any]]] = []
    for more in ([], ["--sample", "50%"]):
        assert app.run([*command, *more]) == 0
        out, err = capsys.readouterr()
        found.append(json.loads(out)["cells"])
    assert "a sample of " in err
    assert "subtrees below the 96 blocks that more than 1 % of them share" in err
    for whole, part in zip(*found, strict=True):
        assert "sample_error_pp" not in whole["totals"]
        off = 100 * (part["totals"]["token_hit_rate"] - whole["totals"]["token_hit_rate"])
        assert abs(off) < 2 * part["totals"]["sample_error_pp"] < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": "10"}, "'10' is no share of a log"),
        ({"sample": "100%"}, "no share of a log"),
        ({"sample": "0.001%"}, "keeps no lookup"),
        ({"sample": "50%", "capacity": "30%"}, "and the whole log"),
        ({"sample": "50%", "growth": "2"}, "which this grid changes"),
        ({"sample": "50%", "tier": "2x", "capacity": "300"}, "a sample has no lower tier"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_no_sample_can_answer_is_refused(place: Path, options: dict[str, str], message: str) -> None:
    """Rather than answered for another log."""
    with pytest.raises(UsageError, match=message):
        api.whatif(workspace=place, jobs=1, **options)
