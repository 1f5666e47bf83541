"""Plants one fault in made-up traffic, or something that only looks like one; knows nothing of who looks for it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import planted_places as places
import planted_prompts as prompts
from planted_traffic import HALF_S, traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from planted_traffic import Call, Traffic

STRENGTHS = (0.2, 0.5, 1.0)
"""Shares of the sessions of the second half that a fault strikes."""


@dataclass(frozen=True, slots=True)
class Plant:
    """One kind of fault.

    Attributes:
        kind: Its name.
        cause: What is to be named.
        details: Details that name it.
        varies: What is to be said to vary; empty where nothing does.
        fault: Plants it in the struck calls.
        alike: Plants what looks like it and costs nothing, or costs something for another reason.
        before: Changes the whole traffic in which both are planted, and that they are measured against.
    """

    kind: str
    cause: str
    details: tuple[str, ...]
    varies: tuple[str, ...]
    fault: Callable[[Traffic, list[Call]], None]
    alike: Callable[[Traffic, list[Call]], None]
    before: Callable[[Traffic], None] | None = None


def planted(plant: Plant, seed: int, strength: float, what: str) -> Traffic:
    """Return traffic with a fault, with what looks like it, or without either.

    Args:
        plant: The kind.
        seed: Decides everything random.
        strength: Share of the sessions of the second half that are struck.
        what: ``fault``, ``alike`` or ``clean``.
    """
    made = traffic(seed)
    if plant.before is not None:
        plant.before(made)
    first: dict[int, float] = {}
    for call in made.calls:
        first.setdefault(call.session, call.at_s)
    late = sorted(session for session, at_s in first.items() if at_s >= HALF_S)
    struck = set(random.Random(seed + 2).sample(late, max(1, round(strength * len(late)))))
    chosen = [call for call in made.calls if call.session in struck]
    if what != "clean":
        (plant.fault if what == "fault" else plant.alike)(made, chosen)
    return made


_CHANGED = "key_changed"
_EDITED = ("prefix_edited",)
_TOOLS = ("tools_reordered",)
_HISTORY = ("history_rewritten",)
_SPLIT = ("namespace_split",)
_NUMBER = ("counter", "number")

PLANTS = (
    Plant(
        "clock on top", _CHANGED, _EDITED, ("time of day",), prompts.clock_on_top, prompts.clock_in_question
    ),
    Plant(
        "date on top",
        _CHANGED,
        _EDITED,
        ("date",),
        prompts.date_of_each_day,
        prompts.date_in_question,
        prompts.all_have_date,
    ),
    Plant("uuid on top", _CHANGED, _EDITED, ("uuid",), prompts.uuid_on_top, prompts.uuid_in_question),
    Plant(
        "header made new",
        _CHANGED,
        _EDITED,
        ("uuid",),
        prompts.uuid_of_each_call,
        prompts.uuid_in_question,
        prompts.uuid_for_all,
    ),
    Plant("random on top", _CHANGED, _EDITED, ("random",), prompts.random_on_top, prompts.random_in_question),
    Plant("counter on top", _CHANGED, _EDITED, _NUMBER, prompts.counter_on_top, prompts.counter_in_question),
    Plant("age label inside", _CHANGED, _EDITED, _NUMBER, prompts.age_label, prompts.date_in_question),
    Plant("parameter on top", _CHANGED, _EDITED, ("free text",), prompts.effort, prompts.memory_in_question),
    Plant("notes inside", _CHANGED, _EDITED, ("free text",), prompts.memory, prompts.memory_in_question),
    Plant("tools shuffled", _CHANGED, _TOOLS, ("reordering",), prompts.tools_shuffled, prompts.own_tools),
    Plant("tools rotate", _CHANGED, _TOOLS, ("reordering",), prompts.tools_rotate, prompts.own_tools),
    Plant("keys of tools mixed", _CHANGED, _TOOLS, ("reordering",), prompts.schema_keys, prompts.own_tools),
    Plant(
        "old answers shortened", _CHANGED, _HISTORY, (), prompts.results_shortened, prompts.memory_in_question
    ),
    Plant(
        "thoughts dropped",
        _CHANGED,
        _HISTORY,
        (),
        prompts.thinking_dropped,
        prompts.memory_in_question,
        prompts.thinking,
    ),
    Plant(
        "reminder moves",
        _CHANGED,
        _HISTORY,
        (),
        prompts.reminder_moves,
        prompts.reminder_at_the_end,
        prompts.reminder,
    ),
    Plant("model switched", _CHANGED, ("model_changed",), (), places.model_switch, places.model_of_its_own),
    Plant("salt per session", _CHANGED, _SPLIT, (), places.salts, places.salt_of_own_text),
    Plant("adapters", _CHANGED, _SPLIT, (), places.adapters, places.adapter_of_own_text),
    Plant("restarts", "invalidated", ("restart",), (), places.restarts, places.restart_before_all),
    Plant(
        "pods replaced", "invalidated", ("replica_gone",), (), places.pods_replaced, places.spread_new_text
    ),
    Plant("routed at random", "misrouted", (), (), places.routed_at_random, places.spread_new_text),
    Plant("long pauses", "expired", (), (), places.long_pauses, places.short_pauses, places.with_ttl),
    Plant("bursts", "evicted", (), (), places.bursts, places.trickle, places.with_capacity),
)
"""Every kind that is planted; details are empty where a number stands there, or a name."""
