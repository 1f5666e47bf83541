"""The table contract of every stage: column, type, unit, null rule and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CAUSES = (
    "uncacheable", "in_flight", "invalidated", "expired", "evicted", "misrouted", "key_changed", "cold", "unexplained",
)  # fmt: skip
"""Causes in the order of the account; every table and chart keeps it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: Its name, with the unit where there is one.
        type: A short type name, see ``arrow_type``.
        meaning: One sentence.
        nullable: Whether null may occur; null always means "not known".
    """

    name: str
    type: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one kind of file, in order."""

    name: str
    columns: tuple[Column, ...]

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema, with each meaning as field metadata."""
        import pyarrow as pa  # noqa: PLC0415  # 0.3 s that --help must not pay

        return pa.schema(
            [
                pa.field(c.name, arrow_type(c.type), nullable=c.nullable, metadata={"meaning": c.meaning})
                for c in self.columns
            ]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(c.name for c in self.columns)


def arrow_type(name: str) -> pa.DataType:
    """Translate a short type name (``int``, ``small``, ``text``, ``time``, ``key``, ``labels`` …)."""
    import pyarrow as pa  # noqa: PLC0415  # 0.3 s that --help must not pay

    types: dict[str, pa.DataType] = {
        "int": pa.int64(),
        "small": pa.int32(),
        "uint": pa.uint64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "time": pa.timestamp("us", tz="UTC"),
        "key": pa.binary(16),
        "bytes": pa.binary(),
        "labels": pa.map_(pa.string(), pa.string()),
    }
    return types[name]


REQUESTS = Table(
    "requests",
    (
        Column("request_id", "text", "id as logged, or source_file:source_line"),
        Column("started_at", "time", "arrival at the service"),
        Column("admitted_at", "time", "when the engine first scheduled it", nullable=True),
        Column("first_token_at", "time", "first output token", nullable=True),
        Column("finished_at", "time", "last output token", nullable=True),
        Column("provider", "text", "who served it: vllm, sglang, anthropic …", nullable=True),
        Column("model", "text", "model as logged", nullable=True),
        Column("release", "text", "release of the calling application", nullable=True),
        Column("client", "text", "calling client or its version", nullable=True),
        Column("tenant", "text", "customer, team or key that asked", nullable=True),
        Column("session_id", "text", "conversation the request belongs to", nullable=True),
        Column("replica", "text", "the cache that was asked", nullable=True),
        Column("adapter", "text", "LoRA adapter", nullable=True),
        Column("cache_salt", "text", "salt that separates caches", nullable=True),
        Column("service_tier", "text", "tier as logged", nullable=True),
        Column("inference_geo", "text", "where it was computed, as the service says", nullable=True),
        Column("labels", "labels", "other short scalar fields of the envelope with 2 to 50 values"),
        Column("namespace", "text", "everything that must be equal before keys may be compared"),
        Column("block_size", "small", "tokens per block; 0 where the row has no keys"),
        Column("prompt_tokens", "int", "tokens the model had to see; 0 of a failed call that nobody counted"),
        Column("output_tokens", "int", "generated tokens", nullable=True),
        Column(
            "cached_tokens_observed", "int", "tokens that the service says it read from cache", nullable=True
        ),
        Column("cache_write_5m_tokens_observed", "int", "tokens written with a 5-minute TTL", nullable=True),
        Column("cache_write_1h_tokens_observed", "int", "tokens written with a 1-hour TTL", nullable=True),
        Column(
            "cache_write_other_tokens_observed",
            "int",
            "tokens written with another TTL, or one that the service does not say",
            nullable=True,
        ),
        Column("usage_state", "text", "absent, null or present: what the log says of cached tokens"),
        Column(
            "router_expected_tokens",
            "int",
            "tokens that the router took to be cached where it sent the request",
            nullable=True,
        ),
        Column("weight", "float", "how many requests this row stands for (sampling)"),
        Column("prompt_complete", "bool", "false where only the head of the prompt was logged"),
        Column(
            "bypassed",
            "bool",
            "whether it told the engine not to read its cache, or had to (prompt logprobs)",
        ),
        Column("status", "text", "ok, failed (never reached the cache) or cut (stopped in mid-stream)"),
        Column("keyed", "bool", "whether the row carries blocks, token ids or text"),
        Column("n_blocks", "small", "full blocks of the prompt that have a key"),
        Column("source_node", "int", "last full block in paths/<source>.parquet", nullable=True),
        Column("content_node", "int", "last piece in contents/<source>.parquet", nullable=True),
        Column("source", "text", "digest that names the source"),
        Column("source_file", "text", "path relative to the SOURCE argument"),
        Column("source_line", "int", "1-based line, row or record number"),
    ),
)

PATHS = Table(
    "paths",
    (
        Column("parent", "int", "row number of the parent; -1 - n for the first block in namespace n"),
        Column("label_hi", "uint", "high half of the block's own label (id, or digest of its token ids)"),
        Column("label_lo", "uint", "low half"),
    ),
)

REJECTS = Table(
    "rejects",
    (
        Column("source_file", "text", "path relative to the SOURCE argument"),
        Column("record", "int", "1-based number of the record in its input"),
        Column("line", "int", "1-based line", nullable=True),
        Column("byte_offset", "int", "start of the record in the decompressed stream", nullable=True),
        Column("reason", "text", "short name of the reason, then the value or field at fault"),
        Column("excerpt", "text", "start of the record, redacted"),
    ),
)

BLOCKS = Table(
    "blocks",
    (
        Column("block", "int", "block number, local to this workspace"),
        Column("parent", "int", "block number of the parent", nullable=True),
        Column("key", "key", "128-bit chained key"),
        Column("namespace", "text", "namespace of the key"),
        Column("first_seen", "time", "earliest request that has the block"),
    ),
)

LAST_BLOCKS = Table(
    "last_blocks",
    (
        Column("source", "text", "digest that names the source"),
        Column("source_line", "int", "line of the request in its source"),
        Column("last_block", "int", "block number of its last full block", nullable=True),
    ),
)

LOOKUP_FACTS = Table(
    "lookup_facts",
    (
        Column("lookup", "int", "number of the lookup, in order of admission"),
        Column("request_row", "int", "row in the requests of the workspace, in order of arrival"),
        Column("admitted_at", "time", "simulated admission"),
        Column("pool", "small", "index of the pool"),
        Column("replica", "small", "index of the replica in replicas.parquet"),
        Column("block_size", "small", "tokens per block"),
        Column("prompt_tokens", "int", "tokens of the prompt"),
        Column("full_blocks", "int", "full blocks of the prompt: floor(T / block_size)"),
        Column("cap_blocks", "int", "blocks that may hit under the profile"),
        Column("hit_blocks", "int", "blocks that did hit"),
        Column("hit_host_blocks", "int", "of these, blocks from a lower tier"),
        Column("recompute_tokens", "int", "tokens computed again after a preemption, outside the books"),
        Column("refused", "bool", "larger than the whole cache"),
        Column("last_block", "int", "block number of the last full block", nullable=True),
        Column(
            "stored_blocks", "int", "blocks that a hosted cache stores; null: all full blocks", nullable=True
        ),
        Column(
            "long_blocks",
            "int",
            "of what a hosted cache stores, blocks up to the deepest mark with a longer lifetime than its pool's; null: none",
            nullable=True,
        ),
        Column(
            "sold_ttl_us",
            "int",
            "longest lifetime that a hosted cache sells for it, microseconds; null: any can be had",
            nullable=True,
        ),
        Column(
            "storage_token_s",
            "int",
            "tokens times seconds for which what it stored pays rent; null: none",
            nullable=True,
        ),
        Column(
            "tail_rule",
            "text",
            "rule by which nothing behind cap_blocks can hit: below_minimum, no_breakpoint, partial_block (of a cache that stores "
            "at intervals) or bypassed; null: where blocks end",
            nullable=True,
        ),
        Column("queued_at", "time", "when it asked to be admitted"),
        Column(
            "finished_at",
            "time",
            "simulated end; null where one request at a time is replayed",
            nullable=True,
        ),
        Column(
            "route_branch",
            "text",
            "why the router sent it to its replica; null where the log did",
            nullable=True,
        ),
    ),
)

SEGMENT_FACTS = Table(
    "facts",
    (
        Column("lookup", "int", "number of the lookup"),
        Column("first_block", "int", "0-based position in the prompt of the segment's first block"),
        Column("n_blocks", "int", "blocks in the segment"),
        Column("last_block", "int", "block number of the segment's last block"),
        Column("hit", "bool", "whether the cache had it"),
        Column("own_previous", "int", "lookup that last used it on this replica", nullable=True),
        Column("own_reset", "int", "number of the last reset of this replica since then", nullable=True),
        Column(
            "own_distance_blocks",
            "int",
            "capacity that would have kept the whole segment here",
            nullable=True,
        ),
        Column(
            "resident_replica",
            "small",
            "live replica that holds it now (deepest, latest, smallest name)",
            nullable=True,
        ),
        Column("else_previous", "int", "lookup that last used it on another replica", nullable=True),
        Column(
            "else_reset", "int", "number of the last reset, or end, of that replica since then", nullable=True
        ),
        Column("else_distance_blocks", "int", "capacity that would have kept it there", nullable=True),
        Column("removed_at", "time", "when its first block physically left this replica", nullable=True),
        Column("removed_by", "int", "lookup whose admission removed it", nullable=True),
        Column(
            "rule",
            "text",
            "rule by which it missed, whenever it was last used: in_flight, out_of_reach, below_minimum, no_breakpoint or "
            "partial_block",
            nullable=True,
        ),
        Column(
            "in_flight_lookup",
            "int",
            "running lookup on this replica that was computing it, where the rule is in_flight",
            nullable=True,
        ),
        Column(
            "ttl_us",
            "int",
            "how long it was kept after that use; null: as long as its pool says",
            nullable=True,
        ),
        Column(
            "change",
            "int",
            "row of changes.parquet: its content was served under another key before; null where that is not proven",
            nullable=True,
        ),
    ),
)

EVENTS = Table(
    "events",
    (
        Column("event", "int", "number of the event, in order of time, pool and replica"),
        Column("event_id", "text", "name used in every output"),
        Column("at", "time", "when"),
        Column("kind", "text", "restart, flush, deploy, weights, scale_in or replica_gone"),
        Column("pool", "small", "index of the pool"),
        Column("replica", "small", "index of the replica"),
        Column("note", "text", "note of the event file", nullable=True),
    ),
)

REPLICAS = Table(
    "replicas",
    (
        Column("replica", "small", "index, in order of pool and name"),
        Column("name", "text", "name as logged, or made by the scenario"),
        Column("pool", "small", "index of the pool"),
        Column("live_from", "time", "first moment it can be asked"),
        Column("live_to", "time", "last moment; null where it lives to the end", nullable=True),
    ),
)

REMOVALS = Table(
    "removals",
    (
        Column("lookup", "int", "lookup whose admission removed the blocks", nullable=True),
        Column("removed_at", "time", "when"),
        Column("replica", "small", "index of the replica"),
        Column("last_block", "int", "block number of the deepest block removed"),
        Column("n_blocks", "int", "blocks removed, counted upwards from there"),
        Column("cause", "text", "evicted or expired"),
        Column("tokens", "int", "tokens of the blocks"),
        Column(
            "last_used_at",
            "time",
            "admission of the lookup that used the deepest of them last",
            nullable=True,
        ),
    ),
)

WARMUPS = Table(
    "warmups",
    (
        Column("replica", "small", "index of the replica"),
        Column("from_at", "time", "its first lookup, in the log or after a gap in coverage"),
        Column("to_at", "time", "first eviction, or the longest that a warm-up may take"),
        Column("cause", "text", "first_request or coverage_gap"),
    ),
)

SHARED = Table(
    "shared",
    (
        Column("node", "int", "block number of a shared block"),
        Column("parent_node", "int", "nearest shared block above it", nullable=True),
        Column("depth_blocks", "int", "blocks from the start of the prompt to its end"),
        Column("key", "key", "128-bit chained key"),
        Column("namespace", "text", "namespace of the key"),
    ),
)

LOOKUP_SHARED = Table(
    "lookup_shared",
    (
        Column("lookup", "int", "number of the lookup"),
        Column("node", "int", "shared block that ends the piece; null behind the last one", nullable=True),
        Column("first_block", "int", "0-based position in the prompt of the piece's first block"),
        Column("n_blocks", "int", "blocks in the piece"),
    ),
)
