"""Picking shared prefixes and putting them into a tree."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from prefixledger.report.prefix_tree import BY_BRANCH, BY_OWN, prefix_tree
from prefixledger.schema import CAUSES

_INTEGERS = ("level", "depth_tokens", "requests", "tenants", "models", "adapters", "prompt_tokens", "hit_tokens",
             "below_prompt_tokens", "below_hit_tokens", "written_tokens", "unread_tokens", *(f"miss_{c}_tokens" for c in CAUSES))  # fmt: skip
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("key", "parent_key", "tenant", "model", "adapter", "currency")),
        *((name, pa.int64()) for name in _INTEGERS),
        ("replicas", pa.list_(pa.string())),
        ("uncached_cost", pa.decimal128(38, 18)),
        ("paid_cost", pa.decimal128(38, 18)),
        ("wasted_cost", pa.decimal128(38, 18)),
        ("borne_cost", pa.decimal128(38, 18)),
        ("excess_cost", pa.decimal128(38, 18)),
        ("below_excess_cost", pa.decimal128(38, 18)),
        ("multiplier", pa.float64()),
    ]
)


def row(key: str | None, parent: str | None, own: int, below: int, **changes: Any) -> dict[str, Any]:
    """A node that misses ``own`` tokens by itself and ``below`` with its subtree."""
    given = {
        "key": key, "parent_key": parent, "level": 0, "depth_tokens": 16, "requests": 4, "tenants": 1, "tenant": key,
        "models": 1, "model": "m", "adapters": 0, "prompt_tokens": 2 * own, "hit_tokens": own,
        "below_prompt_tokens": 2 * below, "below_hit_tokens": below, "replicas": ["a", "b"], "currency": "prefill tokens",
        "uncached_cost": Decimal(9), "paid_cost": Decimal(5), "excess_cost": Decimal(own),
        "below_excess_cost": Decimal(below), "multiplier": 0.5,
    }  # fmt: skip
    return {**dict.fromkeys(SCHEMA.names, 0), "adapter": None, **given, **changes}


def mart(*rows: dict[str, Any]) -> pa.Table:
    """Rows in the order of the mart: by missed tokens, (unshared) last."""
    shared = sorted(
        (r for r in rows if r["key"]), key=lambda r: (r["hit_tokens"] - r["prompt_tokens"], r["key"])
    )
    return pa.Table.from_pylist([*shared, *(r for r in rows if not r["key"])], schema=SCHEMA)


def test_parents_stand_above_their_children_costliest_branch_first() -> None:
    """Depth first, ranked by cost incl. below; (unshared) comes last."""
    found = prefix_tree(
        mart(
            row("r1", None, 1, 30),
            row("a", "r1", 9, 9),
            row("b", "r1", 20, 20),
            row("r2", None, 5, 50),
            row("c", "r2", 45, 45),
            row(
                None,
                None,
                7,
                7,
                level=None,
                below_prompt_tokens=None,
                below_hit_tokens=None,
                below_excess_cost=None,
            ),
        ),
        7_200,
    )
    assert [(p.key, p.level) for p in found.shown] == [
        ("r2", 0),
        ("c", 1),
        ("r1", 0),
        ("b", 1),
        ("a", 1),
        (None, 0),
    ]
    assert found.nodes == 5
    assert found.left_out == 0
    assert found.shown[-1].name == "(unshared)"
    assert found.shown[-1].below_tokens == found.shown[-1].own_tokens
    assert found.shown[0].requests_per_hour == 2.0


def test_long_chains_keep_the_costly_and_join_them() -> None:
    """A conversation of 500 turns shows the turns that cost; each hangs under the nearest one shown."""
    chain = [row(f"{i:04d}", f"{i - 1:04d}" if i else None, i % 97 + 1, 10**6 - i) for i in range(500)]
    found = prefix_tree(mart(*chain), 3_600)
    assert len(found.shown) <= BY_OWN + BY_BRANCH
    assert found.left_out == 500 - len(found.shown)
    keys = [p.key for p in found.shown]
    assert keys == sorted(keys)
    assert [p.level for p in found.shown] == list(range(len(keys)))
    assert all(p.parent == above for p, above in zip(found.shown, [None, *keys], strict=False))
    assert {p.key for p in found.shown} >= {f"{i:04d}" for i in range(500) if i % 97 + 1 == 97}


def test_costs_in_two_currencies_are_not_compared() -> None:
    """Then missed tokens decide, not the numbers of different money."""
    found = prefix_tree(
        mart(
            row(
                "dear",
                None,
                10,
                10,
                currency="USD",
                excess_cost=Decimal("0.01"),
                below_excess_cost=Decimal("0.01"),
            ),
            row("cheap", None, 5, 5),
        ),
        0.0,
    )
    assert [p.key for p in found.shown] == ["dear", "cheap"]
    assert found.shown[0].requests_per_hour is None


def test_a_prefix_is_named_by_who_uses_it() -> None:
    """One tenant by name, several by number, else the adapter or the model."""
    found = prefix_tree(
        mart(
            row("a", None, 9, 9, tenant="acme"),
            row("b", None, 8, 8, tenants=3, tenant=None),
            row("c", None, 7, 7, tenants=0, tenant=None, adapter="sql"),
            row("d", None, 6, 6, tenants=0, tenant=None),
            row("e", None, 5, 5, tenants=0, tenant=None, model=None),
        ),
        60,
    )
    assert [p.name for p in found.shown] == ["acme", "3 tenants", "adapter sql", "m", "prefix"]


def test_what_prefixes_cost_is_told_in_money_alone() -> None:
    """The dearest first, what nobody shares last; prefill tokens of an engine are on no invoice."""
    paid = [
        row(
            name,
            None,
            own,
            own,
            currency="USD",
            paid_cost=Decimal(cost),
            written_tokens=7,
            borne_cost=Decimal(3),
        )
        for name, own, cost in (("a", 9, 1), ("b", 5, 2))
    ]
    found = prefix_tree(
        mart(*paid, row("c", None, 50, 50), row(None, None, 1, 1, currency="USD")), 60, by_reads=True
    )
    assert [p.key for p in found.priced] == ["b", "a", None]
    assert (found.priced[0].written_tokens, found.priced[0].borne_cost, found.by_reads) == (7, 3, True)
    assert prefix_tree(mart(row("c", None, 50, 50)), 60).priced == ()
