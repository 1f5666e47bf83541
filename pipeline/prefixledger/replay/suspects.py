"""Says which places at the head of prompts look as if they changed from call to call and did not: checked, and innocent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.forest_kernel import rows_below

if TYPE_CHECKING:
    from prefixledger.replay.contents import Contents

_SUSPECT: Final = {"time": "a time", "date": "a date", "uuid": "a UUID", "random": "a random string"}
"""Looks that people blame first; a number in a system prompt is seldom more than a number."""
_FEWEST: Final = 3
"""Prompts from which a place that stayed the same says something."""


def checked_notes(contents: Contents) -> tuple[str, ...]:
    """Return a sentence on suspects in tools and system prompts that were the same in every prompt that has them.

    Args:
        contents: What prompts are made of.
    """
    if not contents.marks:
        return ()
    node = contents.node[contents.node >= 0]
    through, _ = rows_below(contents.parent, node, np.arange(node.size))
    head = (contents.kind == 0) | (contents.kind == 1)
    marked = np.zeros(contents.n_pieces, np.bool_)
    marked[list(contents.marks)] = True
    chosen = np.flatnonzero(head & marked[contents.piece] & (through > 0))
    prompts: dict[int, int] = {}
    values: dict[int, set[int]] = {}
    for at in chosen.tolist():
        slot = int(contents.mask[at])
        prompts[slot] = prompts.get(slot, 0) + int(through[at])
        values.setdefault(slot, set()).add(int(contents.piece[at]))
    constant = [slot for slot, found in values.items() if len(found) == 1 and prompts[slot] >= _FEWEST]
    looks = {
        mark.partition(":")[0]
        for slot in constant
        for piece in values[slot]
        for mark in contents.marks[piece].split(";")
    }
    named = [text for look, text in _SUSPECT.items() if look in looks]
    if not named:
        return ()
    suspects = sum(
        any(mark.partition(":")[0] in _SUSPECT for mark in contents.marks[piece].split(";"))
        for slot in constant
        for piece in values[slot]
    )
    places = f"{suspects:,} place{'' if suspects == 1 else 's'}"
    looks_like, it = ("looks like", "it is") if suspects == 1 else ("look like", "they are")
    told = (
        f"checked, constant: {places} in tools or system prompts {looks_like} {' or '.join(named)}, but {it} the same in "
        "every prompt and broke nothing"
    )
    return (told,)
