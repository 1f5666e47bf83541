"""The textbook cache in one OrderedDict a replica: the twin of the textbook kernel."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass(slots=True)
class TextbookRow:
    """One lookup: keys of the prompt's full blocks, then of the output; then so many blocks that only take room."""

    arrival: int
    replica: int
    keys: list[int]
    prompt_keys: int
    nameless: int = 0


@dataclass(slots=True)
class Answer:
    """Hits by row; ``removed`` holds (cause, row or -1, at, replica, key) in order of time by replica."""

    hit: list[int]
    first_eviction: list[int]
    removed: list[tuple[str, int, int, int, int]] = field(default_factory=list)


def replay(
    rows: list[TextbookRow],
    capacity: int,
    replicas: int,
    ttl: int = -1,
    resets: list[tuple[int, int]] | None = None,
) -> Answer:
    """Replay; ``resets`` are (at, replica) in order of time."""
    answer = Answer([0] * len(rows), [-1] * replicas)
    for replica in range(replicas):
        cache: OrderedDict[object, None] = OrderedDict()
        used: dict[object, tuple[int, int]] = {}
        events = [(at, 0, 0) for at, of in resets or [] if of == replica]
        events += [(row.arrival, 1, i) for i, row in enumerate(rows) if row.replica == replica]
        for at, is_lookup, i in sorted(events):
            _expire(cache, used, ttl, at, replica, answer)
            if is_lookup:
                _look_up(cache, used, rows[i], i, capacity, answer)
            else:
                cache.clear()
        _expire(cache, used, ttl, 1 << 60, replica, answer)
    return answer


def _look_up(
    cache: OrderedDict[object, None],
    used: dict[object, tuple[int, int]],
    row: TextbookRow,
    number: int,
    capacity: int,
    answer: Answer,
) -> None:
    for key in row.keys[: row.prompt_keys]:
        if key not in cache:
            break
        cache.move_to_end(key)
        answer.hit[number] += 1
    keys = [*row.keys, *((number, k) for k in range(row.nameless))]
    for key in keys:
        used[key] = (row.arrival, number)
    for key in keys[answer.hit[number] :]:
        cache[key] = None  # a key that is there keeps its place
        if len(cache) > capacity:
            gone, _ = cache.popitem(last=False)
            if answer.first_eviction[row.replica] < 0:
                answer.first_eviction[row.replica] = row.arrival
            if isinstance(gone, int):
                answer.removed.append(("evicted", number, row.arrival, row.replica, gone))


def _expire(
    cache: OrderedDict[object, None],
    used: dict[object, tuple[int, int]],
    ttl: int,
    now: int,
    replica: int,
    answer: Answer,
) -> None:
    if ttl < 0:
        return
    for key in sorted((k for k in cache if used[k][0] + ttl < now), key=lambda k: used[k]):
        del cache[key]
        if isinstance(key, int):
            answer.removed.append(("expired", -1, used[key][0] + ttl, replica, key))
