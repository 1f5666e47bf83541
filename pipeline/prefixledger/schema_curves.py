"""The table contract of what a replay says beyond its own lookups: limits, draws, and curves over capacity and time."""

from __future__ import annotations

from prefixledger.schema import Column, Table

LADDER = Table(
    "ladder",
    (
        Column("lookup", "int", "number of the lookup"),
        Column("pooled", "int", "hit blocks: one unlimited cache for the pool"),
        Column("per_replica", "int", "hit blocks: an unlimited cache per replica"),
        Column("resets", "int", "hit blocks: the same, with resets"),
        Column("ttl", "int", "hit blocks: the same, with the TTL"),
        Column("capacity", "int", "hit blocks: the same, at the capacity, one request at a time"),
        Column("ideal_blocks", "int", "hit blocks: one unlimited cache for everybody, in order of arrival"),
    ),
)

DRAWS = Table(
    "draws",
    (
        Column("draw", "small", "0 is the replay itself, n is the same under its seed plus n"),
        Column("lookup", "int", "number of the lookup in the replay"),
        Column("pool", "small", "index of the pool; only those whose router draws"),
        Column("replica", "small", "index of the replica that it asked"),
        Column("hit_tokens", "int", "tokens that hit"),
    ),
)

SURVIVAL = Table(
    "survival",
    (
        Column("pool", "small", "index of the pool"),
        Column("from_us", "int", "shortest gap of the step"),
        Column("upto_us", "int", "longest gap of the step"),
        Column("lookups", "int", "lookups with usage that could hit after such a gap"),
        Column("observed_share", "float", "share of the tokens that could hit which did"),
        Column("kept_share", "float", "the same, never rising with the gap"),
        Column("low", "float", "lower end of its 95 % interval, from draws of conversations"),
        Column("high", "float", "upper end"),
    ),
)

CAPACITY_CURVE = Table(
    "capacity_curve",
    (
        Column("pool", "small", "index of the pool"),
        Column("capacity_blocks", "int", "usable blocks per replica"),
        Column("hit_blocks", "int", "blocks that hit at that capacity"),
        Column("hit_tokens", "int", "the same in tokens"),
        Column(
            "clairvoyant_tokens",
            "int",
            "tokens that no policy could exceed at it, at some points",
            nullable=True,
        ),
    ),
)

CAPACITY_MARKS = Table(
    "capacity_marks",
    (
        Column("pool", "small", "index of the pool"),
        Column("share", "float", "of the hits without a limit"),
        Column("capacity_blocks", "int", "smallest capacity that hits so much, usable blocks per replica"),
        Column("hit_tokens", "int", "tokens that hit at it"),
    ),
)

CURVE_SURFACE = Table(
    "curve_surface",
    (
        Column("pool", "small", "index of the pool"),
        Column("ttl_us", "int", "time to live, microseconds; null: none", nullable=True),
        Column("capacity_blocks", "int", "usable blocks per replica"),
        Column("hit_blocks", "int", "blocks that hit under both"),
        Column("hit_tokens", "int", "the same in tokens"),
    ),
)

CURVE_PARTS = Table(
    "curve_parts",
    (
        Column("pool", "small", "index of the pool"),
        Column("kind", "text", "replica, prefix, or pooled: one cache for all, without resets"),
        Column("name", "text", "name of the replica, or hex key of the block that prompts share down to"),
        Column("prompt_tokens", "int", "tokens of its lookups"),
        Column("axis", "text", "capacity or ttl"),
        Column("at", "int", "blocks of a cache that all lookups of the replica share, or microseconds"),
        Column("hit_tokens", "int", "tokens of its lookups that hit"),
    ),
)

REUSE = Table(
    "reuse",
    (
        Column("pool", "small", "index of the pool"),
        Column("uses", "int", "uses of a block on one replica"),
        Column("blocks", "int", "blocks that are used so often, each on each replica for itself"),
        Column("span_us", "int", "from the first lookup of the pool to the last"),
    ),
)

GAPS = Table(
    "gaps",
    (
        Column("pool", "small", "index of the pool"),
        Column("rank", "int", "place in an even sample of the blocks that could hit again, from 0"),
        Column("gap_us", "int", "time since the last use of such a block on its replica"),
    ),
)

TTL_CURVE = Table(
    "ttl_curve",
    (
        Column("pool", "small", "index of the pool"),
        Column("ttl_us", "int", "time to live, microseconds"),
        Column("hit_blocks", "int", "blocks that hit with that TTL"),
        Column("hit_tokens", "int", "the same in tokens"),
    ),
)

HELD = Table(
    "held",
    (
        Column("replica", "small", "index of the replica"),
        Column("slice_at", "time", "start of a slice of time in which requests ran"),
        Column("width_us", "int", "width of the slice, microseconds"),
        Column("peak_blocks", "int", "distinct blocks that running requests held at the busiest moment"),
        Column("block_us", "int", "blocks held times microseconds, over the slice"),
    ),
)
