"""A believable report without a pipeline behind it: 20 tenants, 4 replicas, 7 days, an incident in mid-week."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from decimal import Decimal

from prefixledger.report.books import Book, Detail, Observed
from prefixledger.report.findings import derive
from prefixledger.report.parts import (
    Breakdown,
    Bucket,
    Cost,
    Event,
    Group,
    Prefix,
    Prefixes,
    Replica,
    ReplicaSlice,
    Rung,
    Source,
    Timeline,
)
from prefixledger.report.view import Provenance, ReportView, Result, Setup, Window
from prefixledger.schema import CAUSES
from report_curves import ALL, HOUR_US, REPLICAS, START_US, curves

HOURS = 168
INCIDENT = range(58, 75)
TENANTS = 20

TOML = """name = "as-is"
seed = 0

[[pool]]
name = "engine"
[pool.cache]
profile = "vllm"
capacity = "60000 blocks"
ttl = "none"
[pool.fleet]
routing = "as-logged"
replica_grace = "10m"
"""


def split(total: int, weights: list[float]) -> list[int]:
    """Cut a whole number in proportion to weights; the parts sum to it."""
    scale = sum(weights)
    cuts, seen = [0], 0.0
    for weight in weights:
        seen += weight
        cuts.append(round(total * seen / scale))
    return [b - a for a, b in itertools.pairwise(cuts)]


def misses(**tokens: int) -> dict[str, int]:
    """Return missed tokens of every cause, in the order of the account."""
    return {cause: tokens.get(cause, 0) for cause in CAUSES}


def added(rows: list[dict[str, int]]) -> dict[str, int]:
    """Add miss columns up."""
    return {cause: sum(row[cause] for row in rows) for cause in CAUSES}


def buckets() -> tuple[Bucket, ...]:
    """Hourly traffic with day and night, and a deploy that breaks the prefix between two days."""
    rng = random.Random(11)
    rows = []
    for hour in range(HOURS):
        day = 1 + 0.75 * math.sin((hour % 24 - 9) / 24 * 2 * math.pi)
        weekend = 0.45 if hour // 24 >= 5 else 1.0
        prompt = round(2_300_000 * day * weekend * rng.uniform(0.9, 1.1)) + 90_000
        broken = 0.62 if hour in INCIDENT else 0.0
        cold = 0.35 if hour < 2 else 0.055
        parts = {
            "uncacheable": 0.012,
            "invalidated": 0.18 if hour == 120 else 0.002,
            "expired": 0.03,
            "evicted": 0.05 + 0.09 * max(day - 1, 0),
            "misrouted": 0.045,
            "key_changed": broken,
            "cold": cold,
        }
        hit = max(0.02, 1 - sum(parts.values()))
        tokens = split(prompt, [hit, *(parts.get(c, 0.0) for c in CAUSES)])
        seen = tokens[0] - round(tokens[0] * 0.03)
        rows.append(
            Bucket(
                START_US + hour * HOUR_US,
                max(1, prompt // 10_400),
                prompt,
                tokens[0],
                dict(zip(CAUSES, tokens[1:], strict=True)),
                observed_prompt_tokens=prompt // 3,
                observed_hit_tokens=min(seen, prompt) // 3,
            )
        )
    return tuple(rows)


def cut(rows: tuple[Bucket, ...], weights: list[float]) -> list[tuple[int, int, int, dict[str, int]]]:
    """Split the totals of all buckets into (requests, prompt, hits, misses) by weight; each part closes."""
    rng = random.Random(len(weights))
    hits = split(sum(b.hit_tokens for b in rows), [w * rng.uniform(0.7, 1.2) for w in weights])
    lost = {
        c: split(sum(b.misses[c] for b in rows), [w * rng.uniform(0.2, 2) for w in weights]) for c in CAUSES
    }
    lost["key_changed"] = split(sum(lost["key_changed"]), [8 * weights[0], *weights[1:]])
    requests = split(sum(b.requests for b in rows), weights)
    parts = []
    for i, hit in enumerate(hits):
        own = {c: lost[c][i] for c in CAUSES}
        parts.append((requests[i], hit + sum(own.values()), hit, own))
    return parts


def prefix_tree(total_tokens: int, total_hits: int) -> Prefixes:
    """One system prompt, 20 tenants below it with one far larger, a few sessions below that one."""
    rng = random.Random(3)
    root = "5e" * 16
    share = [0.3, *([0.55 / TENANTS] * TENANTS)]
    own = split(total_tokens, [*share, 0.15])
    hit = split(total_hits, [0.3, *(0.55 / TENANTS * rng.uniform(0.4, 1.2) for _ in range(TENANTS)), 0.05])
    hit = [min(h, o) for h, o in zip(hit, own, strict=True)]
    rows = []
    for i in range(TENANTS):
        key = f"{rng.getrandbits(128):032x}"
        lost = own[i + 1] - hit[i + 1]
        rows.append(
            Prefix(
                key, root, 1, f"tenant-{i + 1}", 10_240, 1700 - 60 * i, (1700 - 60 * i) / 168, 4, own[i + 1],
                hit[i + 1], own[i + 1], hit[i + 1], 1 - hit[i + 1] / own[i + 1], Decimal(lost), Decimal(lost),
                "prefill tokens", misses(evicted=lost // 2, key_changed=lost - lost // 2),
            )
        )  # fmt: skip
    rows.sort(key=lambda p: (-(p.below_excess_cost or 0), p.key))
    below, below_hit = sum(own[:-1]), sum(hit[:-1])
    lost = own[0] - hit[0]
    top = Prefix(
        root, None, 0, "all tenants", 4_096, 34_000, 202.4, 4, own[0], hit[0], below, below_hit, 1 - hit[0] / own[0],
        Decimal(lost), Decimal(below - below_hit), "prefill tokens", misses(key_changed=lost),
    )  # fmt: skip
    rest = own[-1] - hit[-1]
    tail = Prefix(
        None, None, 0, "(unshared)", 0, 34_000, 202.4, 4, own[-1], hit[-1], own[-1], hit[-1], 1.0, Decimal(rest),
        Decimal(rest), "prefill tokens", misses(cold=rest),
    )  # fmt: skip
    shown = (top, *rows, tail)
    wide = tuple(sorted(shown[:-1], key=lambda p: (-p.below_tokens, p.level)))
    return Prefixes(
        shown, tuple(sorted(shown, key=lambda p: -(p.own_tokens - p.own_hit_tokens))), len(rows) + 1, wide
    )


def replica_slices(rows: tuple[Bucket, ...]) -> tuple[ReplicaSlice, ...]:
    """Every replica in every hour; one of them is gone for a day."""
    return tuple(
        ReplicaSlice(
            name, 0, b.at_us, b.requests // REPLICAS, b.prompt_tokens // REPLICAS, b.hit_tokens // REPLICAS
        )
        for n, name in enumerate(ALL)
        for hour, b in enumerate(rows)
        if n or hour // 24 != 4
    )


def events() -> tuple[Event, ...]:
    """The release, its repair, and a restart."""
    return (
        Event(
            "deploy-1",
            START_US + 58 * HOUR_US,
            "deploy",
            ALL,
            "v42: clock on top of the prompt",
            0,
            0.78,
            0.11,
            None,
        ),
        Event("deploy-2", START_US + 75 * HOUR_US, "deploy", ALL, "v43", 0, 0.12, 0.8, 1_260.0),
        Event(
            "restart-1", START_US + 120 * HOUR_US, "restart", ("vllm-2",), None, 430_000, 0.81, 0.64, 4_020.0
        ),
    )


def source(**changes: object) -> Source:
    """One clean log."""
    base = Source(
        "logs/week.jsonl.zst", "0123456789abcdef", "vllm", "first lines have prompt_token_ids", 48_113_220, 36_014, 34_960,
        rejected=41, duplicates=1_000, joined=0, skipped=13, reasons={"bad json": 40, "cached above prompt": 1, "health check": 13},
        block_size=16, block_ids="exact", id_scope="global", clock="absolute",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def setup(**changes: object) -> Setup:
    """A scenario: vLLM with a stated capacity."""
    base = Setup(("vllm",), "60000 blocks", False, "none", "as-logged", "logged", "prefill tokens", TOML)
    return replace(base, **changes)  # type: ignore[arg-type]


def result(rows: tuple[Bucket, ...], **changes: object) -> Result:
    """Books whose parts are the buckets'."""
    prompt, hit = sum(b.prompt_tokens for b in rows), sum(b.hit_tokens for b in rows)
    lost = added([dict(b.misses) for b in rows])
    requests = sum(b.requests for b in rows)
    total = Book("all", requests, round(requests * 0.93), prompt, prompt // 30, hit, lost)
    ideal = hit + sum(lost[c] for c in ("invalidated", "expired", "evicted", "misrouted"))
    seen_prompt, seen_hit = (
        sum(b.observed_prompt_tokens for b in rows),
        sum(b.observed_hit_tokens for b in rows),
    )
    seen = None
    if seen_prompt:
        rest = split(seen_prompt - seen_hit, [lost[c] + (1 if c == "unexplained" else 0) for c in CAUSES])
        seen = Observed(
            Book("observed", requests // 3, requests // 4, seen_prompt, 0, seen_hit, dict(zip(CAUSES, rest, strict=True))),
            seen_prompt - seen_hit, None, None, None, seen_hit + 900_000, seen_prompt, 1_400_000, 500_000, 0.971,
        )  # fmt: skip
    rungs, left = [Rung("pooled", prompt, ideal, prompt - ideal)], ideal
    for name, cause in (
        ("per_replica", "misrouted"),
        ("resets", "invalidated"),
        ("ttl", "expired"),
        ("capacity", "evicted"),
    ):
        left -= lost[cause]
        rungs.append(Rung(name, prompt, left, lost[cause]))
    cost = Cost(
        "prefill tokens", Decimal(prompt), Decimal(prompt - hit), None, (prompt - hit) / prompt if prompt else None,
        {c: Decimal(lost[c]) for c in CAUSES}, "engine default: a written token costs 1, a read one nothing",
    )  # fmt: skip
    base = Result(
        "as-is", setup(), total, (replace(total, basis="simulated"),), 27, 0, ideal,
        tuple(sorted(details(lost), key=lambda d: -d.tokens)), seen, (cost,), tuple(rungs),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def details(lost: dict[str, int]) -> list[Detail]:
    """Give every cause its details."""
    names: dict[str, list[tuple[str | None, str | None]]] = {
        "uncacheable": [("partial_block", None), ("last_token", None)],
        "invalidated": [("restart", "here"), ("deploy", "here")],
        "expired": [(None, "here")],
        "evicted": [(None, "here"), (None, "elsewhere")],
        "misrouted": [(None, None)],
        "key_changed": [("prefix_edited", None)],
        "cold": [("new_content", None), ("window_start", None)],
    }
    found = []
    for cause, ways in names.items():
        for (detail, where), tokens in zip(ways, split(lost[cause], [3.0, 1.0][: len(ways)]), strict=True):
            if tokens:
                found.append(Detail(cause, detail, where, tokens))
    return found


def week(**changes: object) -> ReportView:
    """The whole week; ``changes`` replace fields of the view."""
    rows = buckets()
    main = result(rows)
    total = main.total
    tenants = cut(rows, [4.0, *(1.0 / (i + 1) for i in range(TENANTS - 1))])
    replicas = cut(rows, [1.0, 1.1, 0.9, 1.9])
    view = ReportView(
        results=(main,),
        window=Window(
            START_US, START_US + HOURS * HOUR_US, "UTC", False, "last whole ISO week",
            "Warm-up of the 4 replicas ended between Mon 23 Nov 00:41 and 01:00.",
        ),
        sources=(source(),),
        made=Provenance("0.1.0", 0, "9f" * 16, ("20_misses/misses.sql",)),
        timeline=Timeline(3600, rows),
        breakdowns=(
            Breakdown("tenant", tuple(Group(f"tenant-{i + 1}", n, p, h, m) for i, (n, p, h, m) in enumerate(tenants))),
        ),
        prefixes=prefix_tree(total.prompt_tokens, total.hit_tokens),
        replicas=tuple(Replica(f"vllm-{i}", n, p, h, m) for i, (n, p, h, m) in enumerate(replicas)),
        curves=(curves(total.prompt_tokens, main.ideal_hit_tokens or 0),),
        events=events(),
        replica_slices=replica_slices(rows),
    )  # fmt: skip
    view = replace(view, **changes)  # type: ignore[arg-type]
    return replace(view, findings=derive(view)) if "findings" not in changes else view


def nothing(*, failed: int = 0, requests: int = 0) -> ReportView:
    """A window without a lookup."""
    book = Book("all", requests, 0, 0, 0, 0, misses())
    main = Result("as-is", setup(), book, (), failed)
    return ReportView((main,), Window(START_US, START_US + HOURS * HOUR_US), (source(),), Provenance("0.1.0"))


def one_request() -> ReportView:
    """A window with one lookup, all of it cold."""
    book = Book("all", 1, 0, 4_100, 12, 0, misses(cold=4_096, uncacheable=4))
    main = Result("as-is", setup(), book, (replace(book, basis="simulated"),), ideal_hit_tokens=0)
    bucket = Bucket(START_US, 1, 4_100, 0, book.misses)
    return ReportView(
        (main,), Window(START_US, START_US + 1), (source(),), Provenance("0.1.0"), Timeline(60, (bucket,)),
        replicas=(Replica("(all)", 1, 4_100, 0, book.misses),),
    )  # fmt: skip


def all_cold() -> ReportView:
    """A log in which nothing repeats."""
    rows = tuple(
        replace(b, hit_tokens=0, misses=misses(cold=b.prompt_tokens), observed_prompt_tokens=0)
        for b in buckets()
    )
    main = result(rows)
    asked = main.total.prompt_tokens
    main = replace(main, ideal_hit_tokens=0, ladder=(Rung("pooled", asked, 0, asked),))
    total = replace(main.total, requests_with_hit=0)
    main = replace(main, total=total, by_basis=(replace(total, basis="simulated"),))
    base = week(
        results=(main,), timeline=Timeline(3600, rows), breakdowns=(), curves=(), events=(), replica_slices=()
    )
    replica = Replica("(all)", total.requests, total.prompt_tokens, 0, total.misses)
    return replace(base, replicas=(replica,), prefixes=Prefixes(()), findings=())
