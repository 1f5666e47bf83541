"""Mooncake JSONL: lengths and hashed blocks of 512 tokens, milliseconds since the start of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import count, extras, mapping, maybe_count, maybe_text, required
from prefixledger.ingest.reader import FormatInfo, PlainField
from prefixledger.ingest.records import Row
from prefixledger.ingest.times import clock_us
from prefixledger.ingest.trace_fields import ADDED, set_added

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head

_USED: Final = frozenset({"timestamp", "input_length", "output_length", "hash_ids", "session_id"})
_TEXTS: Final = frozenset({"text_input", "messages", "payload", "tools"})


class MooncakeReader:
    """One request a line; ids number prefixes, and the last one may stand for a partial block."""

    info = FormatInfo(
        name="mooncake",
        title="Mooncake JSONL",
        shape="json",
        keys="block ids",
        clock="relative",
        id_scope="file",
        block_size=512,
        answers=(
            "hits and misses of any simulated cache",
            "capacity and TTL curves",
            "sessions where they are named",
        ),
        lacks=("observed hits", "replicas", "models and tenants", "latency"),
        fields=_USED | _TEXTS | ADDED | {"delay", "delay_ms", "priority", "strict_priority", "policy_class"},
        sample="mooncake_blksz_16.jsonl",
        plain=(
            PlainField("timestamp", "started_us", "ms"),
            PlainField("input_length", "prompt_tokens", "count"),
            PlainField("output_length", "output_tokens", "count", required=False),
            PlainField("hash_ids", "block_ids", "ids"),
            PlainField("session_id", "session_id", "text", required=False),
        ),
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with lengths and no chat id."""
        return head.having("input_length", "output_length", lacking=("chat_id", "parent_chat_id"))

    def read(self, value: Any, context: Context) -> Row:  # noqa: ARG002
        """Turn one line into one row."""
        record = mapping(value)
        row = Row(
            started_us=clock_us(required(record, "timestamp"), "ms", "timestamp"),
            prompt_tokens=count(record, "input_length"),
            output_tokens=maybe_count(record, "output_length"),
            session_id=maybe_text(record, "session_id"),
            block_ids=record.get("hash_ids"),
            extras=extras(record, _USED | _TEXTS | ADDED) if len(record) > len(_USED) - 1 else {},
        )
        set_added(row, record)
        return row
