"""WEKA kv-cache-tester: one JSON object a conversation, with its requests and those of its subagents inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import count, extras, mapping, maybe_count, maybe_text, required, wrong_type
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.times import clock_us, span_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_CONVERSATION: Final = frozenset(
    {"id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "requests", "totals"}
)
_REQUEST: Final = frozenset({"t", "model", "in", "out", "hash_ids", "api_time", "think_time", "ttft"})
_SUBAGENT: Final = frozenset(
    {"agent_id", "subagent_type", "duration_ms", "total_tokens", "tool_use_count", "status"}
)
_MAX_DEPTH: Final = 50


class WekaReader:
    """Every request is a record; a subagent is none, its requests are."""

    info = FormatInfo(
        name="weka",
        title="WEKA kv-cache-tester JSON",
        shape="json",
        keys="block ids",
        clock="relative",
        id_scope="file",
        block_size=64,
        answers=(
            "hits and misses of any simulated cache",
            "capacity and TTL curves",
            "sessions",
            "residence",
        ),
        lacks=(
            "observed hits",
            "replicas and tenants",
            "time between conversations",
            "sharing between conversations",
        ),
        fields=_CONVERSATION | _REQUEST | _SUBAGENT | {"type", "stop", "input_types", "output_types"},
        sizes_in_records=True,
        sample="weka.json",
    )

    def recognise(self, head: Head) -> str | None:
        """Take objects that hold requests with hashed blocks; a document too long to parse is told by its keys."""
        said = head.having("block_size", "requests")
        if said is not None and any(_is_conversation(value) for value in head.values):
            return said
        if not head.values and b'"hash_ids"' in head.text and b'"requests"' in head.text:
            return (
                "it begins as an object with block_size and requests"
                if b'"block_size"' in head.text
                else None
            )
        return None

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:
        """Yield one outcome for each request of the conversation, in the order written."""
        conversation = mapping(value)
        requests = required(conversation, "requests")
        if not isinstance(requests, list):
            raise wrong_type("requests", requests, "a list")
        if not requests:
            return iter((Skip("conversation without requests"),))
        name = maybe_text(conversation, "id") or context.file_name
        scope = maybe_text(conversation, "hash_id_scope") or "local"
        block_size = count(conversation, "block_size", limit=1_000_000)
        if block_size == 0:
            raise BadRecordError("absurd number: block_size is 0")
        fixed = {
            "timeline": name,
            "scope": "global" if scope == "global" else "file",
            "space": None if scope == "global" else name,
            "block_size": block_size,
        }
        return _outcomes(requests, name, 0, fixed, {})


def _is_conversation(value: Any) -> bool:
    requests = value.get("requests") if isinstance(value, dict) else None
    return isinstance(requests, list) and any(
        isinstance(r, dict) and ("hash_ids" in r or r.get("type") == "subagent") for r in requests
    )


def _outcomes(
    requests: list[Any],
    session: str,
    base_us: int,
    fixed: Mapping[str, Any],
    labels: Mapping[str, Any],
    depth: int = 0,
) -> Iterator[Outcome]:
    for request in requests:
        try:
            if not (isinstance(request, dict) and request.get("type") == "subagent"):
                yield _row(mapping(request), session, base_us, fixed, labels)
                continue
            inner = required(request, "requests")
            if not isinstance(inner, list) or depth == _MAX_DEPTH:
                raise wrong_type("requests of a subagent", inner, "a list, at most 50 deep")
            start = base_us + clock_us(required(request, "t"), "s", "t")
            agent = f"{session}/{maybe_text(request, 'agent_id') or 'subagent'}"
            kind = extras({"subagent_type": request.get("subagent_type")}, frozenset())
        except BadRecordError as bad:
            yield Reject(str(bad), request)
            continue
        yield from _outcomes(
            inner, agent, _own_base(inner, base_us, start), fixed, {**labels, **kind}, depth + 1
        )


def _own_base(inner: list[Any], outer_us: int, start_us: int) -> int:
    """Return the zero of a subagent's times: its own start, or its parent's zero where its first lies behind that."""
    first = inner[0].get("t") if inner and isinstance(inner[0], dict) else None
    if isinstance(first, (int, float)) and 0 < start_us - outer_us <= first * 1_000_000:
        return outer_us
    return start_us


def _row(
    record: Mapping[str, Any], session: str, base_us: int, fixed: Mapping[str, Any], labels: Mapping[str, Any]
) -> Row:
    start = base_us + clock_us(required(record, "t"), "s", "t")
    ends = {
        name: start + span_us(record[name], "s", name)
        for name in ("ttft", "api_time")
        if record.get(name) is not None
    }
    return Row(
        started_us=start,
        prompt_tokens=count(record, "in"),
        first_token_us=ends.get("ttft"),
        finished_us=ends.get("api_time"),
        model=maybe_text(record, "model"),
        session_id=session,
        output_tokens=maybe_count(record, "out"),
        block_ids=record.get("hash_ids"),
        extras={**labels, **extras(record, _REQUEST)},
        **fixed,
    )
