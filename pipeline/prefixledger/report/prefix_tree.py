"""Picks the shared prefixes that matter out of what may be thousands, and puts them into a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.report.from_marts import missed
from prefixledger.report.parts import Prefix, Prefixes

if TYPE_CHECKING:
    import pyarrow as pa

BY_OWN = 30
BY_BRANCH = 12
"""Rows of the page: the costliest by themselves, and the costliest branches; together they show the shape."""

PRICED = 12
"""Rows of what prefixes cost in money."""

KEPT = 1_000
"""Rows of the JSON twin and the CSV; ``marts/prefixes.parquet`` of the workspace has all."""

DRAWN_SHARE = 0.001
DRAWN = 400
"""Nodes of the picture: of those that one token in a thousand passes through, as many as fit."""

UNSHARED = "(unshared)"

_LEAST_S = 600
"""Of a shorter window nobody should say how much comes in an hour."""


def prefix_tree(table: pa.Table, window_s: float, *, by_reads: bool = False) -> Prefixes:
    """Return the shared prefixes of a window.

    Args:
        table: The mart ``prefixes``: by missed tokens, the row ``(unshared)`` with a null key last.
        window_s: Seconds that the window covers.
        by_reads: Whether what several use is charged to each by the tokens it asks for.
    """
    shared = table.filter(pc.is_valid(table["key"]))
    rest = table.filter(pc.is_null(table["key"]))
    kept = tuple(_prefix(row, window_s) for row in (*shared.slice(0, KEPT).to_pylist(), *rest.to_pylist()))
    candidates = {row["key"]: _prefix(row, window_s) for row in _candidates(shared)}
    parents = dict(zip(shared["key"].to_pylist(), shared["parent_key"].to_pylist(), strict=True))
    shown = _ordered(_chosen(candidates), parents)
    tail = tuple(_prefix(row, window_s) for row in rest.to_pylist())
    priced = (*_priced(shared, window_s), *(row for row in tail if _in_money(row)))
    return Prefixes(
        shown=(*shown, *tail),
        rows=kept,
        nodes=len(shared),
        tree=_drawn(shared, rest, window_s),
        priced=priced if any(_in_money(row) for row in shown) else (),
        by_reads=by_reads,
    )


def _priced(shared: pa.Table, window_s: float) -> tuple[Prefix, ...]:
    """Return the prefixes that cost most money; amounts in several currencies do not compare, then by tokens."""
    mine = shared.filter(
        pc.and_(pc.is_valid(shared["currency"]), pc.not_equal(shared["currency"], PREFILL_TOKENS))
    )
    by = "paid_cost" if len(pc.unique(mine["currency"])) == 1 else "prompt_tokens"
    order = [(by, "descending"), ("key", "ascending")]
    return tuple(_prefix(row, window_s) for row in mine.sort_by(order).slice(0, PRICED).to_pylist())


def _in_money(prefix: Prefix) -> bool:
    return prefix.currency not in ("", PREFILL_TOKENS)


def _drawn(shared: pa.Table, rest: pa.Table, window_s: float) -> tuple[Prefix, ...]:
    """Return the nodes of the picture, the widest first; what a node holds is never more than what its parent does."""
    asked = (pc.sum(shared["prompt_tokens"]).as_py() or 0) + (pc.sum(rest["prompt_tokens"]).as_py() or 0)
    wide = shared.filter(pc.greater(shared["below_prompt_tokens"], round(asked * DRAWN_SHARE)))
    order = [("below_prompt_tokens", "descending"), ("level", "ascending"), ("key", "ascending")]
    return tuple(_prefix(row, window_s) for row in wide.sort_by(order).slice(0, DRAWN).to_pylist())


def _candidates(shared: pa.Table) -> list[dict[str, Any]]:
    """Return the rows that could be shown: those that miss most by themselves, and the heaviest branches."""
    misses = pc.subtract(shared["below_prompt_tokens"], shared["below_hit_tokens"])
    branches = pc.sort_indices(
        shared.select(["key"]).append_column("lost", misses),
        sort_keys=[("lost", "descending"), ("key", "ascending")],
    )
    return [*shared.slice(0, 4 * BY_OWN).to_pylist(), *shared.take(branches[: 4 * BY_BRANCH]).to_pylist()]


def _chosen(candidates: dict[str, Prefix]) -> dict[str, Prefix]:
    """Choose by excess cost; by missed tokens where costs are in several currencies, which do not compare."""
    comparable = len({p.currency for p in candidates.values()}) == 1

    def own(p: Prefix) -> tuple[float, str]:
        lost = p.own_tokens - p.own_hit_tokens
        return (-float(p.excess_cost) if comparable and p.excess_cost is not None else -lost, p.key or "")

    def branch(p: Prefix) -> tuple[float, str]:
        lost = p.below_tokens - p.below_hit_tokens
        return (
            -float(p.below_excess_cost) if comparable and p.below_excess_cost is not None else -lost,
            p.key or "",
        )

    rows = list(candidates.values())
    picked = [*sorted(rows, key=own)[:BY_OWN], *sorted(rows, key=branch)[:BY_BRANCH]]
    return {p.key or "": p for p in sorted(picked, key=branch)}


def _ordered(chosen: dict[str, Prefix], parents: dict[str, str | None]) -> list[Prefix]:
    """Put every row under the nearest row above it that is shown, costliest branch first."""
    children: dict[str | None, list[Prefix]] = {}
    for key, prefix in chosen.items():
        above = parents[key]
        while above is not None and above not in chosen:
            above = parents[above]
        children.setdefault(above, []).append(replace(prefix, parent=above))
    ordered: list[Prefix] = []
    waiting = [(0, p) for p in reversed(children.get(None, []))]
    while waiting:
        level, prefix = waiting.pop()
        ordered.append(replace(prefix, level=level))
        waiting.extend((level + 1, p) for p in reversed(children.get(prefix.key, [])))
    return ordered


def _prefix(row: dict[str, Any], window_s: float) -> Prefix:
    shared = row["key"] is not None
    own, hit = row["prompt_tokens"], row["hit_tokens"]
    return Prefix(
        key=row["key"],
        parent=row["parent_key"],
        level=row["level"] or 0,
        name=_name(row) if shared else UNSHARED,
        depth_tokens=row["depth_tokens"] or 0,
        requests=row["requests"],
        requests_per_hour=row["requests"] * 3600 / window_s if window_s >= _LEAST_S else None,
        replicas=len(row["replicas"] or ()),
        own_tokens=own,
        own_hit_tokens=hit,
        below_tokens=row["below_prompt_tokens"] if shared else own,
        below_hit_tokens=row["below_hit_tokens"] if shared else hit,
        multiplier=row["multiplier"],
        excess_cost=row["excess_cost"],
        below_excess_cost=row["below_excess_cost"] if shared else row["excess_cost"],
        uncached_cost=row["uncached_cost"],
        paid_cost=row["paid_cost"],
        written_tokens=row["written_tokens"],
        unread_tokens=row["unread_tokens"],
        wasted_cost=row["wasted_cost"],
        borne_cost=row["borne_cost"],
        currency=row["currency"] or "",
        misses=missed(row),
    )


def _name(row: dict[str, Any]) -> str:
    """Name a prefix by who uses it: its tenant, else how many; its model and adapter where it has one."""
    parts = []
    if row["tenants"]:
        parts.append(row["tenant"] if row["tenants"] == 1 else f"{row['tenants']} tenants")
    if row["adapter"]:
        parts.append(f"adapter {row['adapter']}")
    if row["model"] and not parts:
        parts.append(row["model"])
    return ", ".join(parts) or "prefix"
