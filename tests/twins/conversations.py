"""Conversations the obvious way: prompts as lists, compared with the first prompts of the session."""

from __future__ import annotations


def conversations(rows: list[tuple[str | None, tuple[int, ...]]]) -> list[int]:
    """Return the number of the conversation of each (session, blocks), -1 for none."""
    firsts: list[tuple[str, tuple[int, ...]]] = []
    found = []
    for session, blocks in rows:
        if session is None or not blocks:
            found.append(-1)
            continue
        fitting = [
            (len(head), number)
            for number, (other, head) in enumerate(firsts)
            if other == session and blocks[: len(head)] == head
        ]
        if fitting:
            found.append(max(fitting)[1])
        else:
            firsts.append((session, blocks[:-1] or blocks))
            found.append(len(firsts) - 1)
    return found
