"""What the twin of the running radix tree keeps of a request, and what it says of a log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twins.locked_tree import LockedNode


@dataclass(slots=True)
class Run:
    """A running request: the end of the path that it locks, and the slots that are its own."""

    row: int
    admitted: int
    first: int
    end: int
    node: LockedNode
    own: int
    slots: int
    tokens: int
    output: int
    turn: int
    began: int
    hits: int
    shows: int
    keys: str = ""
    alive: bool = True
    stopped: bool = False
    shown: bool = False


@dataclass(slots=True)
class Answer:
    """What the replay says, row by row; ``removed`` holds (cause, row or -1, at, replica, key) per keyed block."""

    hit: list[int]
    admitted: list[int]
    finished: list[int]
    refused: list[bool]
    in_flight: list[tuple[int, int]]
    ignored: list[bool]
    first_eviction: list[int]
    removed: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    stopped: int = 0
    freed_at_once: int = 0
    retracted: dict[int, int] = field(default_factory=dict)
    recompute: dict[int, int] = field(default_factory=dict)
