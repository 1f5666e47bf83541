"""Planted faults are named for what they are, and what only looks like them is not."""

from __future__ import annotations

import sys

import pytest

from support import ROOT

KINDS = (
    "clock on top",
    "date on top",
    "reminder moves",
    "keys of tools mixed",
    "salt per session",
    "routed at random",
    "long pauses",
)


@pytest.mark.slow
def test_faults_are_named_and_the_innocent_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of seven kinds at least 95 % of what was lost is named, and of what is named at least 95 % was lost."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import faults
    from planted import PLANTS, planted

    try:
        for plant in (plant for plant in PLANTS if plant.kind in KINDS):
            clean, fault, alike = (
                faults.outcome(planted(plant, 5, 0.5, what)) for what in ("clean", "fault", "alike")
            )
            found = faults.score(plant, clean, fault, alike)
            assert found.recall >= faults.TARGET, plant.kind
            assert found.precision >= faults.TARGET, plant.kind
            assert not plant.varies or found.varies >= faults.TARGET, plant.kind
            assert faults.blamed(clean) == 0, plant.kind
    finally:
        for name in ("faults", "planted", "planted_prompts", "planted_places", "planted_traffic"):
            sys.modules.pop(name, None)
