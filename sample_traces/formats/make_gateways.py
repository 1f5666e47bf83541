"""Writes the logs of gateways, exports, traces and clients: the fleet of ``make.py`` as those would tell of it."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

SEED = 29
FIRST = datetime(2026, 11, 24, 10, 0, 0, tzinfo=UTC)
SYSTEMS = (
    "You answer questions about the orders of a small shop. Quote order numbers. Never guess a date.",
    "You review pull requests of a Python project. Name the file and the line of everything you find.",
)
WORDS = (
    "order", "parcel", "refund", "late", "invoice", "address", "change", "test", "branch", "lint", "merge", "import",
    "cache", "reply", "customer", "week", "size", "colour", "return", "label", "review", "function", "loop", "index",
    "rename", "docs", "issue", "please", "check", "again", "today",
)  # fmt: skip
MODELS = ("gpt-4.1", "claude-sonnet-4-5-20250929")


def words(draw: random.Random, n_words: int) -> str:
    """Return some words."""
    return " ".join(draw.choice(WORDS) for _ in range(n_words))


def chats(told: list[Any]) -> list[list[dict[str, str]]]:
    """Return the messages of each request: one of two system texts, then a conversation that grows turn by turn."""
    spoken: dict[int, list[dict[str, str]]] = {}
    listed = []
    for turn in told:
        draw = random.Random(SEED * 1_000 + 10 * turn.session + turn.turn)
        messages = spoken.setdefault(
            turn.session, [{"role": "system", "content": SYSTEMS[turn.session % len(SYSTEMS)]}]
        )
        messages.append({"role": "user", "content": words(draw, 12)})
        listed.append([dict(message) for message in messages])
        messages.append({"role": "assistant", "content": words(draw, 8)})
    return listed


def at(turn: Any, after_ms: float = 0) -> datetime:
    """Return a moment of a request."""
    return FIRST + timedelta(milliseconds=turn.at_ms + after_ms)


def iso(moment: datetime) -> str:
    """Return it as services write it: milliseconds and Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix(moment: datetime) -> float:
    """Return it in seconds."""
    return round(moment.timestamp(), 3)


def lines(rows: list[Any]) -> str:
    """Return JSON, one value a line."""
    return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP writes them in JSON: whole numbers as text."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def otel_genai(told: list[Any]) -> str:
    """One export a line: an agent around a call to a model, in new and in old spelling, and a call that failed."""
    rows = []
    for number, (t, messages) in enumerate(zip(told[:12], chats(told), strict=False)):
        start, end = (str(int(at(t, ms).timestamp() * 1_000) * 1_000_000) for ms in (0, t.took_ms))
        parts = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in messages]
        values: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4.1",
            "gen_ai.response.id": f"chatcmpl-{number:04d}",
            "gen_ai.conversation.id": f"c{t.session}",
            "server.address": "api.openai.com",
            "server.port": 443,
        }
        spelling = (
            ("input_tokens", "output_tokens", "cache_read.input_tokens")
            if number % 3
            else ("prompt_tokens", "completion_tokens", "cached_tokens")
        )
        counts = (len(t.tokens), t.output, t.cached)
        used = {f"gen_ai.usage.{name}": count for name, count in zip(spelling, counts, strict=True)}
        failed = number == 7
        said = {"gen_ai.input.messages": json.dumps(parts, separators=(",", ":"))}
        ids = {"traceId": f"{t.session:032x}", "startTimeUnixNano": start, "endTimeUnixNano": end}
        inner = {
            **ids,
            "spanId": f"{2 * number + 1:016x}",
            "parentSpanId": f"{2 * number + 2:016x}",
            "name": "chat gpt-4.1",
            "kind": 3,
            "attributes": attributes({**values, **({"error.type": "429"} if failed else used), **said}),
            "status": {"code": 2} if failed else {},
        }
        outer = {
            **ids,
            "spanId": f"{2 * number + 2:016x}",
            "name": "invoke_agent shop",
            "kind": 1,
            "attributes": attributes({"gen_ai.operation.name": "invoke_agent", **({} if failed else used)}),
            "status": {},
        }
        resource = {"attributes": attributes({"service.name": "shop", "service.version": "1.8.2"})}
        scope = {"scope": {"name": "opentelemetry.instrumentation.openai_v2"}, "spans": [outer, inner]}
        rows.append({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
    return lines(rows)


def openinference(told: list[Any]) -> str:
    """One span a line: chains, calls with whole bodies, a call with messages by index, an embedding."""
    rows = []
    for number, (t, messages) in enumerate(zip(told[:12], chats(told), strict=False)):
        values: dict[str, Any] = {
            "openinference.span.kind": "LLM",
            "llm.system": "openai",
            "llm.model_name": "gpt-4.1-2025-04-14",
            "session.id": f"c{t.session}",
            "llm.token_count.prompt": len(t.tokens),
            "llm.token_count.completion": t.output,
            "llm.token_count.total": len(t.tokens) + t.output,
            "llm.token_count.prompt_details.cache_read": t.cached,
        }
        if number % 4 == 3:
            for place, message in enumerate(messages):
                values[f"llm.input_messages.{place}.message.role"] = message["role"]
                values[f"llm.input_messages.{place}.message.content"] = message["content"]
        else:
            values["input.value"] = json.dumps({"messages": messages, "model": "gpt-4.1"})
            values["input.mime_type"] = "application/json"
        start, end = (str(int(at(t, ms).timestamp() * 1_000) * 1_000_000) for ms in (0, t.took_ms))
        ids = {"traceId": f"{t.session:032x}", "startTimeUnixNano": start, "endTimeUnixNano": end}
        chain = {"openinference.span.kind": "CHAIN" if number % 5 else "EMBEDDING"}
        above = {**ids, "spanId": f"{number:015x}a", "name": "turn", "attributes": attributes(chain)}
        call = {
            **ids,
            "spanId": f"{number:015x}b",
            "parentSpanId": f"{number:015x}a",
            "name": "ChatCompletion",
        }
        rows += [above, {**call, "attributes": attributes(values), "status": {"code": "STATUS_CODE_OK"}}]
    return lines(rows)


def litellm(told: list[Any]) -> str:
    """Calls over two deployments, one from the response cache, one that failed, one embedding."""
    rows = []
    for number, (t, messages) in enumerate(zip(told[:14], chats(told), strict=False)):
        hosted = t.session % 2
        usage: dict[str, Any] = {
            "prompt_tokens": len(t.tokens),
            "completion_tokens": t.output,
            "total_tokens": len(t.tokens) + t.output,
            "prompt_tokens_details": {"cached_tokens": t.cached},
        }
        if hosted:
            usage |= {"cache_read_input_tokens": t.cached, "cache_creation_input_tokens": 0}
        failed = number == 5
        rows.append(
            {
                "id": f"chatcmpl-{number:04d}",
                "trace_id": f"trace-{number:04d}",
                "session_id": f"c{t.session}",
                "litellm_call_id": f"call-{number:04d}",
                "call_type": "aembedding" if number == 9 else "acompletion",
                "stream": False,
                "status": "failure" if failed else "success",
                "response_cost": 0.0 if failed else 0.0031,
                "prompt_tokens": 0 if failed else len(t.tokens),
                "completion_tokens": 0 if failed else t.output,
                "total_tokens": 0 if failed else len(t.tokens) + t.output,
                "startTime": unix(at(t)),
                "endTime": unix(at(t, t.took_ms)),
                "completionStartTime": unix(at(t, t.took_ms / 4)),
                "model": MODELS[hosted],
                "model_group": "chat",
                "model_id": f"dep-{t.replica}",
                "api_base": "https://a.example",
                "custom_llm_provider": ("openai", "anthropic")[hosted],
                "cache_hit": number == 11,
                "metadata": {
                    "user_api_key_team_id": f"team-{t.session % 3}",
                    "usage_object": None if failed else usage,
                },
                "messages": messages if number % 6 else "redacted-by-litellm",
                "model_parameters": {},
                "hidden_params": {},
                "model_map_information": {"model_map_key": MODELS[hosted], "model_map_value": None},
            }
        )
    return lines(rows)


def litellm_spend(told: list[Any]) -> str:
    """Rows of the table: times without a zone, flags as text, JSON inside JSON."""
    rows = []
    for number, t in enumerate(told[:14]):
        more = {"cache_read_input_tokens": t.cached, "prompt_tokens_details": {"cached_tokens": t.cached}}
        rows.append(
            {
                "request_id": f"chatcmpl-{number:04d}",
                "call_type": "acompletion",
                "api_key": "88dc",
                "spend": 0.0031,
                "total_tokens": len(t.tokens) + t.output,
                "prompt_tokens": len(t.tokens),
                "completion_tokens": t.output,
                "startTime": at(t).replace(tzinfo=None).isoformat(timespec="microseconds"),
                "endTime": at(t, t.took_ms).replace(tzinfo=None).isoformat(timespec="microseconds"),
                "model": "gpt-4.1",
                "model_group": "chat",
                "custom_llm_provider": "openai",
                "api_base": "https://a.example",
                "metadata": {"additional_usage_values": more if number % 4 else {}},
                "cache_hit": "True" if number == 6 else "False",
                "request_tags": "[]",
                "team_id": f"team-{t.session % 3}",
                "messages": {},
                "response": {},
                "session_id": f"c{t.session}",
                "status": "success",
            }
        )
    return lines(rows)


def langfuse(told: list[Any]) -> str:
    """A blob export: spans around generations, and a framework's generation around the provider's."""
    rows: list[dict[str, Any]] = []
    for number, (t, messages) in enumerate(zip(told[:12], chats(told), strict=False)):
        start, end = (at(t, ms).strftime("%Y-%m-%d %H:%M:%S.%f") for ms in (0, t.took_ms))
        common = {"trace_id": f"t{number}", "project_id": "p", "environment": "prod", "start_time": start, "end_time": end,
                  "level": "DEFAULT", "user_id": f"u{t.session}", "session_id": f"c{t.session}"}  # fmt: skip
        details = {"input": len(t.tokens) - t.cached, "input_cached_tokens": t.cached, "output": t.output,
                   "total": len(t.tokens) + t.output}  # fmt: skip
        call = {
            "input": json.dumps(messages), "output": "Done.", "provided_model_name": "gpt-4.1",
            "model_parameters": '{"temperature":0}', "usage_details": details, "latency": t.took_ms / 1_000,
        }  # fmt: skip
        rows.append(
            {"id": f"s{number}", **common, "type": "SPAN", "parent_observation_id": "", "name": "turn"}
        )
        above = f"s{number}"
        if number % 3 == 0:
            rows.append({"id": f"w{number}", **common, "type": "GENERATION", "parent_observation_id": above, "name": "agent",
                         **call})  # fmt: skip
            above = f"w{number}"
        rows.append(
            {
                "id": f"o{number}",
                **common,
                "type": "GENERATION",
                "parent_observation_id": above,
                "name": "chat",
                **call,
            }
        )
    return lines(rows)


def helicone(told: list[Any]) -> str:
    """Requests with bodies, one answered by Helicone's own cache, one refused by the provider."""
    rows = []
    for number, (t, messages) in enumerate(zip(told[:12], chats(told), strict=False)):
        failed, cached = number == 4, number == 8
        rows.append(
            {
                "request_id": f"r{number:03d}",
                "request_created_at": iso(at(t)),
                "response_id": f"p{number:03d}",
                "response_created_at": iso(at(t, t.took_ms)),
                "response_status": 429 if failed else 200,
                "request_path": "https://api.openai.com/v1/chat/completions",
                "request_model": "gpt-4.1",
                "response_model": None if failed else "gpt-4.1-2025-04-14",
                "model": "gpt-4.1",
                "provider": "OPENAI",
                "request_user_id": f"u{t.session}",
                "request_properties": {
                    "Helicone-Session-Id": f"c{t.session}",
                    "Plan": ("free", "paid")[t.session % 2],
                },
                "delay_ms": t.took_ms,
                "time_to_first_token": None if failed else t.took_ms // 4,
                "prompt_tokens": None if failed else len(t.tokens),
                "completion_tokens": None if failed else t.output,
                "total_tokens": None if failed else len(t.tokens) + t.output,
                "prompt_cache_read_tokens": None if failed else t.cached,
                "prompt_cache_write_tokens": None if failed else 0,
                "cost": 0.0031,
                "cache_enabled": cached,
                "cache_reference_id": f"r{number - 1:03d}" if cached else None,
                "request_body": {"model": "gpt-4.1", "messages": messages},
                "response_body": {},
            }
        )
    return lines(rows)


def envoy(told: list[Any]) -> str:
    """Calls to two pods, a listing of models, a call of a tool, a client that went away, a refusal."""
    rows: list[dict[str, Any]] = []
    for number, t in enumerate(told[:16]):
        refused, gone = number == 6, number == 10
        rows.append(
            {
                "start_time": iso(at(t)),
                "method": "POST",
                "x-envoy-origin-path": "/v1/chat/completions",
                "response_code": 429 if refused else 0 if gone else 200,
                "response_flags": "DC" if gone else "-",
                "duration": t.took_ms,
                "x-envoy-upstream-service-time": str(t.took_ms // 3),
                "x-request-id": f"83b6-{number:03d}",
                "upstream_host": f"10.0.0.{7 + t.replica}:8000",
                "upstream_cluster": "httproute/default/r/rule/0",
                "gen_ai.request.model": "qwen3",
                "gen_ai.response.model": None if refused else "qwen3",
                "gen_ai.provider.name": "default/pool",
                "gen_ai.usage.input_tokens": "-" if refused else len(t.tokens),
                "gen_ai.usage.output_tokens": "-" if refused else t.output,
                "llm_cached_input_token": None if refused else t.cached,
                "session.id": f"c{t.session}",
            }
        )
    plain = {
        "method": "GET",
        "response_code": 200,
        "response_flags": "-",
        "duration": 2,
        "upstream_host": "10.0.0.7:8000",
    }
    rows.insert(
        3,
        {"start_time": iso(at(told[3])), **plain, "x-envoy-origin-path": "/v1/models", "x-request-id": "m-1"},
    )
    rows.insert(
        8,
        {"start_time": iso(at(told[8])), **plain, "x-envoy-origin-path": "/mcp", "mcp.method": "tools/call"},
    )
    return lines(rows)


def files(told: list[Any]) -> dict[str, str]:
    """Return the name and content of every fixture of this module.

    Args:
        told: Requests of the fleet, see ``make.turns``.
    """
    return {
        "otel_genai.jsonl": otel_genai(told),
        "openinference.jsonl": openinference(told),
        "litellm.jsonl": litellm(told),
        "litellm_spend.jsonl": litellm_spend(told),
        "langfuse.jsonl": langfuse(told),
        "helicone.jsonl": helicone(told),
        "envoy.jsonl": envoy(told),
    }
