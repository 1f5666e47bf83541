"""Writes the story: a week of a multi-tenant assistant in which a release breaks every prompt prefix."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK_TOKENS = 64
PREFIX_TOKENS = 10_000
START = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday
BREAK_AFTER = timedelta(days=2, hours=14, minutes=5)  # Wednesday afternoon
REPAIR_AFTER = timedelta(days=3, hours=10, minutes=20)  # Thursday morning
RELEASES = ("v41", "v42", "v43")
STAMP_TOKENS = 12
SPILL_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Story:
    """How large the story is.

    Attributes:
        tenants: Tenants, each with a prefix of 10,000 tokens.
        requests_per_day: Average over the week.
        replicas: Self-hosted replicas.
        days: Length of the log.
        seed: Decides everything random.
        giant_share: Share of the traffic that is one tenant's.
        hosted_every: Every n-th tenant is served by a hosted API.
        batch_calls: Calls that a further tenant of that API sends at once, every six hours; 0: there is none.
        single_rare: Whether the rare tenants ask once and go, in place of talking.
    """

    tenants: int = 20
    requests_per_day: int = 5_000
    replicas: int = 4
    days: int = 7
    seed: int = 20_261_116
    giant_share: float = 0.34
    hosted_every: int = 5
    batch_calls: int = 0
    single_rare: bool = False


FULL = Story(tenants=200, requests_per_day=50_000, replicas=8, batch_calls=40, single_rare=True)
"""The design scenario, for benchmarks."""


@dataclass(slots=True)
class _Session:
    tenant: int
    name: str
    left: int
    tokens: int
    blocks: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Turn:
    at_s: float
    session: _Session
    prompt_tokens: int
    output_tokens: int
    messages: tuple[int, ...]


def shares(story: Story) -> list[float]:
    """Return each tenant's share of the sessions: one giant, a long tail, some below one request an hour."""
    tail = [1.0 / rank**0.9 for rank in range(1, story.tenants)]
    rare = max(1, story.tenants // 6)
    hourly = story.requests_per_day / 24
    scale = (1.0 - story.giant_share) / sum(tail)
    out = [story.giant_share] + [scale * weight for weight in tail]
    for position in range(rare):
        out[-1 - position] = (0.35 + 0.15 * position / rare) / hourly
    total = sum(out)
    return [share / total for share in out]


def _busyness(at_s: float) -> float:
    """Return the relative arrival rate: quiet nights, a peak in the early afternoon, half of it at weekends."""
    day, second = divmod(at_s, 86_400)
    daily = 1.0 + 0.75 * math.cos((second / 3_600 - 14) / 24 * 2 * math.pi)
    return daily * (0.55 if int(day) % 7 >= 5 else 1.0)


def _turns(story: Story, draw: random.Random) -> Iterator[_Turn]:
    """Yield all turns in order of time; a session has 2.4 turns on average, about a minute and a half apart."""
    end_s = story.days * 86_400.0
    tenants, weights = range(story.tenants), list(accumulate(shares(story)))
    mean_turns = 2.4
    peak = 1.75
    average = sum(_busyness(h * 3_600.0) for h in range(168)) / 168
    rate = story.requests_per_day / 86_400 / mean_turns / average
    queue: list[tuple[float, int, _Session]] = []
    opened, at_s = 0, 0.0
    while True:
        at_s += draw.expovariate(rate * peak)
        while queue and queue[0][0] <= at_s:
            moment, number, session = heapq.heappop(queue)
            yield from _turn(moment, number, session, queue, draw, end_s)
        if at_s >= end_s:
            break
        if draw.random() * peak > _busyness(at_s):
            continue
        tenant = draw.choices(tenants, cum_weights=weights)[0]
        turns = min(12, 1 + int(math.log(1.0 - draw.random()) / math.log(1.0 - 1.0 / mean_turns)))
        if story.single_rare and tenant >= story.tenants - max(1, story.tenants // 6):
            turns = 1
        opened += 1
        session = _Session(tenant, f"s{opened:06d}", turns, PREFIX_TOKENS)
        heapq.heappush(queue, (at_s, opened, session))


def _turn(
    moment: float,
    number: int,
    session: _Session,
    queue: list[tuple[float, int, _Session]],
    draw: random.Random,
    end_s: float,
) -> Iterator[_Turn]:
    if moment >= end_s:
        return
    question, answer = draw.randint(25, 260), draw.randint(40, 420)
    prompt = session.tokens + question
    session.messages.append(question)
    yield _Turn(moment, session, prompt, answer, tuple(session.messages))
    session.messages.append(answer)
    session.tokens = prompt + answer
    session.left -= 1
    if session.left:
        heapq.heappush(queue, (moment + answer * 0.02 + draw.lognormvariate(4.3, 0.9), number, session))


def _batches(story: Story) -> Iterator[_Turn]:
    """Yield the calls of the batch tenant: all of a batch within a few seconds, before the first has its first token."""
    draw = random.Random(story.seed + 1)
    for batch in range(4 * story.days if story.batch_calls else 0):
        for call in range(story.batch_calls):
            question = draw.randint(25, 260)
            session = _Session(story.tenants, f"b{batch:03d}-{call:03d}", 0, PREFIX_TOKENS)
            at_s = 3_600.0 * (6 * batch + 3) + 0.01 * call
            yield _Turn(at_s, session, PREFIX_TOKENS + question, draw.randint(40, 420), (question,))


class _Router:
    """Sends a tenant to its own replica, and to the least busy one while that has more than its share."""

    def __init__(self, replicas: int) -> None:
        self._recent: list[deque[float]] = [deque() for _ in range(replicas)]

    def choose(self, tenant: int, at_s: float) -> int:
        since_s = at_s - SPILL_WINDOW_S
        for recent in self._recent:
            while recent and recent[0] < since_s:
                recent.popleft()
        load = list(map(len, self._recent))
        choice = tenant % len(load)
        if load[choice] > 1.5 * (sum(load) + 1) / len(load) + 1:
            choice = load.index(min(load))
        self._recent[choice].append(at_s)
        return choice


def rows(story: Story) -> Iterator[dict[str, object]]:
    """Yield the log of the week, one request a row, in order of time."""
    draw = random.Random(story.seed)
    router = _Router(story.replicas)
    next_id = 0
    prefix_blocks = PREFIX_TOKENS // BLOCK_TOKENS
    prefixes: dict[int, list[int]] = {}
    turns: Iterator[_Turn] = _turns(story, draw)
    if story.batch_calls:
        turns = heapq.merge(turns, _batches(story), key=lambda turn: turn.at_s)
    for number, turn in enumerate(turns):
        session = turn.session
        after = timedelta(seconds=round(turn.at_s, 3))
        at = START + after
        stamped = BREAK_AFTER <= after < REPAIR_AFTER
        release = RELEASES[1] if stamped else RELEASES[0 if after < BREAK_AFTER else 2]
        prompt_tokens = turn.prompt_tokens + (STAMP_TOKENS if stamped else 0)
        n_blocks = prompt_tokens // BLOCK_TOKENS
        if stamped:  # a time of day on top: no block is like any block before it
            ids = list(range(next_id, next_id + n_blocks))
            next_id += n_blocks
        else:
            if session.tenant not in prefixes:
                prefixes[session.tenant] = list(range(next_id, next_id + prefix_blocks))
                next_id += prefix_blocks
            grown = n_blocks - prefix_blocks - len(session.blocks)
            session.blocks += range(next_id, next_id + grown)
            next_id += grown
            ids = prefixes[session.tenant] + session.blocks
        batch = session.tenant == story.tenants
        hosted = batch or session.tenant % story.hosted_every == story.hosted_every - 1
        yield {
            "id": f"req-{number:06d}",
            "ts": f"{at.isoformat(timespec='milliseconds')[:-6]}Z",
            "ms": round(0.05 * prompt_tokens * 0.2 + 20 * turn.output_tokens),
            "provider": "anthropic" if hosted else "vllm",
            "model": "claude-sonnet-4-5" if hosted else "qwen3-32b",
            "release": release,
            "tenant": f"tenant-{session.tenant + 1:02d}",
            "session": session.name,
            "pod": None if hosted else f"pod-{router.choose(session.tenant, turn.at_s)}",
            "in": prompt_tokens,
            "out": turn.output_tokens,
            "hash_ids": ids,
            "parts": _parts(turn, at if stamped else None),
        }


def _parts(turn: _Turn, stamp: datetime | None) -> list[dict[str, object]]:
    """Return what a gateway would log of the prompt: the length and a digest of each part, a short text as it is."""
    tenant, session = turn.session.tenant, turn.session.name
    parts: list[dict[str, object]] = []
    if stamp is not None:
        parts.append(
            {
                "kind": "system",
                "text": f"It is {stamp.isoformat(sep=' ', timespec='milliseconds')}.",
                "tokens": STAMP_TOKENS,
            }
        )
    parts.append({"kind": "system", "digest": f"tenant-{tenant + 1:02d}", "tokens": PREFIX_TOKENS})
    parts += [{"digest": f"{session}-{at}", "tokens": tokens} for at, tokens in enumerate(turn.messages)]
    return parts


def write(path: Path, story: Story | None = None) -> Path:
    """Write the story as JSONL (read it with ``story.map.toml``) and return ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        out.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows(story or Story()))
    return path
