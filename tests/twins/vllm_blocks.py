"""The exact vLLM cache, block by block with physical copies, in plain slow Python: the twin of the extents kernel."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Row:
    """One lookup: keys are (block numbers of the) full blocks of the prompt, then of the output, as far as known."""

    arrival: int
    replica: int
    tokens: int
    keys: list[int]
    prompt_keys: int
    hold: int = 0
    prefill: int = 0
    output: int = 0
    bypassed: bool = False


@dataclass(slots=True)
class Run:
    """A running request."""

    row: int
    admitted: int
    first: int
    end: int
    alive: bool
    slots: list[int]
    full: int
    growing: bool = True
    tokens: int = 0
    output: int = 0
    turn: int = 0


@dataclass(slots=True)
class Answer:
    """What the replay says, row by row; ``removed`` holds (cause, row or -1, at, replica, key, gone) per block."""

    hit: list[int]
    admitted: list[int]
    finished: list[int]
    refused: list[bool]
    ignored: list[bool] = field(default_factory=list)
    first_eviction: list[int] = field(default_factory=list)
    removed: list[tuple[str, int, int, int, int | None, bool]] = field(default_factory=list)
    preempted: dict[int, int] = field(default_factory=dict)
    recompute: dict[int, int] = field(default_factory=dict)


class Pool:
    """The slots of one replica: a free queue (head first), and the copies of every key, oldest first."""

    def __init__(self, capacity: int, *, in_line: bool) -> None:
        self.in_line = in_line
        self.queue: OrderedDict[int, None] = OrderedDict((slot, None) for slot in range(capacity))
        self.pins = [0] * capacity
        self.key: list[object | None] = [None] * capacity
        self.used = [(0, 0)] * capacity  # (time, row) of the last admission that used the slot
        self.copies: dict[object, list[int]] = {}

    def drop_key(self, slot: int) -> bool:
        """Take the key off a slot; return whether no other copy is left."""
        key = self.key[slot]
        self.key[slot] = None
        self.copies[key].remove(slot)
        if not self.copies[key]:
            del self.copies[key]
        return key not in self.copies

    def give_key(self, slot: int, key: object, used: tuple[int, int]) -> None:
        """Key a slot; it is the youngest copy."""
        self.key[slot] = key
        self.used[slot] = used
        self.copies.setdefault(key, []).append(slot)

    def release(self, slots: list[int]) -> None:
        """Unpin, tail first; what has no key goes to the head of the queue, ``in_line`` to its end like all else."""
        for slot in reversed(slots):
            self.pins[slot] -= 1
            if self.pins[slot] == 0:
                self.queue[slot] = None
                if self.key[slot] is None and not self.in_line:
                    self.queue.move_to_end(slot, last=False)


class Replica:
    """One replica in time."""

    def __init__(self, twin: Twin, number: int) -> None:
        self.t, self.number = twin, number
        self.pool = Pool(twin.capacity, in_line=twin.in_line)
        self.running: dict[int, Run] = {}
        self.releases: list[tuple[int, int]] = []
        self.growths: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.paused: dict[
            int, tuple[int, int, int]
        ] = {}  # row: tokens to prefill, output to come, time for it
        self.turns = 0
        self.made_room = False

    def expire(self, now: int) -> None:
        """Take the key off every copy whose last use is too long ago; free ones go to the head of the queue."""
        p, ttl = self.pool, self.t.ttl
        if ttl < 0:
            return
        late = [s for s in range(len(p.key)) if p.key[s] is not None and p.used[s][0] + ttl < now]
        for slot in sorted(late, key=lambda s: p.used[s]):
            key = p.key[slot]
            gone = p.drop_key(slot)
            if slot in p.queue:
                p.queue.move_to_end(slot, last=False)
            self.t.note("expired", -1, p.used[slot][0] + ttl, self.number, key, gone)

    def take(self, n: int, row: int, now: int) -> list[int]:
        """Hand out slots from the head of the queue: this is the eviction."""
        p, slots = self.pool, []
        for _ in range(n):
            slot, _ = p.queue.popitem(last=False)
            if p.key[slot] is not None:
                key = p.key[slot]
                gone = p.drop_key(slot)
                if self.t.answer.first_eviction[self.number] < 0:
                    self.t.answer.first_eviction[self.number] = now
                self.t.note("evicted", row, now, self.number, key, gone)
            p.pins[slot] = 1
            slots.append(slot)
        return slots

    def key_block(self, run: Run, index: int, now: int) -> None:
        """Key one block of a running request, unless a reset or its own age forbids it."""
        row = self.t.rows[run.row]
        if not run.alive or (self.t.ttl >= 0 and now - run.admitted > self.t.ttl):
            return
        key = row.keys[index] if index < len(row.keys) else ("unknown", run.row, index)
        self.pool.give_key(run.slots[index], key, (run.admitted, run.row))

    def try_admit(self, number: int, now: int) -> bool:
        """Look up, pin, allocate and key; False where it does not fit."""
        t, p, row = self.t, self.pool, self.t.rows[number]
        again = number in self.paused
        tokens, output, decode = self.paused.get(number, (row.tokens, row.output, row.hold - row.prefill))
        keyed = min(len(row.keys), tokens // t.block) if again else row.prompt_keys
        need = -(-tokens // t.block)
        if need > t.capacity:
            t.answer.refused[number] = True
            t.answer.admitted[number] = t.answer.finished[number] = now
            return True
        hits: list[int] = []
        for key in row.keys[: min(keyed, (tokens - 1) // t.block)]:
            if row.bypassed:
                break
            if key not in p.copies:
                break
            hits.append(p.copies[key][0])
        short = need - len(hits) + sum(s in p.queue for s in hits) > len(p.queue)
        if short or len(self.running) >= t.most_running:
            return False
        for slot in hits:
            p.queue.pop(slot, None)
            p.pins[slot] += 1
            p.used[slot] = (now, number)
        run = Run(
            number, now, 0, 0, alive=True, slots=hits + self.take(need - len(hits), number, now), full=0
        )
        for index in range(len(hits), tokens // t.block):
            known = index < keyed
            key = row.keys[index] if known else ("unknown", number, index)
            p.give_key(run.slots[index], key, (now, number))
        run.full, run.tokens, run.output, run.turn = tokens // t.block, tokens, output, self.turns
        self.turns += 1
        prefill = row.prefill * tokens // row.tokens if again else row.prefill
        run.first = now + prefill - min(prefill, int(len(hits) * t.hit_saves_us + 0.5))
        run.end = t.answer.finished[number] = run.first + decode
        if again:
            del self.paused[number]
            recompute = tokens - len(hits) * t.block
            t.answer.recompute[number] = t.answer.recompute.get(number, 0) + recompute
        else:
            t.answer.hit[number], t.answer.admitted[number] = len(hits), now
        self.running[number] = run
        heapq.heappush(self.releases, (run.end, number))
        if t.output == "as_decoded":
            self.plan_growth(run)
        return True

    def plan_growth(self, run: Run) -> None:
        """Note when the next output token needs a slot or fills a block."""
        block = self.t.block
        token = min(len(run.slots) * block + 1, (run.full + 1) * block)
        if run.growing and token <= run.tokens + run.output - 1:
            step = token - run.tokens - 1
            heapq.heappush(self.growths, (self.step_at(run, step), run.row))

    def step_at(self, run: Run, step: int) -> int:
        """Return when a decode step begins: steps are spread evenly."""
        return run.first + step * (run.end - run.first) // (run.output - 1)

    def preempt(self, run: Run, now: int) -> None:
        """Release a request, keys and all; it waits before all others to go on from its output so far."""
        del self.running[run.row]
        self.releases = [entry for entry in self.releases if entry[1] != run.row]
        self.growths = [entry for entry in self.growths if entry[1] != run.row]
        heapq.heapify(self.releases)
        heapq.heapify(self.growths)
        got, rest = 0, run.end - max(run.first, now)
        if run.output > 1:
            if now >= run.first:
                over = sum(self.step_at(run, step) < now for step in range(run.output - 1))
                got = min(1 + over, run.output - 1)
            rest = (run.output - 1 - got) * (run.end - run.first) // (run.output - 1)
        tokens = min(run.tokens + got, self.t.capacity * self.t.block)
        self.paused[run.row] = (tokens, run.output - got, rest)
        self.waiting.insert(0, run.row)
        self.t.answer.preempted[run.row] = self.t.answer.preempted.get(run.row, 0) + 1
        self.pool.release(run.slots)
        self.made_room = True

    def grow(self, now: int, number: int) -> None:
        """Take the slot, or key the block, that one output token needs."""
        run, block = self.running[number], self.t.block
        token = min(len(run.slots) * block + 1, (run.full + 1) * block)
        if token == len(run.slots) * block + 1:
            if not self.pool.queue and (self.t.ttl >= 0 or len(run.slots) == self.t.capacity):
                run.growing = False
                return
            while not self.pool.queue:
                last = max(self.running.values(), key=lambda other: other.turn)
                self.preempt(last, now)
                if last is run:
                    return
            run.slots += self.take(1, number, now)
        if token == (run.full + 1) * block:
            self.key_block(run, run.full, now)
            run.full += 1
        self.plan_growth(run)

    def release(self, now: int, number: int) -> None:
        """Unpin, tail first; what has no key goes to the head of the queue."""
        run, row, block = self.running.pop(number), self.t.rows[number], self.t.block
        if self.t.output == "at_release" and row.output > 0:
            tokens = row.tokens + row.output - 1
            more = -(-tokens // block) - len(run.slots)
            if more <= len(self.pool.queue):
                run.slots += self.take(more, number, now)
                for index in range(run.full, tokens // block):
                    self.key_block(run, index, now)
        self.pool.release(run.slots)

    def reset(self, force: bool) -> bool:
        """Drop every key; False where a running request forbids it."""
        if self.running and not force:
            return False
        for slot in range(len(self.pool.key)):
            if self.pool.key[slot] is not None:
                self.pool.drop_key(slot)
        for run in self.running.values():
            run.alive = False
        return True


@dataclass(slots=True)
class Twin:
    """All replicas; ``resets`` are (at, replica, force) in order of time; nothing happens after ``until``."""

    rows: list[Row]
    block: int
    capacity: int
    replicas: int = 1
    ttl: int = -1
    output: str = "ignore"
    hit_saves_us: float = 0.0
    resets: list[tuple[int, int, bool]] = field(default_factory=list)
    in_line: bool = False
    until: int = 1 << 60
    most_running: int = 1 << 30
    answer: Answer = field(init=False)
    pools: list[Pool] = field(init=False, default_factory=list)

    def note(self, cause: str, row: int, at: int, replica: int, key: object, gone: bool) -> None:
        """Record one block that lost its key."""
        self.answer.removed.append((cause, row, at, replica, key if isinstance(key, int) else None, gone))

    def run(self) -> Answer:
        """Replay every replica."""
        n = len(self.rows)
        self.answer = Answer(
            [0] * n, [0] * n, [0] * n, [False] * n, [False] * len(self.resets), [-1] * self.replicas
        )
        for number in range(self.replicas):
            replica = Replica(self, number)
            self.run_replica(replica)
            self.pools.append(replica.pool)
        return self.answer

    def held(self, row: Row) -> list[int]:
        """Count the blocks at the head of a prompt that each replica holds at the end."""
        counts = []
        for pool in self.pools:
            missing = [
                index for index, key in enumerate(row.keys[: row.prompt_keys]) if key not in pool.copies
            ]
            counts.append(missing[0] if missing else row.prompt_keys)
        return counts

    def run_replica(self, r: Replica) -> None:
        """Replay one replica from moment to moment."""
        to_come = [i for i, row in enumerate(self.rows) if row.replica == r.number]
        resets = [i for i, event in enumerate(self.resets) if event[1] == r.number]
        while True:
            times = [self.rows[to_come[0]].arrival] if to_come else []
            times += [self.resets[resets[0]][0]] if resets else []
            times += [heap[0][0] for heap in (r.releases, r.growths) if heap]
            if not times or min(times) > self.until:
                break
            now = min(times)
            r.expire(now)
            self.step(r, now, to_come, resets)
        r.expire(self.until)

    def step(self, r: Replica, now: int, to_come: list[int], resets: list[int]) -> None:
        """Do all that happens at one moment: growth, releases, events, admissions, until nothing is left of it."""
        released = self.settle(r, now)
        while resets and self.resets[resets[0]][0] == now:
            number = resets.pop(0)
            self.answer.ignored[number] = not r.reset(self.resets[number][2])
        blocked = bool(r.waiting) and not released
        while True:
            while to_come and self.rows[to_come[0]].arrival == now:
                r.waiting.append(to_come.pop(0))
            if blocked or not r.waiting:
                break
            if r.try_admit(r.waiting[0], now):
                r.waiting.pop(0)
                self.settle(r, now)
            else:
                blocked = not self.settle(r, now)

    def settle(self, r: Replica, now: int) -> bool:
        """Do the growth and the releases of one moment; return whether anything was released or preempted."""
        released = False
        r.made_room = False
        while True:
            growth = r.growths[0] if r.growths and r.growths[0][0] <= now else None
            if growth:
                heapq.heappop(r.growths)
                r.grow(*growth)
            elif r.releases and r.releases[0][0] <= now:
                r.release(*heapq.heappop(r.releases))
                released = True
            else:
                return released or r.made_room
