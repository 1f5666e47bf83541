"""Finds one request of a workspace by what a person types: its id, the beginning of it, or its place in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefixledger.attribute.explained import moment
from prefixledger.errors import UsageError
from prefixledger.ids import short_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.attribute.session import Session

STEPS = ("80_explain/candidates", "80_explain/near")
_FIND, _NEAR = STEPS

_SHORT_MARKS = "….*"
_MOST_CANDIDATES = 10
_MOST_NEAR = 5


def find_request(session: Session, asked: str, *, show_ids: bool, name: str = "REQUEST_ID") -> int:
    """Return the row of the one request that an id means.

    Args:
        session: Has the table ``requests`` with ``request_row``.
        asked: Id as logged, its beginning or short form, or ``source_file:source_line``.
        show_ids: Whether ids are told whole.
        name: What the id is called on the command line.

    Raises:
        UsageError: The id names no request, or several.
    """
    stem = asked.rstrip(_SHORT_MARKS)
    if not stem:
        raise UsageError(f"{name} is empty", hint="give an id, its beginning, or FILE:LINE")
    session.run([_FIND], {"asked": asked, "stem": stem})
    found = session.table("candidates").to_pylist()
    session.drop("candidates")
    if len(found) == 1:
        return int(found[0]["request_row"])
    if found:
        raise UsageError(
            f"{asked!r} names {len(found):,} requests: {_listed(found, show_ids=show_ids)}",
            hint="give more of the id, or FILE:LINE as listed",
        )
    session.run([_NEAR], {"asked": stem, "most": _MOST_NEAR})
    near = dict.fromkeys(
        short_id(each["request_id"], show_ids=show_ids) for each in session.table("near").to_pylist()
    )
    hint = (
        f"near: {', '.join(near)}"
        if near
        else "prefixledger query 'SELECT request_id FROM requests' lists them"
    )
    raise UsageError(f"there is no request {asked!r}", hint=hint)


def _listed(found: Sequence[Mapping[str, Any]], *, show_ids: bool) -> str:
    lines = [
        f"\n  {short_id(each['request_id'], show_ids=show_ids)}  {moment(each['started_at'])}  "
        f"{each['source_file']}:{each['source_line']}"
        for each in found[:_MOST_CANDIDATES]
    ]
    more = len(found) - _MOST_CANDIDATES
    return "".join([*lines, f"\n  and {more:,} more"] if more > 0 else lines)
