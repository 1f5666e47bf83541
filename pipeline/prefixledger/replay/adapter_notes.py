"""What a replay must say of LoRA adapters: who shares blocks with whom, and what loading one again does to its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.config.engine_versions import adapter_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.config.scenario import Cache
    from prefixledger.replay.lookups import Log
    from prefixledger.replay.plan import PoolPlan


def adapter_notes(plans: Sequence[PoolPlan], log: Log) -> Iterator[str]:
    """Say for every pool whose lookups name adapters how its engine tells their blocks apart.

    An engine puts the adapter into the key of every block, so that base model and adapters never share one; here they are
    namespaces of their own. No log tells when an adapter was loaded again, so a replay keeps its blocks.
    """
    spaces = [json.loads(name) if name.startswith("{") else {} for name in log.forest.namespaces]
    adapters = np.asarray([space.get("adapter") or "" for space in spaces] or [""], dtype=object)
    for plan in plans:
        if plan.pool.hosted:
            continue
        last = log.lookups.last_block[plan.mine]
        named = adapters[log.forest.namespace[last[last >= 0]]]
        named = named[named != ""]
        if named.size:
            yield (
                f"pool {plan.pool.name!r}: {named.size} lookups ask {len(set(named.tolist()))} adapters, which share blocks "
                f"neither with each other nor with the base model; {_again(plan.pool.cache)}"
            )


def _again(cache: Cache) -> str:
    keeps = "the log does not tell when that was, and the replay keeps its blocks"
    if cache.profile == "sglang":
        return (
            "SGLang knows an adapter by an id of its own, a new one whenever it is loaded at runtime, so that one loaded again "
            f"starts anew: {keeps}"
        )
    if cache.profile != "vllm":
        return "what loading one again does is not known"
    engine = "vLLM" if cache.version is None else f"vLLM {cache.version}"
    key = adapter_key(cache.version)
    if key == "id":
        return f"{engine} numbers adapters as it loads them, so that one loaded again starts anew: {keeps}"
    if key == "name":
        return f"{engine} knows an adapter by its name, so that one loaded again keeps its blocks, stale or not, as it does here"
    if key is None:
        return f"whether {engine} knows an adapter by a number, its name or its path was not read; here by its name"
    return (
        f"{engine} knows an adapter by name and path, so that one loaded again from the same path keeps its blocks, and from "
        f"another starts anew: {keeps}"
    )
