"""Tells whether logged ids can be prefix hashes: does every id always follow the same id?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.parent_check_kernel import check_rows_kernel, fill_id_table, find_id
from prefixledger.kernels.path_forest import check_rows, table_secret

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_CAPACITY = 1024


class ParentCheck:
    """The map id -> (id before it, row that had it first), filled row by row.

    A row in which an id follows another id than before is reported and leaves nothing behind, so that one broken
    row does not condemn the ones after it. The first row to name an id is believed.

    Example:
        >>> check = ParentCheck()
        >>> ids = np.array([1, 2, 1, 2, 3, 7, 2], np.uint64)
        >>> check.add(np.zeros(3, np.int64), np.array([0, 2, 5, 7]), ids)
        array([-1, -1,  1])
        >>> check.first_row(0, 2)
        0
    """

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        """Make an empty map with room for ``capacity`` ids, a power of two; it doubles when it is full."""
        self._count = 0
        self._rows = 0
        self._node_id = np.zeros(capacity, np.uint64)
        self._node_root = np.zeros(capacity, np.int64)
        self._parent = np.zeros(capacity, np.int64)
        self._seen_row = np.zeros(capacity, np.int64)
        self._hint = np.full(capacity, -1, np.int64)
        self._root_hint = np.full(16, -1, np.int64)
        self._table = np.zeros(max(8, 2 * capacity), np.uint64)
        self._secret = table_secret()

    def __len__(self) -> int:
        """Return the number of distinct ids in rows without a conflict."""
        return self._count

    def add(
        self, root: NDArray[np.int64], offsets: NDArray[np.int64], ids: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Check ``n`` more rows; rows are numbered from 0 over all calls.

        Args:
            root: int64[n], namespace index of each row; the same id in two namespaces is two ids.
            offsets: int64[n + 1], where each row begins in ``ids``.
            ids: uint64[m].

        Returns:
            int64[n], position in its row (from 0) of the first id that followed another id in an earlier row, or
            that the row itself has twice; -1 where there is none.

        Raises:
            InternalError: The arrays do not fit each other.
        """
        root, offsets, ids = (
            read_only(root, np.int64),
            read_only(offsets, np.int64),
            read_only(ids, np.uint64),
        )
        check_rows(root, offsets, ids.shape[0])
        roots = int(root.max(initial=-1)) + 1
        have = self._root_hint.shape[0]
        if roots > have:
            self._root_hint = np.concatenate(
                [self._root_hint, np.full(max(roots, 2 * have) - have, -1, np.int64)]
            )
        conflict = np.empty(root.shape[0], np.int64)
        row = 0
        while True:
            row, self._count = check_rows_kernel(
                root, offsets, ids, row, self._rows,
                self._node_id, self._node_root, self._parent, self._seen_row, self._hint, self._root_hint,
                self._table, self._secret, self._count, conflict,
            )  # fmt: skip
            if row == root.shape[0]:
                break
            self._double()
        self._rows += root.shape[0]
        return conflict

    def first_row(self, root: int, value: int) -> int:
        """Return the number of the row without a conflict that had an id first.

        Args:
            root: Namespace index.
            value: The id.

        Returns:
            Row number, counted from 0 over all calls of ``add``; -1 if no such row has the id, as when a row names
            one id twice.
        """
        node = find_id(
            np.int64(root), np.uint64(value), self._node_id, self._node_root, self._table, self._secret
        )
        return int(self._seen_row[node]) if node >= 0 else -1

    def _double(self) -> None:
        more = self._parent.shape[0]
        self._node_id = np.concatenate([self._node_id, np.zeros(more, np.uint64)])
        self._node_root = np.concatenate([self._node_root, np.zeros(more, np.int64)])
        self._parent = np.concatenate([self._parent, np.zeros(more, np.int64)])
        self._seen_row = np.concatenate([self._seen_row, np.zeros(more, np.int64)])
        self._hint = np.concatenate([self._hint, np.full(more, -1, np.int64)])
        self._table = np.zeros(max(8, 4 * more), np.uint64)
        fill_id_table(self._node_id, self._node_root, self._count, self._table, self._secret)
