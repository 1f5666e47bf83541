"""The design scenario, made smaller: the advice finds what its traffic was made to ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prefixledger import api, index
from prefixledger.advice.advise import advise_on
from prefixledger.attribute.trial import open_trials
from prefixledger.config.scenario import load_scenario, parse_scenario
from prefixledger.samples import generator
from prefixledger.workspace import Workspace
from support import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_the_design_scenario(tmp_path: Path) -> None:
    """A router with a cap, an hour for the middle class, nothing for the rare, a call before batches, the volatile line."""
    story = generator("story")
    size = story.Story(tenants=24, requests_per_day=1_500, hosted_every=2, batch_calls=20, single_rare=True)
    samples = ROOT / "sample_traces"
    place = Workspace(tmp_path / "ws")
    log = story.write(tmp_path / "story.jsonl", size)
    api.ingest([log], workspace=place.root, map=samples / "story.map.toml", jobs=1)
    index.update(place)
    scenario = load_scenario(samples / "story.scenario.toml")
    trials = open_trials(place, scenario)
    advice = advise_on(trials, scenario)
    found = {one.kind: one for one in advice.recommendations}
    assert {"routing", "split", "caching_off", "pre_warm", "layout"} <= set(found)
    assert "cap on the load" in found["routing"].action
    assert found["split"].action.count("1h") == 1
    assert found["caching_off"].where == "tenants tenant-22 and tenant-24"  # the rare ones of the hosted API
    assert found["pre_warm"].where == "tenant tenant-25"  # the batch
    assert "the time of day" in found["layout"].action
    for one in advice.recommendations:
        assert one.effect.saved_low <= one.effect.saved <= one.effect.saved_high
        assert one.effect.saved_low > 0
        assert one.as_predicted is (None if one.kind == "layout" else True)
    # What is said to be saved is what a replay of the scenario beside it, causes and all, comes to.
    prompt_tokens = trials.prepared.log.lookups.prompt_tokens
    before = trials.run(scenario).amounts(prompt_tokens).sum()
    shown = [one for one in advice.recommendations if one.scenario]
    assert len(shown) >= 4
    for one in shown:
        after = trials.run(parse_scenario(one.scenario)).amounts(prompt_tokens).sum()
        assert before - after == pytest.approx(float(one.in_full.saved), rel=1e-6)
    alone = sum(float(one.in_full.saved) for one in advice.recommendations)
    assert 0.8 * alone < float(advice.together.saved) < 1.6 * alone
