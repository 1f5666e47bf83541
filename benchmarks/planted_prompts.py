"""Faults that change what a prompt says, and what only looks like one; each takes the traffic and the struck calls."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from planted_traffic import tool, words

if TYPE_CHECKING:
    import random

    from planted_traffic import Call, Traffic

_CLOCKS = (
    "It is %Y-%m-%d %H:%M:%S.",
    "Current time: %H:%M:%S",
    "now=%Y-%m-%dT%H:%M:%SZ",
    "The clock says %H:%M:%S UTC.",
)

_TAKEN_UP = 2
"""Turn, from 0, with which a session is taken up again."""


def _on_top(call: Call, text: str) -> None:
    call.system = [text, *call.system]


def _at_the_end(call: Call, text: str) -> None:
    last = call.messages[-1]
    call.messages = [*call.messages[:-1], {**last, "content": f"{last['content']} {text}"}]


def _clock(call: Call) -> str:
    return call.at.strftime(_CLOCKS[call.tenant])


def clock_on_top(_: Traffic, struck: list[Call]) -> None:
    """Begin each prompt with the time."""
    for call in struck:
        _on_top(call, _clock(call))


def clock_in_question(_: Traffic, struck: list[Call]) -> None:
    """Put the time into each new question, and keep it there."""
    _in_questions(struck, {_place(call): _clock(call) for call in struck})


def _place(call: Call) -> tuple[int, int]:
    return call.session, call.turn


def _in_questions(struck: list[Call], said: dict[tuple[int, int], str]) -> None:
    """Add a text to the question of each turn, word for word the same when the question is history."""
    for call in struck:
        asked = [n for n, message in enumerate(call.messages) if message["role"] == "user"]
        copied = [dict(message) for message in call.messages]
        for turn, place in enumerate(asked):
            copied[place]["content"] += " " + said[call.session, turn]
        call.messages = copied


def all_have_date(made: Traffic) -> None:
    """Begin all prompts with the same date."""
    for call in made.calls:
        _on_top(call, "Today is 2026-11-16.")


def date_of_each_day(made: Traffic, struck: list[Call]) -> None:
    """Set the date on top to the day of the call."""
    del made
    for call in struck:
        call.system = [f"Today is {call.at:%Y-%m-%d}.", *call.system[1:]]


def date_in_question(_: Traffic, struck: list[Call]) -> None:
    """Put the date into each new question, and keep it there."""
    _in_questions(struck, {_place(call): f"(asked on {call.at:%Y-%m-%d})" for call in struck})


def uuid_on_top(made: Traffic, struck: list[Call]) -> None:
    """Begin each prompt with the id of the call."""
    for call in struck:
        _on_top(call, f"request id: {uuid.UUID(int=made.draw.getrandbits(128), version=4)}")


def uuid_in_question(made: Traffic, struck: list[Call]) -> None:
    """Put an id into each new question, and keep it there."""
    ids = {_place(call): uuid.UUID(int=made.draw.getrandbits(128), version=4) for call in struck}
    _in_questions(struck, {place: f"(trace {each})" for place, each in ids.items()})


def uuid_for_all(made: Traffic) -> None:
    """Begin all prompts with the same id."""
    for call in made.calls:
        _on_top(call, "header k=5f0c1c1e-52f5-4a55-9c39-6d5f1a4e7711")


def uuid_of_each_call(made: Traffic, struck: list[Call]) -> None:
    """Set the id on top anew in each call."""
    for call in struck:
        call.system = [f"header k={uuid.UUID(int=made.draw.getrandbits(128), version=4)}", *call.system[1:]]


def random_on_top(made: Traffic, struck: list[Call]) -> None:
    """Begin each prompt with random digits."""
    for call in struck:
        _on_top(call, f"nonce {made.draw.getrandbits(96):024x}")


def random_in_question(made: Traffic, struck: list[Call]) -> None:
    """Put random digits into each new question, and keep them there."""
    _in_questions(struck, {_place(call): f"nonce {made.draw.getrandbits(96):024x}" for call in struck})


def age_label(_: Traffic, struck: list[Call]) -> None:
    """Let a label inside the system prompt tell how many minutes old something is."""
    for call in struck:
        call.system = [
            *call.system[:3],
            f"Snapshot {int(call.at_s // 60) % 5_000} minutes old.",
            *call.system[3:],
        ]


def counter_on_top(_: Traffic, struck: list[Call]) -> None:
    """Begin each prompt with the number of the call."""
    for number, call in enumerate(struck):
        _on_top(call, f"Request number {4_000 + number} of this process.")


def counter_in_question(_: Traffic, struck: list[Call]) -> None:
    """Put the number of the turn into each new question, and keep it there."""
    _in_questions(struck, {_place(call): f"Request number {4_000 + call.turn}." for call in struck})


def effort(made: Traffic, struck: list[Call]) -> None:
    """Set a line on top as a parameter of each call says."""
    for call in struck:
        _on_top(call, f"Reasoning effort: {made.draw.choice(('low', 'medium', 'high', 'maximal'))}")


def memory(made: Traffic, struck: list[Call]) -> None:
    """Let a paragraph of remembered notes, before the tenant's text, differ in each call."""
    for call in struck:
        call.system = [*call.system[:6], "Notes: " + words(made.draw, 25), *call.system[6:]]


def memory_in_question(made: Traffic, struck: list[Call]) -> None:
    """Put notes into each new question, and keep them there."""
    _in_questions(struck, {_place(call): "Notes: " + words(made.draw, 25) for call in struck})


def tools_shuffled(made: Traffic, struck: list[Call]) -> None:
    """Send the tools in any order."""
    for call in struck:
        call.tools = made.draw.sample(call.tools, len(call.tools))


def tools_rotate(_: Traffic, struck: list[Call]) -> None:
    """Append the tools of a server again whenever it reconnects, every few minutes."""
    for call in struck:
        turn = int(call.at_s // 300) % len(call.tools)
        call.tools = call.tools[turn:] + call.tools[:turn]


def own_tools(made: Traffic, struck: list[Call]) -> None:
    """Give each session tools of its own in an order of their own, and a system prompt that nobody else has."""
    own: dict[int, tuple[list[dict[str, Any]], list[str]]] = {}
    for call in struck:
        if call.session not in own:
            names = ("look", "get", "put")
            own[call.session] = (
                [tool(made.draw, name) for name in names],
                [words(made.draw, 60) for _ in range(6)],
            )
        call.tools, call.system = own[call.session]


def schema_keys(made: Traffic, struck: list[Call]) -> None:
    """Write the same tools with the keys of their objects in another order."""
    for call in struck:
        call.tools = [_reordered(made.draw, tool) for tool in call.tools]


def _reordered(draw: random.Random, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    names = draw.sample(list(value), len(value))
    return {name: _reordered(draw, value[name]) for name in names}


def results_shortened(_: Traffic, struck: list[Call]) -> None:
    """Shorten what the assistant said two turns ago, once it is old."""
    for call in struck:
        old = len(call.messages) - 3
        call.messages = [
            {**message, "content": message["content"][:60] + " [shortened]"}
            if n < old and message["role"] == "assistant"
            else message
            for n, message in enumerate(call.messages)
        ]


def thinking(made: Traffic) -> None:
    """Let every answer begin with its thoughts, and keep them."""
    for call in made.calls:
        call.messages = [
            {**message, "content": f"<think>{message['content'][::-1][:200]}</think>{message['content']}"}
            if message["role"] == "assistant"
            else message
            for message in call.messages
        ]


def thinking_dropped(_: Traffic, struck: list[Call]) -> None:
    """Drop the thoughts of all answers but the last from history."""
    for call in struck:
        last = max((n for n, m in enumerate(call.messages) if m["role"] == "assistant"), default=-1)
        call.messages = [
            {**message, "content": message["content"].rpartition("</think>")[2]} if n != last else message
            for n, message in enumerate(call.messages)
        ]


def reminder(made: Traffic) -> None:
    """Begin the first message of all sessions with one reminder."""
    said = words(made.draw, 40)
    for call in made.calls:
        first, *rest = call.messages
        call.messages = [{**first, "content": f"{said} / {first['content']}"}, *rest]


def reminder_moves(_: Traffic, struck: list[Call]) -> None:
    """Let the reminder leave the first message for the newest one when a session is taken up again, and stay there."""
    for call in struck:
        asked = [n for n, message in enumerate(call.messages) if message["role"] == "user"]
        if len(asked) > _TAKEN_UP:
            copied = [dict(message) for message in call.messages]
            said, _, copied[asked[0]]["content"] = copied[asked[0]]["content"].partition(" / ")
            copied[asked[_TAKEN_UP]]["content"] += f" {said}"
            call.messages = copied


def reminder_at_the_end(made: Traffic, struck: list[Call]) -> None:
    """End each newest message with another reminder, and keep it in none."""
    said = words(made.draw, 40)
    for call in struck:
        _at_the_end(call, said)
