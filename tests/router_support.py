"""Small hand-made traffic for the tests of routers: times in seconds, prompts as lists of block ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from prefixledger.kernels.path_forest import PathForest
from prefixledger.replay.fleet import made_fleet
from prefixledger.replay.lookups import stable_hash
from prefixledger.replay.routers.base import BRANCHES, RouterView
from prefixledger.replay.routing import route
from stage_support import SECOND, ints

BLOCK = 16


def traffic(rows: list[dict[str, Any]], *, replicas: int = 2, seed: int = 0, **view: Any) -> RouterView:
    """Return what a router sees of some requests.

    Args:
        rows: ``at`` (the row number), ``ids`` of the full blocks, ``tokens`` (one more than these hold), ``hold`` (0:
            seconds from arrival to end), ``first`` (0: seconds to the first token), ``session``, ``name``.
        replicas: Replicas that ever live.
        seed: Decides what is drawn.
        view: Other fields of the view.
    """
    forest = PathForest()
    ids = [np.asarray(row.get("ids", ()), np.uint64) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([each.size for each in ids])]).astype(np.int64)
    last = forest.add(np.zeros(len(rows), np.int64), offsets, None, np.concatenate(ids))
    key = np.zeros((len(forest), 2), np.uint64)
    for block, (parent, label) in enumerate(
        zip(forest.parent.tolist(), forest.label_lo.tolist(), strict=True)
    ):
        key[block, 1] = stable_hash(b"%d" % label, int(key[parent, 1]) if parent >= 0 else 0)
    started = ints(*(round(row.get("at", n) * SECOND) for n, row in enumerate(rows)))
    hold, first = (ints(*(round(row.get(name, 0) * SECOND) for row in rows)) for name in ("hold", "first"))
    names = [str(row.get("name", n)).encode() for n, row in enumerate(rows)]
    sessions = [row.get("session") for row in rows]
    return RouterView(
        **{
            "started_us": started,
            "last_block": last,
            "block_size": BLOCK,
            "parent": np.maximum(forest.parent, -1),
            "key": key,
            "hashes": lambda chosen: np.asarray([stable_hash(names[i], seed) for i in chosen], np.uint64),
            "prompt_tokens": ints(*(row.get("tokens", len(row.get("ids", ())) * BLOCK + 1) for row in rows)),
            "first_token_us": started + first,
            "end_us": started + hold,
            "session": np.asarray([stable_hash(str(s).encode(), 0) for s in sessions], np.uint64),
            "has_session": np.asarray([s is not None for s in sessions]),
            "names": tuple(f"r{n}" for n in range(replicas)),
            **view,
        }
    )


def sent(
    routing: str, rows: list[dict[str, Any]], options: Any = None, *, replicas: int = 2, **view: Any
) -> list[tuple[int, str]]:
    """Return the replica and the branch of every request."""
    members = made_fleet(replicas, start_us=0, events=()).membership
    placed = route(routing, traffic(rows, replicas=replicas, **view), members, options)
    return [(int(r), BRANCHES[b]) for r, b in zip(placed.replica, placed.branch, strict=True)]
