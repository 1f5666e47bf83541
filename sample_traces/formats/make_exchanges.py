"""Writes the logs of API bodies into this folder: exchanges, batches, Bedrock, Vertex, Azure, usage pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FIRST = datetime(2026, 11, 24, 10, 0, 0, tzinfo=UTC)
SYSTEM = "You answer questions about the timetable of a small ferry line. " * 4
TOOL = {
    "name": "timetable",
    "description": "Departures of a day",
    "schema": {"type": "object", "properties": {"day": {}}},
}
TURNS = (
    ("Is there a boat on Sunday?", "Three, at 9, 12 and 16."),
    ("And with a bicycle?", "Yes, on the one at 12."),
)


def at(seconds: float) -> datetime:
    """Return a time of the story."""
    return FIRST + timedelta(seconds=seconds)


def iso(seconds: float) -> str:
    """Return it as ISO 8601."""
    return at(seconds).isoformat().replace("+00:00", "Z")


def dialogue(turn: int, *, key: str = "content") -> list[dict[str, Any]]:
    """Return the messages up to a question."""
    told: list[dict[str, Any]] = []
    for question, answer in TURNS[:turn]:
        told += [{"role": "user", key: question}, {"role": "assistant", key: answer}]
    return [*told, {"role": "user", key: TURNS[turn][0]}]


def anthropic_request(turn: int, **more: Any) -> dict[str, Any]:
    """Return a body with a mark on its system prompt."""
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    tools = [{"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["schema"]}]
    body = {
        "model": "claude-sonnet-5",
        "max_tokens": 256,
        "tools": tools,
        "system": system,
        "messages": dialogue(turn),
    }
    return {**body, "metadata": {"user_id": "user_77_session_0f3c9a12-aaaa-bbbb-cccc-1234567890ab"}, **more}


def anthropic_usage(fresh: int, write: int, read: int, output: int) -> dict[str, Any]:
    """Return usage whose parts exclude each other."""
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": write}
    counts = {"input_tokens": fresh, "cache_creation_input_tokens": write, "cache_read_input_tokens": read}
    return {**counts, "cache_creation": split, "output_tokens": output, "service_tier": "standard"}


def anthropic_answer(number: int, turn: int, usage: dict[str, Any]) -> dict[str, Any]:
    """Return a whole answer."""
    head = {
        "id": f"msg_{number:02d}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-20260901",
    }
    content = [{"type": "text", "text": TURNS[turn][1]}]
    return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}


def anthropic_stream(number: int, turn: int, usage: dict[str, Any], *, whole: bool = True) -> str:
    """Return the events of an answer as they come over the wire; one that is cut lacks its end."""
    start = {
        **anthropic_answer(number, turn, {**usage, "output_tokens": 1}),
        "content": [],
        "stop_reason": None,
    }
    text = {"type": "text_delta", "text": TURNS[turn][1]}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    kept = events if whole else events[:2]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in kept)


def chat_request(turn: int, **more: Any) -> dict[str, Any]:
    """Return a body of OpenAI's chat completions."""
    function = {"name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["schema"]}
    messages = [{"role": "system", "content": SYSTEM}, *dialogue(turn)]
    body = {"model": "gpt-5.6", "messages": messages, "tools": [{"type": "function", "function": function}]}
    return {**body, "prompt_cache_key": "ferry-web", **more}


def chat_usage(prompt: int, read: int | None, output: int) -> dict[str, Any]:
    """Return usage whose prompt count includes what was read."""
    counts = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return {**counts, "prompt_tokens_details": {"cached_tokens": read, "audio_tokens": 0}}


def chat_answer(number: int, turn: int, usage: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return a whole answer."""
    message = {"role": "assistant", "content": TURNS[turn][1]}
    head = {
        "id": f"chatcmpl-{number:02d}",
        "object": "chat.completion",
        "created": int(at(seconds).timestamp()),
    }
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return {**head, "model": "gpt-5.6-2026-07-09", "choices": choices, "usage": usage}


def api_exchange() -> str:
    """Calls of several services in one file, in wrappers of several kinds."""
    openai, anthropic = "https://api.openai.com/v1/chat/completions", "https://api.anthropic.com/v1/messages"
    limit = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}
    gemini = {
        "promptTokenCount": 120,
        "cachedContentTokenCount": 96,
        "candidatesTokenCount": 9,
        "thoughtsTokenCount": 20,
    }
    converse = {"inputTokens": 24, "outputTokens": 9, "totalTokens": 129, "cacheReadInputTokens": 96}
    rows: list[dict[str, Any]] = [
        {"url": openai, "status": 429, "request_id": "gw-1", "request": chat_request(0), "response": limit},
        {"url": openai, "status": 200, "request_id": "gw-1", "request": chat_request(0),
         "response": chat_answer(1, 0, chat_usage(118, 0, 9), 2)},
        {"url": openai, "status": 200, "request_id": "gw-2", "request": chat_request(1),
         "response": chat_answer(2, 1, chat_usage(141, 128, 8), 30)},
        {"url": openai, "status": 200, "request_id": "gw-3", "request": chat_request(1),
         "response": chat_answer(3, 1, chat_usage(141, None, 8), 61)},
        {"url": anthropic, "status": 200, "request_id": "gw-4", "request_body": json.dumps(anthropic_request(0)),
         "response_body": json.dumps(anthropic_answer(4, 0, anthropic_usage(4, 110, 0, 9)))},
        {"url": anthropic, "status": 200, "request_id": "gw-5", "request_body": json.dumps(anthropic_request(1)),
         "response_body": anthropic_stream(5, 1, anthropic_usage(27, 0, 110, 8))},
        {"url": anthropic, "status": 200, "request_id": "gw-6", "request_body": json.dumps(anthropic_request(1)),
         "response_body": anthropic_stream(6, 1, anthropic_usage(27, 0, 110, 8), whole=False)},
        {"url": "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
         "status": 200, "request_id": "gw-7",
         "request": {"systemInstruction": {"parts": [{"text": SYSTEM}]},
                     "contents": [{"role": "user", "parts": [{"text": TURNS[0][0]}]}]},
         "response": {"candidates": [{"content": {"role": "model", "parts": [{"text": TURNS[0][1]}]}}],
                      "usageMetadata": {**gemini, "totalTokenCount": 149}, "modelVersion": "gemini-2.5-flash",
                      "responseId": "g-7"}},
        {"url": "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-pro-v1%3A0/converse",
         "status": 200, "request_id": "gw-8",
         "request": {"system": [{"text": SYSTEM}, {"cachePoint": {"type": "default"}}],
                     "messages": [{"role": "user", "content": [{"text": TURNS[0][0]}]}]},
         "response": {"output": {"message": {"role": "assistant", "content": [{"text": TURNS[0][1]}]}},
                      "stopReason": "end_turn", "metrics": {"latencyMs": 640}, "usage": converse}},
        {"url": "https://api.openai.com/v1/embeddings", "status": 200, "request_id": "gw-9",
         "request": {"model": "text-embedding-3-small", "input": TURNS[0][0]},
         "response": {"object": "list", "data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}},
        {"url": "http://10.0.0.7:8000/v1/completions", "status": 200, "request_id": "gw-10", "pod": "vllm-0",
         "request": {"model": "coder-7b", "prompt": list(range(1_000, 1_040)), "cache_salt": "ferry"},
         "response": {"id": "cmpl-10", "object": "text_completion", "created": int(at(150).timestamp()),
                      "model": "coder-7b", "choices": [{"index": 0, "text": " 12", "finish_reason": "stop"}],
                      "usage": {**chat_usage(40, 32, 2), "prompt_tokens_details": None}}},
    ]  # fmt: skip
    for number, row in enumerate(rows):
        row |= {
            "ts": iso(15.5 * number),
            "latency_ms": 400 + 10 * number,
            "route": ("web", "app")[number % 2],
        }
    return _lines(rows)


def api_batch() -> str:
    """Requests and answers of a batch in one file, and one request that failed."""
    rows: list[dict[str, Any]] = [
        {"custom_id": f"q-{n}", "method": "POST", "url": "/v1/chat/completions", "body": chat_request(n % 2)}
        for n in range(3)
    ]
    for n in (1, 0):
        response = {"status_code": 200, "request_id": f"rq-{n}"}
        body = chat_answer(20 + n, n, chat_usage(118 + 23 * n, 0, 9), 3_600 + n)
        row = {
            "id": f"batch_req_{n}",
            "custom_id": f"q-{n}",
            "response": {**response, "body": body},
            "error": None,
        }
        rows.append(row)
    refused = {
        "status_code": 400,
        "request_id": "rq-2",
        "body": {"error": {"message": "no", "type": "invalid_request_error"}},
    }
    rows.append({"id": "batch_req_2", "custom_id": "q-2", "response": refused, "error": None})
    return _lines(rows)


def bedrock() -> str:
    """Converse, a native body streamed, a throttled call, and an event of CloudWatch around a record."""

    def record(number: int, **more: Any) -> dict[str, Any]:
        head = {"schemaType": "ModelInvocationLog", "schemaVersion": "1.0", "timestamp": iso(20 * number)}
        who = {
            "accountId": "111111111111",
            "identity": {"arn": "arn:aws:sts::111111111111:assumed-role/App/ferry"},
        }
        where = {
            "region": "us-east-1",
            "requestId": f"bedrock-{number}",
            "modelId": "us.anthropic.claude-sonnet-5-v1:0",
        }
        return {**head, **who, **where, **more}

    conversation = {"system": [{"text": SYSTEM}, {"cachePoint": {"type": "default"}}]}
    asked = {**conversation, "messages": [{"role": "user", "content": [{"text": TURNS[0][0]}]}]}
    usage = {"inputTokens": 14, "outputTokens": 9, "totalTokens": 133, "cacheReadInputTokens": 0}
    written = {"cacheWriteInputTokens": 110, "cacheDetails": [{"ttl": "5m", "inputTokens": 110}]}
    said = {
        "output": {"message": {"role": "assistant", "content": [{"text": TURNS[0][1]}]}},
        "metrics": {"latencyMs": 700},
    }
    counts = {"inputTokenCount": 14, "cacheReadInputTokenCount": 0, "cacheWriteInputTokenCount": 110}
    native = {key: value for key, value in anthropic_request(1).items() if key != "model"}
    stream = anthropic_stream(31, 1, anthropic_usage(27, 0, 110, 8))
    events = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: ")]
    events[-1]["amazon-bedrock-invocationMetrics"] = {
        "inputTokenCount": 27,
        "outputTokenCount": 8,
        "invocationLatency": 910,
    }
    rows: list[dict[str, Any]] = [
        record(0, operation="Converse", input={"inputBodyJson": asked, **counts},
               output={"outputBodyJson": {**said, "usage": {**usage, **written}}, "outputTokenCount": 9}),
        record(1, operation="InvokeModelWithResponseStream", inferenceRegion="us-east-2",
               input={"inputBodyJson": {"anthropic_version": "bedrock-2023-05-31", **native}, "inputTokenCount": 27},
               output={"outputBodyJson": events, "outputTokenCount": 8}),
        record(2, operation="Converse", errorCode="ThrottlingException", input={}, output={}),
        {"timestamp": int(at(60).timestamp() * 1_000), "logStream": "aws/bedrock/modelinvocations", "message": json.dumps(
            record(3, operation="Converse", input={"inputBodyS3Path": "s3://logs/data/3_input.json.gz", **counts},
                   output={"outputTokenCount": 9}))},
    ]  # fmt: skip
    return _lines(rows)


def vertex() -> str:
    """Rows of the BigQuery table: Gemini, and Claude as a partner model, whose answer was streamed."""
    place = "projects/p/locations/europe-west1/publishers/"
    rows: list[dict[str, Any]] = []
    for number in range(3):
        turn = number % 2
        contents = [
            {"role": {"assistant": "model"}.get(m["role"], m["role"]), "parts": [{"text": m["content"]}]}
            for m in dialogue(turn)
        ]
        counts = {
            "promptTokenCount": 118 + 23 * turn,
            "cachedContentTokenCount": 96 * turn,
            "candidatesTokenCount": 9,
        }
        answer = {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": TURNS[turn][1]}]}, "finishReason": "STOP"}
            ]
        }
        total = {"totalTokenCount": 127 + 23 * turn, "trafficType": "ON_DEMAND"}
        rows.append(
            {
                "endpoint": f"{place}google/models/gemini-2.5-flash",
                "deployed_model_id": None,
                "logging_time": f"{at(30 * number):%Y-%m-%d %H:%M:%S.%f} UTC",
                "request_id": 9_000_000_000 + number,
                "model": "gemini-2.5-flash",
                "model_version": "001",
                "api_method": "generateContent",
                "full_request": {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": contents},
                "full_response": {**answer, "usageMetadata": {**counts, **total}},
                "metadata": {},
            }
        )
    claude = {**rows[0], "endpoint": f"{place}anthropic/models/claude-sonnet-5", "model": "claude-sonnet-5"}
    claude |= {
        "logging_time": f"{at(90):%Y-%m-%d %H:%M:%S.%f} UTC",
        "request_id": 9_000_000_003,
        "api_method": "streamRawPredict",
    }
    stream = anthropic_stream(40, 0, anthropic_usage(4, 0, 110, 9))
    claude |= {
        "full_request": json.dumps(anthropic_request(0)),
        "full_response": None,
        "response_payload": [stream[:300], stream[300:]],
    }
    return _lines([*rows, claude])


def azure_openai() -> str:
    """A resource log, a gateway log with bodies, and the LLM log, one of whose calls takes two rows."""
    ticks = int((at(0) - datetime(1, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
    where = {
        "resourceId": "/SUBSCRIPTIONS/X/PROVIDERS/MICROSOFT.COGNITIVESERVICES/ACCOUNTS/A",
        "location": "eastus",
    }
    times = {"requestTime": ticks, "responseTime": ticks + 8_210_000}
    sizes = {
        "requestLength": 812,
        "responseLength": 430,
        "modelDeploymentName": "chat",
        "modelName": "gpt-4.1",
    }
    gateway = {"backendRequestBody": json.dumps(chat_request(1)), "responseCode": 200, "productId": "ferry"}
    answer = json.dumps(chat_answer(50, 1, chat_usage(141, 128, 8), 20))
    llm = {
        "Type": "ApiManagementGatewayLlmLog",
        "OperationName": "chat",
        "ModelName": "gpt-4.1",
        "DeploymentName": "chat",
    }
    counts = {"PromptTokens": 118, "CompletionTokens": 9, "TotalTokens": 127, "IsStreamCompletion": False}
    asked = json.dumps(chat_request(0)["messages"])
    rows: list[dict[str, Any]] = [
        {"category": "RequestResponse", "time": iso(0), "operationName": "ChatCompletions_Create", "durationMs": 821,
         "correlationId": "c-0", "resultSignature": "200", "properties": {**times, **sizes}, **where},
        {"category": "GatewayLogs", "time": iso(20), "durationMs": 900, "correlationId": "c-1", **where,
         "properties": json.dumps({**gateway, "backendResponseBody": answer})},
        {"TimeGenerated": iso(40), "CorrelationId": "c-2", **llm, **counts, "SequenceNumber": 0, "RequestMessages": asked},
        {"TimeGenerated": iso(60), "CorrelationId": "c-3", **llm, **counts, "SequenceNumber": 0,
         "RequestMessages": asked[:120]},
        {"TimeGenerated": iso(60), "CorrelationId": "c-3", **llm, "SequenceNumber": 1, "RequestMessages": asked[120:]},
    ]  # fmt: skip
    return _lines(rows)


def usage_totals() -> str:
    """A page of hourly totals."""
    result = {
        "input_tokens": 4_000,
        "input_cached_tokens": 1_900,
        "output_tokens": 210,
        "num_model_requests": 31,
    }
    buckets = [
        {"object": "bucket", "start_time": int(at(3_600 * hour).timestamp()), "end_time": int(at(3_600 * hour + 3_600).timestamp()),
         "results": [{"object": "organization.usage.completions.result", **result, "model": "gpt-5.6-2026-07-09"}]}
        for hour in range(2)
    ]  # fmt: skip
    return (
        json.dumps({"object": "page", "data": buckets, "has_more": False, "next_page": None}, indent=1) + "\n"
    )


def files() -> dict[str, str]:
    """Return the name and content of every fixture."""
    return {
        "api_exchange.jsonl": api_exchange(),
        "api_batch.jsonl": api_batch(),
        "bedrock.jsonl": bedrock(),
        "vertex.jsonl": vertex(),
        "azure_openai.jsonl": azure_openai(),
        "usage_totals.json": usage_totals(),
    }


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


if __name__ == "__main__":
    for name, content in files().items():
        Path(__file__).with_name(name).write_bytes(content.encode())
