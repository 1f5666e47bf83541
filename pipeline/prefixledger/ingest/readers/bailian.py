"""Qwen-Bailian JSONL: turns of chats with hashed blocks of 16 tokens, seconds since the start of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import count, extras, mapping, maybe_count, maybe_text, required, wrong_type
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Row
from prefixledger.ingest.times import clock_us
from prefixledger.ingest.trace_fields import ADDED, set_added

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head

_USED: Final = frozenset(
    {"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids"}
)
_ROOT: Final = "-1"


class BailianReader:
    """One turn a line; it names the turn before it, and the first of a chain names the session."""

    info = FormatInfo(
        name="bailian",
        title="Qwen-Bailian JSONL",
        shape="json",
        keys="block ids",
        clock="relative",
        id_scope="file",
        block_size=16,
        local_request_ids=True,
        chained=True,
        answers=(
            "hits and misses of any simulated cache",
            "capacity and TTL curves",
            "sessions",
            "kinds of request",
        ),
        lacks=("observed hits", "replicas", "models and tenants", "latency"),
        fields=_USED | ADDED | {"type", "turn"},
        sample="bailian_blksz_16.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with chat ids and lengths."""
        return head.having("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length")

    def read(self, value: Any, context: Context) -> Row:  # noqa: ARG002
        """Turn one line into one row; a parent of -1 is none."""
        record = mapping(value)
        if isinstance(record.get("chat_id"), bool) or isinstance(record.get("parent_chat_id"), bool):
            raise wrong_type("chat_id or parent_chat_id", value=True, wanted="a number")
        required(record, "chat_id")
        parent = maybe_text(record, "parent_chat_id")
        row = Row(
            started_us=clock_us(required(record, "timestamp"), "s", "timestamp"),
            prompt_tokens=count(record, "input_length"),
            request_id=maybe_text(record, "chat_id"),
            parent=None if parent == _ROOT else parent,
            output_tokens=maybe_count(record, "output_length"),
            block_ids=record.get("hash_ids"),
            extras=extras(record, _USED | ADDED),
        )
        set_added(row, record)
        return row
