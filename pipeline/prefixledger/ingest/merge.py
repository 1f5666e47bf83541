"""Makes one row of all pieces of a request: the largest counts, and of everything else what was said last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST: Final = frozenset(
    {
        "prompt_tokens",
        "output_tokens",
        "cached_tokens",
        "cache_write_5m_tokens",
        "cache_write_1h_tokens",
        "cache_write_other_tokens",
        "router_expected_tokens",
        "finished_us",
    }
)
_SMALLEST: Final = frozenset({"admitted_us", "first_token_us"})
_PATH: Final = frozenset({"keyed", "n_blocks", "block_size", "namespace_number", "prompt_complete"})


class Pieces:
    """Which rows make up which request."""

    def __init__(self, leader: NDArray[np.int64]) -> None:
        """Sort rows by request.

        Args:
            leader: int64[rows], first row of the request that each row belongs to.
        """
        self._order = np.argsort(leader, kind="stable")
        self._sorted = leader[self._order]
        self.any = bool((leader != np.arange(leader.size)).any())

    def members(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[m] rows of some requests one after the other, and int64[k] where each request begins.

        Args:
            rows: int64[k], first rows of the requests.
        """
        first = np.searchsorted(self._sorted, rows)
        counts = np.searchsorted(self._sorted, rows, side="right") - first
        begins = np.cumsum(counts) - counts
        at = np.repeat(first - begins, counts) + np.arange(int(counts.sum()))
        return self._order[at], begins


def merged(columns: dict[str, pa.Array], begins: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return one row for each request.

    Args:
        columns: The pieces of all requests, request by request, in order of the input.
        begins: int64[k], where each request begins.
    """
    n_rows = len(columns["keyed"])
    everywhere = np.ones(n_rows, np.bool_)
    last = _last(everywhere, begins)
    keyed = np.asarray(columns["keyed"].to_numpy(zero_copy_only=False), np.bool_)
    path = np.where(_last(keyed, begins) >= 0, _last(keyed, begins), last)
    return {name: _one(name, column, begins, path, last) for name, column in columns.items()}


def _one(
    name: str, column: Any, begins: NDArray[np.int64], path: NDArray[np.int64], last: NDArray[np.int64]
) -> pa.Array:
    if name in _PATH:
        return column.take(pa.array(path))
    if name in _LARGEST or name in _SMALLEST:
        return _extreme(column, begins, largest=name in _LARGEST)
    if name == "usage_state":
        said = np.array([state != "absent" for state in column.to_pylist()], np.bool_)
    else:
        said = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if name == "request_id":  # the id by which the request is known from its first piece on
        first = np.minimum.reduceat(np.where(said, np.arange(said.size), said.size), begins)
        return column.take(pa.array(np.where(first < said.size, first, begins)))
    chosen = _last(said, begins)
    return column.take(pa.array(np.where(chosen >= 0, chosen, last)))


def _last(chosen: NDArray[np.bool_], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last chosen piece of each request, -1 where there is none."""
    return np.maximum.reduceat(np.where(chosen, np.arange(chosen.size), -1), begins)


def _extreme(column: Any, begins: NDArray[np.int64], *, largest: bool) -> pa.Array:
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    missing = np.iinfo(np.int64).min if largest else np.iinfo(np.int64).max
    values = np.where(valid, column.fill_null(0).to_numpy(zero_copy_only=False), missing)
    best = (np.maximum if largest else np.minimum).reduceat(values, begins)
    return pa.array(best, type=column.type, mask=best == missing)
