"""Replays the replicas of a pool beside each other: once it is known who asks whom, no cache sees another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prefixledger.engine.base import Work
from prefixledger.replay.extents import Output, Removals, Resets, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from prefixledger.engine import Engine
    from prefixledger.replay.chains import Chains

REPLICAS = Work("replicas", "replays the cache of one replica", threads=True)
FEWEST_LOOKUPS = 100_000
"""Fewer are replayed in 15 ms by one core, less than it takes to part them."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Part:
    """What asks one replica.

    Attributes:
        replica: Its number in the pool; in the part it is 0.
        rows: int64[k], its lookups among those of the pool.
        traffic: These lookups.
        output: Their output.
        resets: Of this replica.
        reset_rows: int64[r], their places among those of the pool.
    """

    replica: int
    rows: NDArray[np.int64]
    traffic: Traffic
    output: Output | None
    resets: Resets
    reset_rows: NDArray[np.int64]


def replay_apart(
    replay: Callable[..., R],
    traffic: Traffic,
    chains: Chains,
    engine: Engine | None,
    *,
    replicas: int,
    output: Output | None,
    resets: Resets,
    **rules: Any,
) -> R:
    """Replay a pool, its replicas as tasks where there are many lookups; what comes out is the same.

    Args:
        replay: Replays a pool in one go; named in a module.
        traffic: Its lookups.
        chains: The forest, cut into chains.
        engine: What runs the tasks; None: all in one go.
        replicas: Number of replicas.
        output: None: ignored.
        resets: Those of all replicas.
        rules: Further arguments of ``replay``, the same for every replica.
    """
    asked = np.flatnonzero(np.bincount(traffic.replica, minlength=replicas))
    if engine is None or asked.size < 2 or len(traffic.replica) < FEWEST_LOOKUPS:  # noqa: PLR2004  # one alone
        whole: R = replay(traffic, chains, replicas=replicas, output=output, resets=resets, **rules)
        return whole
    parts = [_part(traffic, output, resets, number) for number in asked.tolist()]
    found = list(engine.map(REPLICAS, _replay_part, parts, (replay, chains, rules)))
    joined: R = _joined(parts, found, len(traffic.replica), replicas, resets.at_us.size)
    return joined


def _replay_part(shared: tuple[Callable[..., R], Chains, dict[str, Any]], part: _Part) -> R:
    replay, chains, rules = shared
    found: R = replay(part.traffic, chains, replicas=1, output=part.output, resets=part.resets, **rules)
    return found


def _part(traffic: Traffic, output: Output | None, resets: Resets, replica: int) -> _Part:
    rows, reset_rows = np.flatnonzero(traffic.replica == replica), np.flatnonzero(resets.replica == replica)
    begin, length = traffic.path_offset[rows], np.diff(traffic.path_offset)[rows]
    offset = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    entry = np.arange(offset[-1]) + np.repeat(begin - offset[:-1], length)
    own = {
        field.name: value[rows]
        for field in fields(Traffic)
        if not field.name.startswith("path_") and (value := getattr(traffic, field.name)) is not None
    }
    return _Part(
        replica=replica,
        rows=rows,
        traffic=replace(
            traffic,
            **{
                **own,
                "replica": np.zeros(rows.size, np.int32),
                "path_offset": offset,
                "path_chain": traffic.path_chain[entry],
            },
        ),
        output=None
        if output is None
        else replace(output, tokens=output.tokens[rows], keyed_blocks=output.keyed_blocks[rows]),
        resets=Resets(
            resets.at_us[reset_rows], np.zeros(reset_rows.size, np.int32), resets.force[reset_rows]
        ),
        reset_rows=reset_rows,
    )


def _joined(parts: Sequence[_Part], found: Sequence[R], lookups: int, replicas: int, resets: int) -> R:
    """Put what was found of each replica in the places that the pool has for it.

    Every array is of lookups but those named here; ``in_flight`` also numbers lookups.
    """
    whole: dict[str, Any] = {}
    for field in fields(found[0]):  # type: ignore[arg-type]  # a frozen dataclass of arrays, whichever profile it is of
        name, values = field.name, [getattr(one, field.name) for one in found]
        if values[0] is None:
            whole[name] = None
        elif name == "removals":
            whole[name] = _removals(parts, values)
        elif name in ("first_eviction_us", "peak_blocks"):
            empty = -1 if name == "first_eviction_us" else 0
            whole[name] = _placed([[part.replica] for part in parts], values, replicas, empty)
        elif name == "reset_ignored":
            whole[name] = _placed([part.reset_rows for part in parts], values, resets, 0)
        else:
            if name == "in_flight":
                values = [_renumbered(part, value) for part, value in zip(parts, values, strict=True)]
            whole[name] = _placed([part.rows for part in parts], values, lookups, 0)
    return replace(found[0], **whole)  # type: ignore[type-var]  # as above


def _placed(at: Sequence[Any], values: Sequence[NDArray[Any]], size: int, empty: int) -> NDArray[Any]:
    whole = np.full(size, empty, values[0].dtype)
    for places, value in zip(at, values, strict=True):
        whole[places] = value
    return whole


def _removals(parts: Sequence[_Part], values: Sequence[Removals]) -> Removals:
    """List them by replica and time, as one replay does."""
    listed = [
        replace(
            removals,
            lookup=_renumbered(part, removals.lookup),
            replica=np.full(removals.replica.size, part.replica, removals.replica.dtype),
            after=None if removals.after is None else _renumbered(part, removals.after),
        )
        for part, removals in zip(parts, values, strict=True)
    ]
    joined: dict[str, Any] = {
        field.name: None
        if getattr(listed[0], field.name) is None
        else np.concatenate([getattr(each, field.name) for each in listed])
        for field in fields(Removals)
    }
    return Removals(**joined)


def _renumbered(part: _Part, lookup: NDArray[Any]) -> NDArray[Any]:
    """Return lookups of a replica as they are numbered in the pool; none, -1, stays none."""
    numbers: NDArray[Any] = np.append(part.rows, -1).astype(lookup.dtype)[lookup]
    return numbers
