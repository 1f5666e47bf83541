"""Dumps of KV cache events of vLLM, SGLang and Dynamo: what an engine stored and removed, and never requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.kv_parse import is_event, kv_rows
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Skip

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head

_DYNAMO: Final = frozenset({"stored", "removed", "cleared"})
_REASON: Final = "KV event"


class KVEventsReader:
    """Every batch of events is a record, and none is a request; its blocks go to ``kv_events``."""

    info = FormatInfo(
        name="kv-events",
        title="KV cache events (vLLM, SGLang, Dynamo)",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=("blocks that an engine stored and removed, beside what the replay of a request log holds",),
        lacks=("requests: what an engine stored does not say what it was asked for",),
        fields=frozenset(
            {"ts", "seq", "dp_rank", "events", "type", "worker_id", "event", "event_id", "data"}
        ),
        note="KV events tell what an engine stored and removed, not what it was asked for: give the request log as well",
        sample="kv_events.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take batches of events: objects, tagged arrays, or Dynamo's router events."""
        fit = sum(1 for value in head.values if _holds_events(value))
        if fit == 0 or 2 * fit < len(head.values):
            return None
        return f"{fit} of the first {head.lines} records are batches of KV events"

    def read(self, value: Any, context: Context) -> Skip:  # noqa: ARG002
        """Keep the blocks of a batch; without a time they are counted and no more."""
        if not _holds_events(value):
            return Skip("record that is neither request nor event")
        rows = kv_rows(value)
        return Skip("KV event without a time") if rows is None else Skip(_REASON, kv=rows)


def _holds_events(value: Any) -> bool:
    if isinstance(value, list):  # [ts, events, rank], as it is sent
        return len(value) > 1 and isinstance(value[1], list) and any(is_event(item) for item in value[1])
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("events"), list):
        return any(is_event(item) for item in value["events"])
    event = value.get("event")
    if isinstance(event, dict) and isinstance(event.get("event"), dict):
        event = event["event"]
    data = event.get("data") if isinstance(event, dict) else None
    return data == "cleared" or (isinstance(data, dict) and not _DYNAMO.isdisjoint(data))
