"""Puts a report together from what the stages before it left in the workspace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger import __version__
from prefixledger.attribute.marts import STEPS, STEPS_BEFORE_PRICES
from prefixledger.attribute.marts import marts as window_marts
from prefixledger.attribute.reconcile import reconcile
from prefixledger.attribute.run import STEPS as CAUSE_STEPS
from prefixledger.attribute.shared_costs import sharing
from prefixledger.attribute.spread import spread_of
from prefixledger.config.scenario import load_scenario
from prefixledger.report import from_marts
from prefixledger.report.curve_points import pool_curves
from prefixledger.report.earlier import earlier
from prefixledger.report.failures import failures
from prefixledger.report.findings import derive
from prefixledger.report.keep_alive import keep_alives
from prefixledger.report.key_changes import key_changes
from prefixledger.report.length_parts import lengths
from prefixledger.report.lifetime_parts import gap_ranges, ttl_changes
from prefixledger.report.longer_lives import longer_lives
from prefixledger.report.money import spends
from prefixledger.report.numbers import moment
from prefixledger.report.parts import Source
from prefixledger.report.policy_parts import policy
from prefixledger.report.prefix_tree import prefix_tree
from prefixledger.report.reject_parts import first_rejects
from prefixledger.report.routing_options import routing_options
from prefixledger.report.view import Provenance, ReportView, Result, Setup, Window
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prefixledger.attribute.marts import Marts
    from prefixledger.attribute.window import Window as Stretch
    from prefixledger.config.scenario import Scenario
    from prefixledger.ingest.invoice import InvoiceLine
    from prefixledger.replay.summary import ReplaySummary
    from prefixledger.workspace import Workspace

_ONE_GAP_US = 3_600_000_000
"""Each replica comes back with its first lookup after a gap; within an hour of each other it is one gap."""


def build(
    workspace: Workspace,
    replays: Sequence[ReplaySummary],
    stretch: Stretch,
    invoice: Sequence[InvoiceLine] = (),
) -> ReportView:
    """Aggregate a window of one or several replays into a report.

    Args:
        workspace: Where ingest, replay and attribution left their files.
        replays: What was replayed; the report is about the first.
        stretch: A filter on arrivals.
        invoice: Lines that the log is held against.

    Raises:
        UsageError: A replay has no books, or a model in it has no rate.
        InternalError: Two cuts of the window do not sum to the same.
    """
    found = [(one, window_marts(workspace, one.name, stretch)) for one in replays]
    first, marts = found[0]
    scenario = load_scenario(first.folder / "scenario.toml")
    window = _window(stretch, first.folder)
    view = ReportView(
        results=tuple(_result(one, its) for one, its in found),
        window=window,
        sources=sources(read_manifest(workspace)),
        made=Provenance(
            version=__version__,
            seed=scenario.seed,
            fingerprint=first.digest,
            queries=tuple(f"{step}.sql" for step in (*CAUSE_STEPS, *STEPS_BEFORE_PRICES, *STEPS)),
        ),
        timeline=from_marts.timeline(marts),
        breakdowns=from_marts.breakdowns(marts),
        prefixes=prefix_tree(marts.prefixes, window.length_s, by_reads=sharing(scenario).num_rows > 0),
        replicas=from_marts.replicas(marts),
        balances=from_marts.balances(marts),
        routing=routing_options(found),
        branches=from_marts.branches(marts),
        curves=pool_curves(first, scenario, marts),
        events=from_marts.events(marts),
        silent_writes=from_marts.silent_writes(marts),
        gaps=gap_ranges(marts.gaps),
        failures=failures(marts.failures),
        keep_alive=keep_alives(marts.keep_alive),
        longer_lives=longer_lives(marts.longer_lives, marts.cards),
        ttl_changes=ttl_changes(marts.ttl_changes),
        engines=from_marts.engines(marts) if marts.engine_hours.num_rows else None,
        spend=spends(marts.spend),
        reconciliation=reconcile(invoice, marts.billed_days.to_pylist(), stretch) if invoice else None,
        lengths=lengths(marts.lengths),
        policy=policy(marts.policy_days, marts.disagreements),
        replica_slices=from_marts.replica_slices(marts),
        earlier=earlier(marts.before),
        rejects=first_rejects(workspace),
    )
    return replace(view, findings=derive(view))


def sources(manifest: Mapping[str, Any]) -> tuple[Source, ...]:
    """Return the account of every input: those that were read, in the order of the manifest, then those seen before."""
    read = tuple(
        Source(
            path=one["path"],
            digest=one["source"],
            format=one["format"],
            why=one["why"],
            size_bytes=one["bytes"],
            records=one["records"],
            kept=one["kept"],
            rejected=one["rejected"],
            duplicates=one["duplicates"],
            joined=one["joined"],
            skipped=one["skipped"],
            reasons=dict(sorted(one["reasons"].items())),
            truncated_at=one["truncated_at"],
            identical_lines=one["identical_lines"],
            block_size=one["block_size"] or 0,
            block_ids=one["block_ids"],
            id_scope=one["id_scope"],
            clock=one["clock"],
            notes=tuple(one["notes"]),
        )
        for one in manifest["sources"]
    )
    return (*read, *_seen_before(read, manifest.get("history", ())))


def _seen_before(
    read: tuple[Source, ...], history: Iterable[Iterable[Mapping[str, Any]]]
) -> Iterator[Source]:
    """Yield inputs that were given again, all of their records duplicates.

    Those count that one call gave twice, or that a later call gave under another name. The same command once more
    is no news: its report stays the same to the byte.
    """
    given: Counter[tuple[str, str]] = Counter()
    for call in history:
        given |= Counter((entry["source"], entry["path"]) for entry in call)
    for source in read:
        again = given - Counter({(source.digest, source.path): 1})
        for digest, path in again.elements():
            if digest == source.digest:
                yield replace(
                    source, path=path, kept=0, rejected=0, duplicates=source.records, joined=0, skipped=0,
                    reasons={}, truncated_at=None, identical_lines=0, notes=(f"seen before as {source.path}",),
                )  # fmt: skip


def _result(one: ReplaySummary, marts: Marts) -> Result:
    scenario = load_scenario(one.folder / "scenario.toml")
    total, by_basis = from_marts.books(marts)
    given = {p.pool: scenario.pricing_of(scenario.pool[p.pool]).prefill_tokens_per_s for p in one.pools}
    speeds = {pool: speed for pool, speed in given.items() if speed is not None}
    return Result(
        name=one.name,
        setup=_setup(one, scenario),
        total=total,
        by_basis=by_basis,
        spread=spread_of(marts.by_draw, total.hit_tokens, total.prompt_tokens),
        failed_requests=from_marts.left_out(marts, "failed"),
        unmeasured_requests=from_marts.left_out(marts, "unmeasured"),
        ideal_hit_tokens=from_marts.total_of(marts, "ideal_hit_tokens", "simulated"),
        details=from_marts.details(marts),
        key_changes=key_changes(marts.changed_keys.to_pylist()),
        observed=from_marts.observed(marts),
        costs=from_marts.costs(marts),
        ladder=from_marts.ladder(marts),
        running_effect_tokens=from_marts.total_of(marts, "running_effect_tokens") or 0,
        prefill_gpu_hours=from_marts.prefill_hours(marts, speeds),
        affected={row["cause"]: row["requests"] for row in marts.causes.to_pylist()},
        longer_ttl_tokens=pc.sum(marts.causes["longer_ttl_tokens"]).as_py(),
    )


def _setup(one: ReplaySummary, scenario: Scenario) -> Setup:
    pools = [scenario.pool[p.pool] for p in one.pools]
    engines = [p for p, pool in zip(one.pools, pools, strict=True) if not pool.hosted]
    return Setup(
        profiles=_once(p.profile for p in one.pools),
        capacity=", ".join(_once(pool.cache.capacity for pool in pools)),
        # A cache with a TTL and no capacity is somebody else's memory, whatever profile it is replayed under.
        unlimited=any(p.capacity_blocks is None and p.ttl_us is None for p in engines),
        ttl=", ".join(_once(pool.cache.ttl for pool in pools)),
        routing=", ".join(_once(p.routing for p in one.pools)),
        residence=", ".join(_once(p.residence for p in one.pools)),
        pricing=", ".join(_once(_priced(scenario, pool.name) for pool in pools)),
        toml=(one.folder / "scenario.toml").read_text(encoding="utf-8"),
        notes=one.notes,
    )


def _priced(scenario: Scenario, name: str | None) -> str:
    """Say in a word what a pool pays with."""
    pool = next(p for p in scenario.pool if p.name == name)
    pricing = scenario.pricing_of(pool)
    if pricing.rates is None:
        return "GPU hours"
    return pricing.rates if isinstance(pricing.rates, str) else pricing.rates.currency


def _once(words: Any) -> tuple[str, ...]:
    """Keep the first of equal words, in order."""
    return tuple(dict.fromkeys(words))


def _window(stretch: Stretch, folder: Path) -> Window:
    window = Window(stretch.from_us, stretch.to_us, stretch.zone, stretch.relative, stretch.why)
    if stretch.to_us <= stretch.from_us:
        return replace(window, from_us=None, to_us=None)
    warm_ups = pq.read_table(folder / "warmups.parquet")
    times = {name: warm_ups[name].cast(pa.int64()) for name in ("from_at", "to_at")}
    inside = pc.and_(pc.less(times["from_at"], stretch.to_us), pc.greater(times["to_at"], stretch.from_us))
    rows = warm_ups.filter(inside).to_pylist()
    resumed = sorted(from_marts.microseconds(r["from_at"]) or 0 for r in rows if r["cause"] == "coverage_gap")
    gaps = [at for n, at in enumerate(resumed) if not n or at - resumed[n - 1] > _ONE_GAP_US]
    ends = [from_marts.microseconds(r["to_at"]) or 0 for r in rows]
    return replace(
        window, warm_up=_warm_up(len({r["replica"] for r in rows}), ends, window), resumed=tuple(gaps)
    )


def _warm_up(replicas: int, ends: list[int], window: Window) -> str:
    if not ends:
        return "All caches were warm when the window began."
    many = f"{replicas} replicas" if replicas > 1 else "1 replica"
    return (
        f"{many} warmed up in this window, the last until {moment(max(ends), window, seconds=True)}; what was first "
        "seen before that is cold, 'first seen during the warm-up'."
    )
