"""Writes one small log per format into this folder; run it again after a change, a test compares."""

from __future__ import annotations

import csv
import io
import json
import random
import runpy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SEED = 17
SESSIONS = 8
TURNS = 4
BLOCK = 16
FIRST = datetime(2026, 11, 24, 10, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Turn:
    """One request of the little fleet that all fixtures tell of.

    Attributes:
        session: Number of the conversation.
        turn: 0-based turn within it.
        at_ms: Milliseconds since the first request.
        tokens: Token ids of the prompt.
        output: Generated tokens.
        took_ms: Milliseconds from start to end.
        replica: 0 or 1.
        cached: Tokens found in the cache.
    """

    session: int
    turn: int
    at_ms: int
    tokens: tuple[int, ...]
    output: int
    took_ms: int
    replica: int
    cached: int


def turns() -> list[Turn]:
    """Return the requests in order of time: sessions over two system prompts, each turn longer than the last."""
    draw = random.Random(SEED)
    systems = [tuple(draw.randrange(1_000, 32_000) for _ in range(length)) for length in (96, 150)]
    told = []
    for session in range(SESSIONS):
        prompt = systems[session % 2]
        at_ms = draw.randrange(0, 60_000)
        for turn in range(TURNS):
            before = len(prompt) if turn else len(systems[session % 2]) * (session > 1)
            prompt += tuple(draw.randrange(1_000, 32_000) for _ in range(draw.randrange(20, 60)))
            output, took_ms = draw.randrange(8, 60), draw.randrange(150, 2_500)
            told.append(
                Turn(session, turn, at_ms, prompt, output, took_ms, session % 2, before // BLOCK * BLOCK)
            )
            at_ms += took_ms + draw.randrange(2_000, 30_000)
    return sorted(told, key=lambda told_turn: (told_turn.at_ms, told_turn.session))


def block_numbers(prompts: list[tuple[int, ...]], *, ceil: bool) -> list[list[int]]:
    """Number the prefixes of 16 tokens in order of appearance; with ``ceil`` the partial block gets a number too."""
    numbers: dict[tuple[int, ...], int] = {}
    listed = []
    for prompt in prompts:
        ends = range(BLOCK, len(prompt) + (BLOCK if ceil else 1), BLOCK)
        listed.append([numbers.setdefault(prompt[:end], len(numbers)) for end in ends])
    return listed


def mooncake(told: list[Turn]) -> str:
    """Times, lengths and ids, with a block of 16 so that so small a log still shares something."""
    ids = block_numbers([turn.tokens for turn in told], ceil=True)
    return _lines(
        {"timestamp": t.at_ms, "input_length": len(t.tokens), "output_length": t.output, "hash_ids": own}
        for t, own in zip(told, ids, strict=True)
    )


def bailian(told: list[Turn]) -> str:
    """Chats with a parent for each turn but the first; one parent lies outside the file."""
    ids = block_numbers([turn.tokens for turn in told], ceil=True)
    rows = []
    for t, own in zip(told, ids, strict=True):
        parent = 100 * t.session + t.turn - 1 if t.turn else (9_999 if t.session == 3 else -1)
        rows.append(
            {
                "chat_id": 100 * t.session + t.turn,
                "parent_chat_id": parent,
                "timestamp": t.at_ms / 1_000,
                "input_length": len(t.tokens),
                "output_length": t.output,
                "type": "search" if t.session % 3 == 0 else "text",
                "turn": t.turn + 1,
                "hash_ids": own,
            }
        )
    return _lines(rows)


def weka(told: list[Turn]) -> str:
    """One conversation: a main agent, and the next session as its subagent with times of its own."""

    def request(t: Turn, zero_ms: int, own: list[int]) -> dict[str, Any]:
        times = {"t": (t.at_ms - zero_ms) / 1_000, "type": "s"}
        sizes = {"model": "coder-7b", "in": len(t.tokens), "out": t.output, "hash_ids": own}
        kinds = {"input_types": ["text"], "output_types": ["text"], "stop": "end_turn"}
        return {**times, **sizes, **kinds, "api_time": t.took_ms / 1_000, "ttft": t.took_ms / 4_000}

    pair = [turn for turn in told if turn.session in (0, 2)]
    numbered = dict(zip(pair, block_numbers([turn.tokens for turn in pair], ceil=False), strict=True))
    main = [turn for turn in pair if turn.session == 0]
    inner = [turn for turn in pair if turn.session == 2]
    zero = main[0].at_ms
    requests: list[dict[str, Any]] = [request(turn, zero, numbered[turn]) for turn in main]
    subagent = {
        "t": 5.5,
        "type": "subagent",
        "agent_id": "agent_001",
        "subagent_type": "search",
        "status": "completed",
    }
    inside = [request(turn, inner[0].at_ms, numbered[turn]) for turn in inner]
    requests.insert(1, {**subagent, "models": ["coder-7b"], "requests": inside})
    document = {"id": "trace_made_up", "models": ["coder-7b"], "block_size": BLOCK, "hash_id_scope": "local"}
    sizes = {"tool_tokens": 64, "system_tokens": 32, "requests": requests}
    return json.dumps({**document, **sizes}, separators=(",", ":")) + "\n"


def dynamo(told: list[Turn]) -> str:
    """Ends of requests with 64-bit hashes above 2**53, one tool event, one request without a session."""
    start_ms = int(FIRST.timestamp() * 1_000)
    ids = block_numbers([turn.tokens for turn in told], ceil=True)
    rows: list[dict[str, Any]] = []
    for number, (t, own) in enumerate(zip(told, ids, strict=True)):
        hashes = [(h + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for h in own]
        received = start_ms + t.at_ms
        request: dict[str, Any] = {
            "request_id": f"req-{number:03d}",
            "model": "coder-7b",
            "input_tokens": len(t.tokens),
            "output_tokens": t.output,
            "cached_tokens": t.cached,
            "request_received_ms": received,
            "prefill_wait_time_ms": 1.5,
            "ttft_ms": t.took_ms / 4,
            "total_time_ms": float(t.took_ms),
            "worker": {"prefill_worker_id": 70 + t.replica, "prefill_dp_rank": 0, "decode_worker_id": 90},
            "replay": {
                "trace_block_size": BLOCK,
                "input_length": len(t.tokens),
                "input_sequence_hashes": hashes,
            },
        }
        row = {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "event_time_unix_ms": received + t.took_ms,
            "event_source": "dynamo",
            "agent_context": {"session_id": f"run-{t.session}"},
            "request": request,
        }
        if number == len(told) - 1:
            del row["agent_context"]
            row["request"] = {
                k: request[k] for k in ("request_id", "output_tokens", "request_received_ms", "replay")
            }
        rows.append(row)
    tool = {"tool_call_id": "call-1", "tool_class": "shell", "status": "succeeded", "duration_ms": 40.0}
    event = {
        "schema": "dynamo.request.trace.v1",
        "event_type": "tool_end",
        "event_time_unix_ms": start_ms + 50_000,
    }
    rows.insert(5, {**event, "session_id": "run-0", "tool": tool})
    return _lines(rows)


def sglang(told: list[Turn]) -> str:
    """Level 3, lines prefixed as by 0.5.23: received and finished, a health check, and one request still running."""
    events: list[tuple[int, dict[str, Any]]] = []
    for number, t in enumerate(told[:20]):
        rid = f"{number:08x}"
        obj = {"rid": rid, "text": None, "input_ids": list(t.tokens), "stream": True, "extra_key": None}
        meta = {
            "id": rid,
            "finish_reason": {"type": "stop"},
            "prompt_tokens": len(t.tokens),
            "completion_tokens": t.output,
            "cached_tokens": t.cached,
            "e2e_latency": t.took_ms / 1_000,
            "dp_rank": t.replica,
        }
        events.append((t.at_ms, {"event": "request.received", "rid": rid, "obj": obj}))
        if number != 19:
            out = {"text": None, "meta_info": meta}
            ended = {"event": "request.finished", "rid": rid, "obj": obj, "out": out}
            events.append((t.at_ms + t.took_ms, ended))
    health = {"rid": "HEALTH_CHECK_1", "input_ids": [0]}
    events.append((30_000, {"event": "request.received", "rid": "HEALTH_CHECK_1", "obj": health}))
    lines = []
    for at_ms, event in sorted(events, key=lambda timed: timed[0]):
        moment = (FIRST + timedelta(milliseconds=at_ms)).replace(tzinfo=None)
        body = json.dumps({"timestamp": moment.isoformat(), **event}, separators=(",", ":"))
        lines.append(f"[{moment:%Y-%m-%d %H:%M:%S}] {body}\n")
    return "".join(lines)


def azure_lengths(told: list[Turn]) -> str:
    """Times with seven digits and lengths, lines ended as on Windows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
    for t in told:
        moment = FIRST + timedelta(milliseconds=t.at_ms)
        writer.writerow([f"{moment:%Y-%m-%d %H:%M:%S.%f}0", len(t.tokens), t.output])
    return out.getvalue()


def token_ids(told: list[Turn]) -> str:
    """A list of ids a request, under names that token_ids.map.toml explains."""
    return _lines(
        {
            "id": f"t-{number:03d}",
            "ts": (FIRST + timedelta(milliseconds=t.at_ms)).isoformat().replace("+00:00", "Z"),
            "ms": t.took_ms,
            "pod": f"pod-{t.replica}",
            "lora": "sql" if t.session == 5 else None,
            "ids": list(t.tokens),
            "generated": t.output,
            "usage": {"cached": t.cached},
            "route": "chat" if t.turn else "open",
        }
        for number, t in enumerate(told)
    )


def files() -> dict[str, str]:
    """Return the name and content of every fixture."""
    told = turns()
    gateways = runpy.run_path(str(Path(__file__).with_name("make_gateways.py")))["files"]
    clients = runpy.run_path(str(Path(__file__).with_name("make_clients.py")))["files"]
    exchanges = runpy.run_path(str(Path(__file__).with_name("make_exchanges.py")))["files"]
    engines = runpy.run_path(str(Path(__file__).with_name("make_engines.py")))["files"]
    return {
        **gateways(told),
        **clients(told),
        **exchanges(),
        **engines(),
        "mooncake_blksz_16.jsonl": mooncake(told),
        "bailian_blksz_16.jsonl": bailian(told),
        "weka.json": weka(told),
        "dynamo.jsonl": dynamo(told),
        "sglang.jsonl": sglang(told),
        "azure_lengths.csv": azure_lengths(told),
        "token_ids.jsonl": token_ids(told),
    }


def _lines(rows: Any) -> str:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


if __name__ == "__main__":
    for name, content in files().items():
        Path(__file__).with_name(name).write_bytes(content.encode())
