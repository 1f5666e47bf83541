"""LiteLLM's StandardLoggingPayload: what its callbacks write to S3, GCS, a queue or an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.bypass import is_bypassed
from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import checked_number, extras, mapping, maybe_text, required
from prefixledger.ingest.gateway_rows import host_of, is_true, set_status, set_text
from prefixledger.ingest.nested import decoded, inner_mapping, short_text
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import check_order
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

CUT_MARK: Final = b"... (litellm_truncated"
_PAYLOAD: Final = ("litellm_call_id", "model_map_information", "hidden_params")
_GENERATES: Final = ("completion", "responses", "anthropic_messages", "generate_content", "pass_through")
"""Parts of the names of calls that have a prompt; the others embed, transcribe, draw, rank or moderate."""
_USED: Final = frozenset(
    {"id", "litellm_call_id", "trace_id", "session_id", "status", "startTime", "endTime", "completionStartTime",
     "response_time", "model", "model_id", "api_base", "custom_llm_provider", "prompt_tokens", "completion_tokens",
     "total_tokens", "metadata", "hidden_params", "cache_hit", "cache_key", "saved_cache_cost", "response_cost",
     "cost_breakdown", "end_user", "requester_ip_address", "user_agent", "messages", "response", "model_parameters",
     "error_str", "error_information", "model_map_information", "status_fields", "guardrail_information"}
)  # fmt: skip


class LiteLLMReader:
    """One object a call; an answer from LiteLLM's own response cache is no call to a model."""

    info = FormatInfo(
        name="litellm",
        title="LiteLLM StandardLoggingPayload",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        time_field="startTime",
        answers=(
            "observed hits and writes",
            "tenants, keys and deployments",
            "latency",
            "failures",
            "hits and misses from text, where message logging is on",
        ),
        lacks=("keys where message logging is off", "the order of retries within one call"),
        fields=_USED | {"usage_object", "call_type", "stream", "model_group"},
        sample="litellm.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with one of LiteLLM's own fields and a start in unix seconds."""
        fit = sum(1 for value in head.values if _is_payload(value))
        if fit == 0 or 2 * fit < len(head.values):
            return None
        return f"{fit} of the first {head.lines} records have startTime and one of {', '.join(_PAYLOAD)}"

    def read(self, value: Any, context: Context) -> Outcome:
        """Turn one call into one row."""
        record = mapping(value)
        if is_true(record.get("cache_hit")):
            return Skip("response-cache hit")
        kind = record.get("call_type")
        if isinstance(kind, str) and kind and not any(word in kind for word in _GENERATES):
            return Skip("call without a prompt: embedding, image, audio and the like")
        return _row(record, context)


def _is_payload(value: Any) -> bool:
    if not isinstance(value, dict) or not any(name in value for name in _PAYLOAD):
        return False
    start = value.get("startTime")
    return isinstance(start, (int, float)) and not isinstance(start, bool)


def _row(record: Mapping[str, Any], context: Context) -> Row:
    started = _time(record, "startTime", context)
    row = Row(
        started_us=0 if started is None else started,
        prompt_tokens=None,
        first_token_us=_time(record, "completionStartTime", context),
        finished_us=_time(record, "endTime", context),
        request_id=maybe_text(record, "id") or maybe_text(record, "litellm_call_id"),
        provider=provider_name(maybe_text(record, "custom_llm_provider")),
        model=maybe_text(record, "model"),
        client=maybe_text(record, "user_agent"),
        tenant=tenant_of(inner_mapping(record, "metadata"), record.get("end_user")),
        session_id=maybe_text(record, "session_id"),
        replica=replica_of(record),
        service_tier=short_text(inner_mapping(record, "cost_breakdown"), "service_tier"),
        bypassed=is_bypassed(inner_mapping(record, "model_parameters")),
        extras=extras(record, _USED),
    )
    if started is None:
        required(record, "startTime")
    check_order(row.started_us, row.finished_us, "endTime")
    usage = inner_mapping(record, "metadata", "usage_object") or inner_mapping(
        record, "hidden_params", "usage_object"
    )
    if usage:
        apply_usage(row, usage, "litellm" if "prompt_tokens" in usage else None)
    if row.prompt_tokens is None:
        apply_usage(row, {name: record[name] for name in _COUNTS if name in record}, "litellm")
    if row.first_token_us is not None and row.first_token_us < row.started_us:
        row.first_token_us = None
    set_status(row, record.get("status"))
    set_text(row, text_parts(prompt_body(record)), CUT_MARK)
    return row


_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


def prompt_body(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the messages and tools of a call as one body; without messages where their logging is off."""
    messages = decoded(record.get("messages"))
    if isinstance(messages, dict):
        messages = messages.get("messages")
    body: dict[str, Any] = {"tools": inner_mapping(record, "model_parameters").get("tools")}
    if isinstance(messages, list):
        body["messages"] = messages
    elif isinstance(messages, str) and messages and "redacted-by-litellm" not in messages:
        body["prompt"] = messages
    else:
        return {}
    return body


def tenant_of(metadata: Mapping[str, Any], end_user: Any) -> str | None:
    """Return the team, organisation or project of a key, else the key's alias, else what stands for the end user."""
    names = ("team_alias", "team_id", "org_id", "project_id", "alias")
    team = short_text(metadata, *(f"user_api_key_{name}" for name in names))
    if team is not None:
        return team
    user = end_user or metadata.get("user_api_key_end_user_id") or metadata.get("user_api_key_user_id")
    return user_key(user) if isinstance(user, str) and user else None


def replica_of(record: Mapping[str, Any]) -> str | None:
    """Return the deployment that was called: the id of its model, else the host of its address."""
    return maybe_text(record, "model_id") or host_of(record.get("api_base"))


def _time(record: Mapping[str, Any], name: str, context: Context) -> int | None:
    value = record.get(name)
    if value in (None, "", 0):
        return None
    return stamp_us(
        value if isinstance(value, str) else checked_number(value, name), name, context.time_unit
    )[0]
