"""The table contract of what engines say of their caches: as it was read, and beside a replay."""

from __future__ import annotations

from prefixledger.schema import Column, Table

KV_EVENTS = Table(
    "kv_events",
    (
        Column("source", "text", "digest that names the source"),
        Column("source_line", "int", "line or record number of the batch"),
        Column("at", "time", "when the engine published the batch"),
        Column("replica", "text", "cache that it names, as said", nullable=True),
        Column("rank", "small", "data-parallel rank that it names", nullable=True),
        Column("kind", "text", "stored, removed or cleared (all blocks, and no block is named)"),
        Column("block_hash", "uint", "the engine's own hash, last 64 bits", nullable=True),
        Column(
            "parent_hash", "uint", "hash of the block before; null for the first of a prompt", nullable=True
        ),
        Column("block_size", "small", "tokens in the block", nullable=True),
        Column("medium", "text", "where: GPU, CPU … as said", nullable=True),
        Column("group", "small", "group of layers, where the engine has several", nullable=True),
        Column("adapter", "text", "LoRA adapter", nullable=True),
        Column("cache_salt", "text", "salt, on the first block of a prompt", nullable=True),
        Column(
            "label",
            "key",
            "the block's own label as in paths; null where tokens alone do not make it",
            nullable=True,
        ),
        Column(
            "hash_rule", "text", "vLLM's rule that gives the first block of a prompt this hash", nullable=True
        ),
        Column("tokens_hash", "uint", "Dynamo's hash of the block's own tokens", nullable=True),
    ),
)

SERIES = Table(
    "series",
    (
        Column("source", "text", "digest that names the source"),
        Column("source_line", "int", "line or record number of the series"),
        Column("at", "time", "time of the sample"),
        Column(
            "metric", "text", "hit_tokens, query_tokens or preemptions: a counter since the engine started"
        ),
        Column("replica", "text", "cache that its labels name, as said", nullable=True),
        Column("rank", "small", "data-parallel rank that its labels name", nullable=True),
        Column("value", "float", "what the counter stood at"),
    ),
)

KV_CHANGES = Table(
    "kv_changes",
    (
        Column("at", "time", "when the engine published the batch"),
        Column(
            "pool", "small", "index of the pool; null where the events are of nobody known", nullable=True
        ),
        Column("replica", "text", "name of the cache in the log, else as the events name it"),
        Column("stored_blocks", "int", "blocks that it stored, copies included"),
        Column("removed_blocks", "int", "blocks that it removed"),
        Column("unknown_blocks", "int", "of these, blocks of which no event said that they were stored"),
        Column("cleared", "bool", "whether it dropped all blocks"),
        Column("resident_blocks", "int", "blocks stored and not removed, after the batch; copies count once"),
    ),
)

KV_LOOKUPS = Table(
    "kv_lookups",
    (
        Column("lookup", "int", "number of the lookup"),
        Column("at", "time", "its simulated admission"),
        Column("pool", "small", "index of the pool"),
        Column("replica", "text", "name of the replica"),
        Column("cap_blocks", "int", "blocks that may hit"),
        Column("simulated_blocks", "int", "blocks that hit in the replay"),
        Column(
            "resident_blocks", "int", "blocks from the start of the prompt that were resident by the events"
        ),
    ),
)

COUNTERS = Table(
    "counters",
    (
        Column("at", "time", "end of the step between two samples"),
        Column(
            "pool", "small", "index of the pool; null where the counter is of nobody known", nullable=True
        ),
        Column("replica", "text", "name of the cache in the log, else as the labels name it"),
        Column("metric", "text", "hit_tokens, query_tokens or preemptions"),
        Column("amount", "int", "how much the counter grew in the step; from 0 after a restart"),
    ),
)
