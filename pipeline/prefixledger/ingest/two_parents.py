"""Finds block ids that follow two different ids: a fault of a few rows, or ids that name content and not prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.forest_kernel import roots_of, rows_below, spread_down

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.kernels.path_forest import PathForest

MAX_SHARE: Final = 0.001
"""Below this share of rows an id with two parents is a fault of those rows."""
_DENSE: Final = 16
"""Bytes an id that marks may take; a sort takes as many."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row in which an id follows another id than elsewhere.

    Attributes:
        row: The row.
        block_id: The id.
        other_row: The first row in which it follows the id that it follows most often.
    """

    row: int
    block_id: int
    other_row: int


@dataclass(frozen=True, slots=True)
class ParentCheck:
    """Result of the check.

    Attributes:
        content: True where so many ids have two parents that they must be hashes of content.
        conflicts: The rows at fault otherwise, in order.
        n_rows: Rows in which some id follows an unusual one.
    """

    content: bool
    conflicts: tuple[Conflict, ...]
    n_rows: int


def check_parents(
    forest: PathForest, is_id_namespace: Sequence[bool], rows: NDArray[np.int64], last: NDArray[np.int64]
) -> ParentCheck:
    """Look for ids with two parents within a namespace.

    Of several parents the one under which most rows have the id is right; at a tie, the one seen first.

    Args:
        forest: All paths of the source.
        is_id_namespace: For each namespace, whether its labels are logged ids; computed labels name content.
        rows: int64[m], numbers of the rows that count, rising.
        last: int64[m], last node of each.
    """
    nothing = ParentCheck(content=False, conflicts=(), n_rows=0)
    label, parent = forest.label_lo, forest.parent
    if _all_differ(label):
        return nothing
    root = roots_of(parent)
    through, first_row = rows_below(parent, last, rows)
    nodes = np.flatnonzero(np.asarray(is_id_namespace)[root] & (through > 0))
    above = parent[nodes]
    first_block = above < 0
    above_label = np.where(first_block, np.uint64(0), label[np.maximum(above, 0)])
    order = np.lexsort((nodes, above_label, first_block, label[nodes], root[nodes]))
    nodes, above_label, first_block = nodes[order], above_label[order], first_block[order]
    new_id = _changes(root[nodes], label[nodes])
    new_pair = new_id | _changes(above_label, first_block)
    pair, group = np.cumsum(new_pair) - 1, np.cumsum(new_id) - 1
    if pair.size == 0 or pair[-1] == group[-1]:
        return nothing
    main = _main_pairs(pair, group, new_pair, through[nodes], nodes)
    minor = np.zeros(len(forest), np.bool_)
    minor[nodes[~main[pair]]] = True
    bad = minor.copy()
    spread_down(parent, bad)
    bad_rows = np.flatnonzero((last >= 0) & bad[np.maximum(last, 0)])
    if bad_rows.size >= MAX_SHARE * rows.size:
        return ParentCheck(content=True, conflicts=(), n_rows=int(bad_rows.size))
    main_first = np.full(int(group[-1]) + 1, 1 << 62, np.int64)
    right = main[pair]
    np.minimum.at(main_first, group[right], first_row[nodes[right]])
    group_of = dict(zip(nodes.tolist(), group.tolist(), strict=True)) if bad_rows.size else {}
    conflicts = []
    for at in bad_rows.tolist():
        node = _topmost(parent, minor, int(last[at]))
        conflicts.append(Conflict(int(rows[at]), int(label[node]), int(main_first[group_of[node]])))
    return ParentCheck(content=False, conflicts=tuple(conflicts), n_rows=len(conflicts))


def _all_differ(label: NDArray[np.uint64]) -> bool:
    """Return whether no label occurs twice; ids are mostly numbered as they appear, so the sort is rarely needed."""
    if bool((label[1:] > label[:-1]).all()):
        return True
    low = label.min()
    span = int(label.max() - low) + 1
    if (
        span <= _DENSE * label.size
    ):  # numbers of blocks: a mark for each number is ten times as fast as a sort
        marks = np.zeros(span, np.bool_)
        marks[(label - low).view(np.int64)] = True
        return int(np.count_nonzero(marks)) == label.size
    ordered = np.sort(label)
    return bool((ordered[1:] != ordered[:-1]).all())


def _changes(*columns: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return where a row of sorted columns differs from the one before it; the first one does."""
    changed = np.ones(columns[0].size, np.bool_)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _main_pairs(
    pair: NDArray[np.int64],
    group: NDArray[np.int64],
    new_pair: NDArray[np.bool_],
    through: NDArray[np.int64],
    nodes: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return, for each pair of id and parent, whether it is the id's main one."""
    n_pairs = int(pair[-1]) + 1
    weight = np.bincount(pair, weights=through, minlength=n_pairs)
    seen_at = np.full(n_pairs, 1 << 62, np.int64)
    np.minimum.at(seen_at, pair, nodes)
    pair_group = group[new_pair]
    order = np.lexsort((seen_at, -weight, pair_group))
    main = np.zeros(n_pairs, np.bool_)
    main[order[_changes(pair_group[order])]] = True
    return main


def _topmost(parent: NDArray[np.int64], minor: NDArray[np.bool_], node: int) -> int:
    found = -1
    while node >= 0:
        if minor[node]:
            found = node
        node = int(parent[node])
    return found
