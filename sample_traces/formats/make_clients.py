"""Writes the logs of engines, clients and agents: the fleet of ``make.py`` as those would tell of it."""

from __future__ import annotations

import json
import runpy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_SHARED = runpy.run_path(str(Path(__file__).with_name("make_gateways.py")))
FIRST, MODELS = _SHARED["FIRST"], _SHARED["MODELS"]
at, chats, iso, lines, unix = (_SHARED[name] for name in ("at", "chats", "iso", "lines", "unix"))


def lmcache(told: list[Any]) -> str:
    """Flattened prompts of one agent, times in seconds as floats."""
    rows = []
    for t, messages in zip(told, chats(told), strict=True):
        if t.session == 1:
            text = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
            rows.append(
                {"timestamp": unix(at(t)), "input": text, "output": "Done.", "session_id": "1aa87db6"}
            )
    return lines(rows)


def claude_code(told: list[Any]) -> str:
    """A session: a summary, prompts, answers of one to three lines, results of tools, a sub-agent, an error."""
    rows: list[dict[str, Any]] = [{"type": "summary", "summary": "Late parcels", "leafUuid": "u-000"}]
    common = {
        "userType": "external",
        "cwd": "/w/shop",
        "sessionId": "5f0c9a52-1",
        "version": "2.1.83",
        "gitBranch": "main",
    }
    above = None
    for number, t in enumerate(told[:10]):
        agent = {"isSidechain": True, "agentId": "a91"} if t.session == 6 else {"isSidechain": False}
        asked = f"u-{number:03d}"
        said = (
            [{"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": "ok"}]
            if number
            else "Find late parcels."
        )
        rows.append(
            {"parentUuid": above, **agent, **common, "type": "user", "uuid": asked, "timestamp": iso(at(t)),
             "message": {"role": "user", "content": said}}
        )  # fmt: skip
        above = asked
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}},
        ]
        for part, block in enumerate(blocks[number % 2 :], start=1):
            usage = {
                "input_tokens": 4,
                "cache_creation_input_tokens": len(t.tokens) - t.cached,
                "cache_read_input_tokens": t.cached,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": len(t.tokens) - t.cached,
                    "ephemeral_1h_input_tokens": 0,
                },
                "output_tokens": t.output if part + number % 2 == 2 else 1,
                "service_tier": "standard",
            }
            own = f"v-{number:03d}-{part}"
            message = {
                "id": f"msg_{number:02d}",
                "type": "message",
                "role": "assistant",
                "model": MODELS[1],
                "content": [block],
                "stop_reason": None if part == 1 else "tool_use",
                "usage": usage,
            }
            rows.append(
                {"parentUuid": above, **agent, **common, "type": "assistant", "uuid": own, "requestId": f"req_{number:02d}",
                 "timestamp": iso(at(t, t.took_ms - 50 * (2 - part))), "message": message}
            )  # fmt: skip
            above = own
    failure = {
        "id": "x",
        "model": "<synthetic>",
        "role": "assistant",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    rows.append(
        {"parentUuid": above, "isSidechain": False, **common, "type": "assistant", "uuid": "w-0", "isApiErrorMessage": True,
         "timestamp": iso(at(told[10])), "message": {**failure, "content": [{"type": "text", "text": "API Error"}]}}
    )  # fmt: skip
    return lines(rows)


def codex(told: list[Any]) -> str:
    """A rollout: calls between tools, each count told twice, one without numbers."""
    rows: list[dict[str, Any]] = []
    total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    own = [t for t in told if t.session in (0, 2)]

    def event(moment: datetime, kind: str, payload: dict[str, Any]) -> None:
        rows.append({"timestamp": iso(moment), "type": kind, "payload": payload})

    meta = {
        "id": "0199f3c2-aaaa-7000-8000-000000000001",
        "cli_version": "0.98.0",
        "originator": "codex_cli_rs",
    }
    event(at(own[0], -900), "session_meta", {**meta, "cwd": "/w/shop", "model_provider": "openai"})
    event(at(own[0], -800), "turn_context", {"model": "gpt-5.3-codex", "cwd": "/w/shop"})
    for number, t in enumerate(own):
        call = f"call_{number:02d}"
        if number == 0:
            content = [{"type": "input_text", "text": "Fix the late parcels."}]
            event(at(t), "response_item", {"type": "message", "role": "user", "content": content})
        else:
            event(
                at(t),
                "response_item",
                {"type": "function_call_output", "call_id": f"call_{number - 1:02d}", "output": "ok"},
            )
        event(
            at(t, t.took_ms - 20),
            "response_item",
            {"type": "function_call", "call_id": call, "name": "shell", "arguments": "{}"},
        )
        if number == 1:
            event(at(t, t.took_ms - 10), "event_msg", {"type": "token_count", "info": None})
        last = {
            "input_tokens": len(t.tokens),
            "cached_input_tokens": t.cached,
            "output_tokens": t.output,
            "total_tokens": len(t.tokens) + t.output,
        }
        total = {name: total[name] + count for name, count in last.items()}
        info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 258_400}
        for again in (0, 30):
            event(at(t, t.took_ms + again), "event_msg", {"type": "token_count", "info": info})
    return lines(rows)


def kv_events(told: list[Any]) -> str:
    """Batches of one engine: blocks stored, removed, all cleared; and one of Dynamo's router."""
    rows: list[Any] = []
    for number, t in enumerate(told[:6]):
        stored = {"type": "BlockStored", "block_hashes": [2**63 + number], "parent_block_hash": None,
                  "token_ids": list(t.tokens[:16]), "block_size": 16, "lora_id": None, "medium": "GPU"}  # fmt: skip
        removed = {"type": "BlockRemoved", "block_hashes": [2**63 + number], "medium": "GPU"}
        rows.append({"ts": unix(at(t)), "seq": number, "dp_rank": 0, "events": [stored, removed]})
    rows.append({"ts": unix(at(told[6])), "seq": 6, "dp_rank": 0, "events": [{"type": "AllBlocksCleared"}]})
    rows.append(
        {
            "worker_id": 7,
            "event": {"event_id": 12, "data": {"removed": {"block_hashes": [991]}}, "dp_rank": 0},
        }
    )
    return lines(rows)


def sglang_exporter(told: list[Any]) -> str:
    """Finished requests with their parameters inside, and a health check."""
    rows = []
    for number, t in enumerate(told[:14]):
        rid = f"{number:08x}"
        sent = {
            "rid": rid,
            "input_ids": list(t.tokens[:120]),
            "sampling_params": {"max_new_tokens": 64},
            "stream": False,
        }
        rows.append(
            {
                "request_parameters": json.dumps(sent, separators=(",", ":")),
                "id": rid,
                "finish_reason": {"type": "stop"},
                "prompt_tokens": len(t.tokens[:120]),
                "completion_tokens": t.output,
                "cached_tokens": min(t.cached, 96),
                "request_received_ts": unix(at(t)),
                "request_finished_ts": unix(at(t, t.took_ms)),
                "e2e_latency": t.took_ms / 1_000,
            }
        )
    health = {"request_parameters": '{"rid":"HEALTH_CHECK_1"}', "id": "HEALTH_CHECK_1", "prompt_tokens": 1}
    rows.insert(
        4, {**health, "completion_tokens": 1, "cached_tokens": 0, "request_received_ts": unix(at(told[4]))}
    )
    return lines(rows)


def sglang_text(told: list[Any]) -> str:
    """Requests that were received and that finished, as Python writes objects, among other lines."""
    timed: list[tuple[int, str]] = []
    for number, t in enumerate(told[:10]):
        rid = f"{number:08x}"
        ids = list(t.tokens[:100])
        obj = f"GenerateReqInput(rid='{rid}', text=None, input_ids={ids}, sampling_params={{'max_new_tokens': 64}}, extra_key=None)"
        meta = {"id": rid, "finish_reason": {"type": "stop"}, "prompt_tokens": len(ids), "completion_tokens": t.output,
                "cached_tokens": min(t.cached, 96), "e2e_latency": t.took_ms / 1_000}  # fmt: skip
        timed.append((t.at_ms, f"Receive: obj={obj}"))
        timed.append(
            (t.at_ms + t.took_ms, f"Finish: obj={obj}, out={{'text': 'it\\'s done', 'meta_info': {meta}}}")
        )
        timed.append(
            (
                t.at_ms + 5,
                f"Prefill batch, #new-seq: 1, #new-token: {len(ids)}, #cached-token: 0, #running-req: 0",
            )
        )
    text = []
    for after_ms, said in sorted(timed):
        moment = FIRST + timedelta(milliseconds=after_ms)
        text.append(f"[{moment:%Y-%m-%d %H:%M:%S}] {said}\n")
    return "".join(text)


def vllm_text(told: list[Any]) -> str:
    """A server that starts, says its model and the size of its cache, and logs requests at DEBUG."""
    moment = FIRST - timedelta(minutes=2)
    head = [
        (moment, "APIServer pid=77", "INFO", "api_server.py:1896", "vLLM API server version 0.11.0"),
        (moment, "APIServer pid=77", "INFO", "utils.py:328",
         "non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'model': 'Qwen/Qwen3-8B', 'block_size': 16}"),
        (moment, "EngineCore_DP0 pid=93", "INFO", "kv_cache_utils.py:1087", "GPU KV cache size: 433,248 tokens"),
    ]  # fmt: skip
    timed = [*head]
    for number, (t, messages) in enumerate(zip(told[:12], chats(told), strict=False)):
        own = f"chatcmpl-{number:04d}"
        prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        ids = list(t.tokens[:110])
        lora = "LoRARequest(lora_name='sql', lora_int_id=1, lora_path='/l/sql')" if t.session == 5 else "None"
        server = "APIServer pid=77"
        timed += [
            (at(t), server, "INFO", "logger.py:39", f"Received request {own}: params: SamplingParams(n=1), lora_request: {lora}."),
            (at(t), server, "DEBUG", "logger.py:58",
             f"Request {own} details: prompt: {prompt!r}, prompt_token_ids: {ids}, prompt_embeds shape: None."),
            (at(t, t.took_ms), server, "INFO", "logger.py:90", f"Generated response {own}: output: 'Done.', finish_reason: stop"),
        ]  # fmt: skip
    text = [
        f"({who}) {level} {when:%m-%d %H:%M:%S} [{where}] {said}\n"
        for when, who, level, where, said in sorted(timed)
    ]
    text.insert(6, 'INFO:     127.0.0.1:5014 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n')
    return "".join(text)


def files(told: list[Any]) -> dict[str, str]:
    """Return the name and content of every fixture of this module.

    Args:
        told: Requests of the fleet, see ``make.turns``.
    """
    return {
        "lmcache.jsonl": lmcache(told),
        "claude_code.jsonl": claude_code(told),
        "codex.jsonl": codex(told),
        "kv_events.jsonl": kv_events(told),
        "sglang_exporter.log": sglang_exporter(told),
        "sglang_text.log": sglang_text(told),
        "vllm_text.log": vllm_text(told),
    }
