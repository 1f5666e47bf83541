"""Makes up chat traffic without a fault: sessions that stay where they are and whose prompts only grow."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 16, tzinfo=UTC)
DAYS = 8
"""So many that a date that changes with the day takes four values in the second half."""


HALF_S = DAYS * 86_400 / 2


TENANTS = 4


SESSIONS = 90


REPLICAS = 3
TOOLS = ("search", "fetch", "write", "plan", "mail", "clock")


MAP = """\
format = "jsonl"
block_size = 16
[columns]
request_id = "id"
started_at = { from = "at", unit = "iso" }
tenant = "tenant"
session_id = "session"
replica = "pod"
model = "model"
release = "release"
adapter = "adapter"
cache_salt = "salt"
output_tokens = "out"
text = "body"
"""


_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ter",
    "vas",
    "ne",
    "rup",
    "sol",
    "dan",
    "fi",
    "gre",
    "hol",
    "jin",
    "pel",
    "qua",
    "wen",
)


@dataclass(slots=True)
class Call:
    """One request before it is written.

    Attributes:
        at_s: Seconds since the start.
        tenant: Number of the tenant.
        session: Number of the session.
        turn: Number of the turn in it, from 0.
        tools: Tools as sent.
        system: Paragraphs of the system prompt.
        messages: Messages as sent.
        pod: Replica that answers.
        model: Model that is asked.
        release: Release of the calling program.
        adapter: LoRA adapter.
        salt: Cache salt.
    """

    at_s: float
    tenant: int
    session: int
    turn: int
    tools: list[dict[str, Any]]
    system: list[str]
    messages: list[dict[str, str]]
    pod: str
    model: str = "house-32b"
    release: str = "r1"
    adapter: str | None = None
    salt: str | None = None

    @property
    def at(self) -> datetime:
        """Return when it is sent."""
        return START + timedelta(seconds=round(self.at_s, 3))


@dataclass(slots=True)
class Traffic:
    """A log, and how it is to be replayed.

    Attributes:
        calls: In order of time.
        cache: Lines of the scenario's cache.
        events: Lines of the scenario's events.
    """

    calls: list[Call]
    cache: str = 'profile = "vllm"\ncapacity = "unlimited"'
    events: str = ""
    draw: random.Random = field(default_factory=random.Random)

    def write(self, folder: Path) -> None:
        """Write ``log.jsonl``, ``map.toml`` and ``scenario.toml``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.calls.sort(key=lambda call: (call.at_s, call.session))
        with (folder / "log.jsonl").open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(_row(call), ensure_ascii=False) + "\n" for call in self.calls)
        (folder / "map.toml").write_text(MAP, encoding="utf-8")
        scenario = f'name = "planted"\n[cache]\n{self.cache}\n[in_flight]\nresidence = "none"\noutput = "ignore"\n{self.events}'
        (folder / "scenario.toml").write_text(scenario, encoding="utf-8")


def words(draw: random.Random, n: int) -> str:
    """Return so many words that nobody has seen."""
    return " ".join("".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(n))


def traffic(seed: int) -> Traffic:
    """Return traffic without a fault: sessions that stay where they are and whose prompts only grow."""
    draw = random.Random(seed)
    # What tenants share they share on one replica, so that nothing moves between replicas unless a fault moves it.
    tools = [[tool(draw, f"p{pod}_{name}") for name in TOOLS] for pod in range(REPLICAS)]
    common = [[words(draw, 60) for _ in range(6)] for _ in range(REPLICAS)]
    own = [[words(draw, 60) for _ in range(6)] for _ in range(TENANTS)]
    calls: list[Call] = []
    for session in range(SESSIONS):
        tenant = draw.randrange(TENANTS)
        at_s = draw.uniform(0, DAYS * 86_400 - 3_600)
        messages: list[dict[str, str]] = []
        for turn in range(draw.randint(3, 7)):
            messages = [*messages, {"role": "user", "content": words(draw, draw.randint(15, 60))}]
            calls.append(
                Call(
                    at_s,
                    tenant,
                    session,
                    turn,
                    list(tools[tenant % REPLICAS]),
                    common[tenant % REPLICAS] + own[tenant],
                    messages,
                    f"pod-{tenant % REPLICAS}",
                )
            )
            messages = [*messages, {"role": "assistant", "content": words(draw, draw.randint(30, 120))}]
            at_s += draw.uniform(8, 150)
    calls.sort(key=lambda call: (call.at_s, call.session))
    return Traffic(calls, draw=random.Random(seed + 1))


def _row(call: Call) -> dict[str, Any]:
    messages = [{"role": "system", "content": "\n\n".join(call.system)}, *call.messages]
    body = {"model": call.model, "tools": call.tools, "messages": messages}
    return {
        "id": f"s{call.session:03d}-{call.turn}",
        "at": call.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "tenant": f"tenant-{call.tenant}",
        "session": f"s{call.session:03d}",
        "pod": call.pod,
        "model": call.model,
        "release": call.release,
        "adapter": call.adapter,
        "salt": call.salt,
        "out": 60,
        "body": body,
    }


def tool(draw: random.Random, name: str) -> dict[str, Any]:
    """Return a tool as sent."""
    fields = {
        field: {"type": "string", "description": words(draw, 12)} for field in ("what", "where", "limit")
    }
    parameters = {"type": "object", "properties": fields, "required": ["what"]}
    function = {"name": name, "description": words(draw, 25), "parameters": parameters}
    return {"type": "function", "function": function}
