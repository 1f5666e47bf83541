"""A cluster of two machines of which one is lost: with it go its tasks and the results that lie there."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import engine_tasks as tasks
from prefixledger.engine import RAY, Work, open_engine
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster
TRY = Work("try", "tries")


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Start a cluster of a driver without a core and two machines with one each, all on the loopback."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "pipeline"), str(ROOT / "tests")]))
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.lost = made.add_node(num_cpus=1)
        made.add_node(num_cpus=1)
        try:
            yield made
        finally:
            made.shutdown()


def test_a_machine_that_is_lost(machines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its address in the environment; every task is done once, by the machine that is left if need be."""
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
    with open_engine(RAY) as engine:
        assert engine.workers == 2
        items, workers = [], set()
        for item, worker in engine.map(TRY, tasks.slow, range(40)):
            items.append(item)
            workers.add(worker)
            if len(workers) == 2 and machines.lost is not None:  # both are at work
                machines.remove_node(machines.lost, allow_graceful=False)
                machines.lost = None
        assert items == list(range(40))
        assert machines.lost is None
        assert engine.times.summaries()[0].tasks == 40
