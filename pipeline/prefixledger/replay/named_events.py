"""Events of a scenario and of the files beside the log, under the names that every output calls them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario


@dataclass(frozen=True, slots=True)
class NamedEvent:
    """An event with the name that every output calls it by.

    Attributes:
        event_id: ``e1``, ``e2`` … in order of time; equal times: those of the scenario first, each in the order given.
        event: What happened.
        from_file: Whether it came from a file beside the log, which may name replicas that this log lacks.
    """

    event_id: str
    event: Event
    from_file: bool = False


def name_events(scenario: Scenario, from_files: Sequence[Event]) -> list[NamedEvent]:
    """Number the events of a scenario and of event files together, in order of time."""
    both = [(event, False) for event in scenario.event] + [(event, True) for event in from_files]
    both.sort(key=lambda pair: pair[0].at_us)
    return [
        NamedEvent(f"e{number}", event, external) for number, (event, external) in enumerate(both, start=1)
    ]
