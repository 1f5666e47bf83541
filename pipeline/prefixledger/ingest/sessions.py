"""Names sessions where rows only name the request before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def chains(links: Sequence[tuple[str | None, str | None]]) -> list[str | None]:
    """Return the root of each row's chain, None for rows that stand alone.

    Args:
        links: Own id and parent's id of each row.

    Example:
        >>> chains([("1", None), ("2", "1"), ("9", None), ("9", None)])
        ['1', '1', None, None]
    """
    roots = chain_roots(links)
    members: dict[str | None, set[str | None]] = {}
    for (own, _), root in zip(links, roots, strict=True):
        members.setdefault(root, set()).add(own)
    return [root if len(members[root]) > 1 else None for root in roots]


def chain_roots(links: Sequence[tuple[str | None, str | None]]) -> list[str | None]:
    """Return, for each row, the id at the root of its chain.

    A parent that is not in the input makes a root, and so does the first row met again on a chain that bites its tail.

    Args:
        links: Own id and parent's id of each row.

    Example:
        >>> chain_roots([("1", None), ("2", "1"), ("3", "2"), ("9", "8")])
        ['1', '1', '1', '9']
    """
    parent_of: dict[str, str | None] = {}
    for own, parent in links:
        if own is not None:
            parent_of.setdefault(own, parent)
    root_of: dict[str, str] = {}
    for own in parent_of:
        walked: list[str] = []
        at = own
        on_path: set[str] = set()
        while at not in root_of:
            walked.append(at)
            on_path.add(at)
            above = parent_of[at]
            if above is None or above not in parent_of or above in on_path:
                root_of[at] = at
            else:
                at = above
        for name in walked:
            root_of[name] = root_of[at]
    return [None if own is None else root_of[own] for own, _ in links]
