"""Slow, obvious twin of ``replay/outputs_kernel.py``: every later prompt is tried, on whole paths."""

from __future__ import annotations


def next_turns(
    paths: list[list[int]],
    started: list[int],
    ready: list[int],
    session: list[int],
    prompt_tokens: list[int],
    needed_tokens: list[int],
) -> list[int]:
    """Return for each request the first later one that begins with its prompt and its output, -1 for none."""
    found = []
    for i, path in enumerate(paths):
        later = (
            j
            for j in range(i + 1, len(paths))
            if needed_tokens[i] > 0
            and paths[j][: len(path)] == path
            and session[i] in (-1, session[j])
            and prompt_tokens[j] >= needed_tokens[i]
            and started[j] >= ready[i]
        )
        found.append(next(later, -1))
    return found
