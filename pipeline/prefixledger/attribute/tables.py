"""The table contract of the books: what other programs may rely on in lookups, segments and misses."""

from __future__ import annotations

from prefixledger.schema import CAUSES, Column, Table

_MISS_MEANINGS = {
    "uncacheable": "missed tokens that the rules of the cache let nobody hit",
    "in_flight": "missed tokens that another request was computing",
    "invalidated": "missed tokens that a reset took",
    "expired": "missed tokens that were used too long ago",
    "evicted": "missed tokens that had to make room",
    "misrouted": "missed tokens that another live replica holds",
    "key_changed": "missed tokens that were served before under another key",
    "cold": "missed tokens that nobody had asked for",
    "unexplained": "missed tokens without a proven cause",
}

_SEGMENT_EVIDENCE = (
    Column("request_id", "text", "id of the request that asked"),
    Column("source", "text", "digest that names its source"),
    Column("source_line", "int", "its line there"),
    Column("admitted_at", "time", "simulated admission; logged admission or arrival of a row without keys"),
    Column("pool", "small", "index of the pool in the scenario", nullable=True),
    Column("replica", "text", "name of the replica that was asked"),
    Column("prefix_key", "text", "hex key of the segment's last block", nullable=True),
    Column("first_block", "int", "0-based position in the prompt of its first block"),
    Column("n_blocks", "int", "full blocks in it"),
    Column("tokens", "int", "tokens in it"),
    Column("cause", "text", "why it was missed", nullable=True),
    Column("detail", "text", "what exactly, see the causes", nullable=True),
    Column("previous_request_id", "text", "request that last used it", nullable=True),
    Column("last_used_at", "time", "admission of that request", nullable=True),
    Column("removed_at", "time", "when its first block physically left the replica", nullable=True),
    Column("removed_by", "text", "request whose admission removed it", nullable=True),
    Column("elsewhere", "bool", "judged on the other replica that used it last"),
    Column("resident_replica", "text", "live replica that holds it now", nullable=True),
    Column("route_branch", "text", "why the router sent it here; null where the log did", nullable=True),
    Column("needed_capacity_blocks", "int", "capacity that would have kept all of it", nullable=True),
    Column("needed_ttl_s", "float", "seconds since its last use", nullable=True),
    Column("event_id", "text", "the reset that took it", nullable=True),
    Column(
        "changed_part", "text", "where a change made its key new: tools, system or message", nullable=True
    ),
    Column(
        "changed_at_token", "int", "0-based position in the prompt of the first changed token", nullable=True
    ),
    Column("changed_new_tokens", "int", "tokens that are new there", nullable=True),
    Column("changed_old_tokens", "int", "tokens of the earlier prompt that they stand for", nullable=True),
    Column(
        "changed_layer", "small", "0 for the first change of the prompt, 1 for the next one …", nullable=True
    ),
    Column(
        "varies",
        "text",
        "what changes there from prompt to prompt: time of day, date, uuid, counter, random, reordering, number or free "
        "text; null where the log or too few prompts tell",
        nullable=True,
    ),
    Column("hit_on_other_replica", "bool", "another live replica would have had it"),
    Column("hit_with_more_capacity", "bool", "more capacity alone would have kept it here"),
    Column("hit_with_longer_ttl", "bool", "a longer TTL alone would have kept it here"),
    Column("hit_with_stable_prefix", "bool", "the same content under one key was there to hit"),
)

SEGMENTS = Table(
    "segments",
    (
        Column("request_row", "int", "row in the requests of the workspace, in order of arrival"),
        Column("lookup", "int", "number of the lookup; null for a row without keys", nullable=True),
        *_SEGMENT_EVIDENCE,
        Column("first_token", "int", "0-based position in the prompt of its first token"),
        Column("hit", "bool", "whether the cache had it"),
        Column("written_tokens", "int", "missed tokens in it that the cache stores"),
        Column("written_1h_tokens", "int", "of these, tokens that live longer than the rest"),
        Column("previous_row", "int", "row of previous_request_id", nullable=True),
    ),
)

MISSES = Table("misses", _SEGMENT_EVIDENCE)

LOOKUPS = Table(
    "lookups",
    (
        Column("request_row", "int", "row in the requests of the workspace, in order of arrival"),
        Column("lookup", "int", "number of the lookup; null for a row without keys", nullable=True),
        Column("request_id", "text", "id as logged, or source_file:source_line"),
        Column("source", "text", "digest that names its source"),
        Column("source_file", "text", "path relative to the SOURCE argument"),
        Column("source_line", "int", "1-based line, row or record number"),
        Column("started_at", "time", "arrival at the service; a window is a filter on it"),
        Column(
            "admitted_at", "time", "simulated admission; logged admission or arrival of a row without keys"
        ),
        Column("pool", "small", "index of the pool in the scenario", nullable=True),
        Column("replica", "text", "name of the replica that was asked"),
        Column("basis", "text", "simulated, or observed for a row with usage and no keys"),
        Column("prompt_tokens", "int", "tokens of the prompt: hits plus misses of every cause"),
        Column("output_tokens", "int", "generated tokens", nullable=True),
        Column("hit_tokens", "int", "tokens that the cache had"),
        Column("hit_host_tokens", "int", "of these, tokens from a lower tier"),
        Column("recompute_tokens", "int", "tokens computed again after a preemption, outside the books"),
        *(Column(f"miss_{cause}_tokens", "int", _MISS_MEANINGS[cause]) for cause in CAUSES),
        Column("written_tokens", "int", "missed tokens that the cache stores"),
        Column(
            "ideal_hit_tokens",
            "int",
            "hits of one unlimited cache for all replicas, in order of arrival",
            nullable=True,
        ),
        Column("pooled_hit_tokens", "int", "hits of one unlimited cache for all replicas", nullable=True),
        Column("per_replica_hit_tokens", "int", "hits of unlimited caches under this routing", nullable=True),
        Column("resets_hit_tokens", "int", "the same with resets", nullable=True),
        Column("ttl_hit_tokens", "int", "the same with resets and TTL", nullable=True),
        Column("capacity_hit_tokens", "int", "the same with resets, TTL and capacity", nullable=True),
        Column("usage_state", "text", "absent, null or present: what the log says of cached tokens"),
        Column(
            "observed_hit_tokens", "int", "tokens that the service says it read from cache", nullable=True
        ),
        Column("unexplained_tokens", "int", "simulated hits that were not observed", nullable=True),
        Column("unpredicted_hit_tokens", "int", "observed hits that were not simulated", nullable=True),
        Column("queued_at", "time", "when it asked to be admitted", nullable=True),
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
        Column(
            "conversation",
            "text",
            "request that began its conversation, one of perhaps several in its session; null where none can be told",
            nullable=True,
        ),
        Column("storage_token_s", "int", "tokens times seconds that what it created pays rent for"),
    ),
)

OBSERVED_BOOK = Table(
    "observed",
    (
        Column("request_row", "int", "row in the requests of the workspace, in order of arrival"),
        Column("request_id", "text", "id of a request with usage"),
        Column("admitted_at", "time", "as in lookups"),
        Column("basis", "text", "as in lookups"),
        Column("prompt_tokens", "int", "observed hits plus observed misses of every cause"),
        Column("observed_hit_tokens", "int", "tokens that the service says it read from cache"),
        *(
            Column(f"observed_{cause}_tokens", "int", f"{_MISS_MEANINGS[cause]}, as observed")
            for cause in CAUSES
        ),
        Column(
            "unpredicted_hit_tokens", "int", "observed hits that were not simulated, taken off the causes"
        ),
    ),
)
