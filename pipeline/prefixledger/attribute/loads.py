"""Load by replica of one trial, and how evenly it is spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from prefixledger.attribute.trial import Trial
    from prefixledger.replay.tally import PoolTally

_FOR_EVER_US = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Loads:
    """What the replicas of all pools were asked.

    Attributes:
        replicas: Each that was asked, in order of pool and name: pool, replica, requests, share, prompt_tokens, hit_tokens,
            prefill_tokens.
        requests: Of all of them.
        prompt_tokens: Of all of them.
        imbalance_requests: Requests of the busiest replica over the mean of all that lived, of the pool where that is most.
        imbalance_prefill: The same of the tokens that had to be computed.
        busiest_prefill_tokens: Those of the busiest replica of the pools with several; None where there is none.
        peak_in_flight: Most requests that ran on one replica at a time; 0 where one at a time is replayed.
        waited_us: Time from asking to be admitted to admission, added up.
    """

    replicas: tuple[Mapping[str, Any], ...]
    requests: int
    prompt_tokens: int
    imbalance_requests: float | None
    imbalance_prefill: float | None
    busiest_prefill_tokens: int | None
    peak_in_flight: int
    waited_us: int


def find_loads(trial: Trial, prompt_tokens: NDArray[np.int64]) -> Loads:
    """Sum the load of a trial.

    Args:
        trial: The trial.
        prompt_tokens: int64[m], of every lookup, by arrival.
    """
    found: dict[tuple[int | None, str], NDArray[np.int64]] = {}

    def add(pool: int | None, replica: str, requests: int, prompt: int, hit: int) -> None:
        sums = found.setdefault((pool, replica), np.zeros(3, np.int64))
        sums += (requests, prompt, hit)

    for tally in trial.pools:
        names = [replica.name for replica in tally.plan.fleet.replicas]
        sums = _sums(tally, prompt_tokens)
        for number in np.flatnonzero(sums[0]).tolist():
            add(tally.plan.index, names[number], *(int(part[number]) for part in sums))
    for row in trial.askers.observed.select(["pool", "replica", "prompt_tokens", "hit_tokens"]).to_pylist():
        add(row["pool"], row["replica"], 1, row["prompt_tokens"], row["hit_tokens"])
    order = sorted(found, key=lambda key: (key[0] is None, key[0] or 0, key[1]))
    requests, prompt, _ = (int(part) for part in sum(found.values(), np.zeros(3, np.int64)))
    replicas: tuple[dict[str, Any], ...] = tuple(
        {
            "pool": pool,
            "replica": name,
            "requests": int(found[pool, name][0]),
            "share": int(found[pool, name][0]) / requests,
            "prompt_tokens": int(found[pool, name][1]),
            "hit_tokens": int(found[pool, name][2]),
            "prefill_tokens": int(found[pool, name][1] - found[pool, name][2]),
        }
        for pool, name in order
    )
    lived = _lived(trial)
    return Loads(
        replicas,
        requests,
        prompt,
        _imbalance(replicas, lived, "requests"),
        _imbalance(replicas, lived, "prefill_tokens"),
        max((row["prefill_tokens"] for row in replicas if lived.get(row["pool"], 0) > 1), default=None),
        max(pool.peak_in_flight for pool in trial.pools),
        sum(pool.waited_us for pool in trial.pools),
    )


def _sums(tally: PoolTally, prompt_tokens: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    replicas = len(tally.plan.fleet.replicas)
    parts = (None, prompt_tokens[tally.lookup], tally.hit_tokens)
    return [np.bincount(tally.replica, part, replicas).astype(np.int64) for part in parts]


def _lived(trial: Trial) -> dict[int, int]:
    """Count the replicas of each pool that lived while anything was admitted, whether or not anybody asked them."""
    times = [pool.admitted_us for pool in trial.pools]
    times.append(trial.askers.observed["admitted_us"].to_numpy())
    seen = np.concatenate(times)
    first, last = int(seen.min()), int(seen.max())
    return {
        pool.plan.index: sum(
            replica.live_from_us <= last
            and (_FOR_EVER_US if replica.live_to_us is None else replica.live_to_us) > first
            for replica in pool.plan.fleet.replicas
        )
        for pool in trial.pools
    }


def _imbalance(replicas: tuple[Mapping[str, Any], ...], lived: Mapping[int, int], name: str) -> float | None:
    found = []
    for pool, alive in lived.items():
        loads = [row[name] for row in replicas if row["pool"] == pool]
        if loads:
            found.append(max(loads) * alive / sum(loads) if sum(loads) else 0.0)
    return max(found, default=None)
