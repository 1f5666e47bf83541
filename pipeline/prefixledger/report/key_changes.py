"""What made keys new although the content was not: each kind of change in words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.report.glossary import detail_name
from prefixledger.report.numbers import amount, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_VARIES = {
    "time of day": "a time of day",
    "date": "a date",
    "uuid": "a UUID",
    "random": "a random string",
    "counter": "a counter",
    "number": "a number",
}
_WHERE = {"tools": "the tools", "system": "the system prompt", "message": "the messages"}
_HOW = {
    "prefix_edited": "the prompt was edited by",
    "tools_reordered": "the same tools came in another order or with their keys in another",
    "history_rewritten": "the history was rewritten",
    "compaction": "most of the conversation was replaced by a summary",
    "model_changed": "the same content went to another model",
    "template_changed": "the same content went through another template",
    "namespace_split": "the same content was asked under another salt, adapter or namespace",
}
_ADVICE = {
    "prefix_edited": "move {what} behind what stays the same, or into the last message",
    "tools_reordered": "sort the tools and their keys before the prompt is built",
    "history_rewritten": "append to the history, and change what is old only when it has to shrink",
    "compaction": "compact rarely, and by a lot at a time",
    "model_changed": "stay with one model for a conversation",
    "template_changed": "roll the template out while little traffic needs the old one",
    "namespace_split": "share one namespace where tenants may share their content",
}
_NAMED = 3
"""Kinds of change that a sentence names."""
_WORTH = 0.02
"""Share of the tokens from which a kind behind the largest is named."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One kind of change.

    Attributes:
        detail: Detail of the cause.
        part: tools, system or message; None where the log does not say.
        varies: What varies there; None where the log, or too few prompts, tell.
        layer: Changes that stand before it in the same prompt.
        requests: Lookups that it struck.
        tokens: Missed tokens between it and the next change.
        at_token: Median position in the prompt.
        new_tokens: Median length of what is new there.
        old_tokens: Median length of what stood there before.
    """

    detail: str
    part: str | None
    varies: str | None
    layer: int
    requests: int
    tokens: int
    at_token: int
    new_tokens: int
    old_tokens: int


def key_changes(rows: Sequence[Mapping[str, Any]]) -> tuple[KeyChange, ...]:
    """Return the rows of the mart ``changed_keys``, the most costly first."""
    names = KeyChange.__dataclass_fields__
    return tuple(KeyChange(**{name: row[name] for name in names}) for row in rows)


def described(changes: Sequence[KeyChange]) -> str:
    """Say what was changed, to go on a sentence with; empty where nothing is known."""
    if not changes:
        return ""
    least = _WORTH * sum(change.tokens for change in changes)
    named = [change for at, change in enumerate(changes) if at == 0 or change.tokens >= least][:_NAMED]
    return ": " + "; ".join(_described(change) for change in named)


def advice(changes: Sequence[KeyChange]) -> str | None:
    """Say what to do about the largest; None where nothing is known."""
    if not changes or changes[0].detail not in _ADVICE:
        return None
    if changes[0].detail == "prefix_edited" and changes[0].varies == "reordering":
        return "send it in one order"
    return _ADVICE[changes[0].detail].format(what=_VARIES.get(changes[0].varies or "", "what changes"))


def _described(change: KeyChange) -> str:
    text = _HOW.get(change.detail, change.detail)
    if change.detail == "prefix_edited":
        text = _edited(change)
    elif change.detail == "history_rewritten":
        text += f" from token {whole(change.at_token)} on"
    behind = "behind that, " if change.layer else ""
    asked = f"{whole(change.requests)} request{'' if change.requests == 1 else 's'}"
    return (
        f"{behind}{text} ({detail_name(change.detail)}), {amount(change.tokens)} tokens behind it in {asked}"
    )


def _edited(change: KeyChange) -> str:
    """Say what stands before the same content; of other text nobody knows whether it was edited, or asked in its own right."""
    where = f"token {whole(change.at_token)}{_of(change)}"
    if change.varies == "reordering":
        return f"the same content came in another order from {where} on"
    what = _VARIES.get(change.varies or "")
    how = "the same content came behind something else" if what is None else f"{_HOW[change.detail]} {what}"
    long = f", {whole(change.new_tokens)} token{'' if change.new_tokens == 1 else 's'} long"
    return f"{how} at {where}{long if change.new_tokens else ''}"


def _of(change: KeyChange) -> str:
    return "" if change.part is None else f" in {_WHERE[change.part]}"
