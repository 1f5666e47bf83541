"""Cutting by content, one value at a time, with numbers of any size."""

from __future__ import annotations

_WORD = (1 << 64) - 1
_ONE = 0x9E3779B97F4A7C15


def _mixed(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)


def cut(row: list[int], window: int, mask: int, least: int, most: int) -> list[int]:
    """Return the ends of the pieces of one row."""
    ends, begin = [], 0
    for at in range(1, len(row) + 1):
        # The anchor is a sum over all values before, each halved in weight from the top by every step.
        state = (
            sum(_mixed((value + _ONE) & _WORD) << (at - 1 - place) for place, value in enumerate(row[:at]))
            & _WORD
        )
        anchor = (state >> (window - 1)) & mask == 0
        if at - begin >= most or (at - begin >= least and anchor):
            ends.append(at)
            begin = at
    return ends if begin == len(row) else [*ends, len(row)]
