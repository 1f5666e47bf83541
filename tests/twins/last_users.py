"""Which rows are the last of their group to use a block that others use too, found block by block."""

from __future__ import annotations


def last_users(
    rows: list[tuple[int, int, list[int]]],
) -> set[int]:
    """Return the numbers of the rows that are.

    Args:
        rows: (group, time, path) of each; a path is the blocks from the first to the last.
    """
    users: dict[int, list[int]] = {}
    for number, (_, _, path) in enumerate(rows):
        for depth in range(len(path)):
            users.setdefault(tuple(path[: depth + 1]), []).append(number)  # type: ignore[call-overload]
    found = set()
    for mine in users.values():
        if len(mine) > 1:
            for group in {rows[number][0] for number in mine}:
                found.add(max((n for n in mine if rows[n][0] == group), key=lambda n: (rows[n][1], n)))
    return found
