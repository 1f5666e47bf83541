from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extent_support import assert_equal, log_of, run_kernel, run_twin
from prefixledger.replay import extents
from support import ROOT
from twins.forests import random_log
from twins.vllm_blocks import Row


@settings(deadline=None, max_examples=150)
@given(rng=st.randoms(use_true_random=False))
def test_extents_equal_physical_blocks(rng):
    """Hits, admissions, releases, refusals, ignored flushes and every removal equal those of the block-by-block twin."""
    assert_equal(replace(random_log(rng, longest=15), most_running=rng.choice([1, 2, 3, 1 << 30])))


@pytest.mark.parametrize("output", ["ignore", "at_release", "as_decoded"])
def test_extents_equal_physical_blocks_under_pressure(output):
    """The same on longer logs, most of which wait, evict, expire, copy and refuse."""
    seen = Counter()
    for seed in range(400):
        log = random_log(random.Random(seed), output=output)
        log = replace(log, most_running=(1 << 30, 1, 1 << 30, 2, 4)[seed % 5])
        assert_equal(log)
        answer = run_twin(log)
        seen["waits"] += sum(a > row.arrival for a, row in zip(answer.admitted, log.rows, strict=True))
        seen["refused"] += sum(answer.refused)
        seen["preempted"] += sum(answer.preempted.values())
        seen["ignored"] += sum(answer.ignored)
        for cause, *_, gone in answer.removed:
            seen[cause] += 1
            seen["copies"] += not gone
    assert min(seen[k] for k in ("waits", "refused", "evicted", "expired", "copies")) > 500, seen
    assert seen["ignored"] > 20
    assert seen["preempted"] > 200 or output != "as_decoded", seen


def test_extents_equal_physical_blocks_where_lookups_are_skipped():
    """A request that skips the lookup hits nothing and leaves second copies of whatever is there."""
    copies = 0
    for seed in range(300):
        rng = random.Random(seed)
        log = random_log(rng)
        for row in log.rows:
            row.bypassed = rng.random() < 0.4
        assert_equal(log)
        copies += sum(not gone for *_, gone in run_twin(log).removed)
    assert copies > 500


@pytest.mark.parametrize("seed", [2466, *range(20)])
def test_extents_equal_physical_blocks_where_a_copy_expires_before_its_children(seed):
    """The copy of a request that skipped its lookup steps in, nobody has used it, and what is below it lives on (seed 2466)."""
    rng = random.Random(seed)
    log = random_log(rng, longest=40)
    for row in log.rows:
        row.bypassed = rng.random() < 0.35
    assert_equal(replace(log, ttl=rng.randint(3, 25)))


def test_extents_equal_physical_blocks_of_older_versions():
    """Where freed slots without a key wait behind all others nothing else differs from the twin, and hits do change."""
    changed = 0
    for seed in range(400):
        log = random_log(random.Random(seed))
        assert_equal(log, in_line=True)
        changed += run_twin(log, in_line=True).hit != run_twin(log).hit
    assert changed > 15


@pytest.mark.slow
def test_extents_equal_physical_blocks_at_length():
    """No difference in 30,000 random logs."""
    for seed in range(30_000):
        log = replace(random_log(random.Random(1_000_000 + seed)), most_running=(1 << 30, 2, 3)[seed % 3])
        assert_equal(log, in_line=seed % 4 == 0)


def test_kernel_stays_inside_its_arrays():
    """Run as plain Python, where numpy checks every index, the kernel gives the same answers."""
    code = (
        "import random\nfrom unit_replay import assert_equal\nfrom twins.forests import random_log\n"
        "for seed in range(60):\n    assert_equal(random_log(random.Random(seed), longest=25), in_line=seed % 3 == 0)\n"
    )
    code = code.replace(
        "from unit_replay import assert_equal",
        "import importlib.util as u, sys\n"
        f"s = u.spec_from_file_location('unit_replay', {__file__!r})\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m); assert_equal = m.assert_equal",
    )
    paths = os.pathsep.join([str(ROOT / "pipeline"), str(ROOT / "tests")])

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr


A, B, C, D, E = 0, 1, 2, 3, 4


@settings(deadline=None, max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_more_capacity_never_lowers_hits_one_at_a_time(rng):
    """Under residence none and output ignore, copies included, once the largest prompt fits."""
    log = random_log(rng, output="ignore")
    for row in log.rows:
        row.hold = row.prefill = 0
    largest = max(-(-row.tokens // log.block) for row in log.rows)

    hits = [run_kernel(log, capacity=c)[0].hit_blocks.sum() for c in range(largest, largest + 12)]

    assert hits == sorted(hits)


def test_tables_that_run_full_are_enlarged(monkeypatch):
    """A table that is too small at first changes no result."""
    log = random_log(random.Random(5), output="as_decoded")
    expected, _ = run_kernel(log, log_removals=True)
    deep = log_of(
        list(range(-1, 63)), [Row(i, 0, 2 * i + 1, list(range(i)), i, hold=99) for i in range(1, 64)], 2, 9999
    )
    monkeypatch.setattr(extents, "FIRST_ROWS", 2)

    found, _ = run_kernel(log, log_removals=True)
    many, _ = run_kernel(deep)

    assert found.hit_blocks.tolist() == expected.hit_blocks.tolist()
    assert found.removals.hi.tolist() == expected.removals.hi.tolist()
    assert many.hit_blocks.tolist() == list(range(63))
