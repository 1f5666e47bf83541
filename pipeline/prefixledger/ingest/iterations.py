"""Answers that several internal calls made: their totals are those of more than the prompt that was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.records import Row

LABEL: Final = "iterations"
_OWN: Final = "message"


def mark_iterations(row: Row, usage: Mapping[str, Any]) -> None:
    """Label a row whose usage lists several calls to the model, and leave its length out of what scales text.

    Claude's server tools call the model again with what they found, and the totals of the answer are the sum; only the
    first of these prompts is the one that was sent. Compactions and advisors are further calls, which the totals leave
    out: they stay with the answer, as it is one request with one sum to pay, under the kinds of its calls.

    Args:
        row: The answer; changed in place.
        usage: The usage object.
    """
    held = usage.get("iterations")
    kinds = (
        [str(each.get("type") or _OWN) for each in held if isinstance(each, dict)]
        if isinstance(held, list)
        else []
    )
    if len(kinds) < 2:  # noqa: PLR2004
        return
    row.extras = {
        **row.extras,
        LABEL: "+".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)),
    }
    if kinds.count(_OWN) > 1:
        row.prompt_complete = False
