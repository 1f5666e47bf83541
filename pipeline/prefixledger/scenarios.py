"""Replays scenarios beside each other: each is a function from files to files, so it is a task as it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger import attribute, replay
from prefixledger.engine import Work
from prefixledger.mirror import publish
from prefixledger.progress import SILENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.progress import Progress
    from prefixledger.replay import ReplaySummary
    from prefixledger.workspace import Workspace

SCENARIOS = Work("scenarios", "replays a scenario", wide=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is the same for all scenarios.

    Attributes:
        workspace: Where requests and index are, and the replays go.
        events: From event files.
        threads: Of DuckDB; no output depends on it.
        progress: Told of every step where that is this process.
        engine: What replays the replicas and names causes part by part; None where the scenario itself is a task.
    """

    workspace: Workspace
    events: tuple[Event, ...]
    threads: int
    progress: Progress = SILENT
    engine: Engine | None = None


def replay_all(
    workspace: Workspace,
    scenarios: Sequence[Scenario],
    events: tuple[Event, ...],
    progress: Progress,
    jobs: int,
    engine: Engine,
) -> tuple[ReplaySummary, ...]:
    """Replay and attribute scenarios of an indexed workspace, and return what was found, in their order.

    A replay that is there and fits is used again, so that after a failure the same command goes on with what is missing.
    """
    few = len(scenarios) == 1 or engine.here(SCENARIOS, len(scenarios))
    if few and engine.task_memory_bytes is None:  # what has a limit must be a task
        asked = _Asked(workspace, events, jobs, progress, engine)
        return tuple(_published(workspace, _replay_one(asked, scenario)) for scenario in scenarios)
    progress.phase("replay", len(scenarios), "scenarios")
    asked = _Asked(workspace, events, 1 if engine.remote else jobs)
    found: dict[int, ReplaySummary] = {}
    for number, summary in engine.unordered(SCENARIOS, _replay_one, scenarios, asked):
        found[number] = _published(workspace, summary)
        progress.advance(1)
    return tuple(found[number] for number in range(len(scenarios)))


def _published(workspace: Workspace, summary: ReplaySummary) -> ReplaySummary:
    """Let others see a replay as soon as it is there, whichever machine made it."""
    publish(workspace)
    return summary


def _replay_one(asked: _Asked, scenario: Scenario) -> ReplaySummary:
    found = replay.run(
        asked.workspace, scenario, events=asked.events, progress=asked.progress.phase, engine=asked.engine
    )
    asked.progress.phase(f"name the causes of {scenario.name}")
    attribute.run(asked.workspace, scenario.name, threads=asked.threads, engine=asked.engine)
    return found
