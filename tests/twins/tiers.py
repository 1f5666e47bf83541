"""The lower tier as plain lists of keys that follow the block-by-block twin: the twin of the tier kernel."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from twins.vllm_blocks import Answer, Replica, Twin


@dataclass(slots=True)
class Event:
    """What one replica did: a lookup, a key that was removed, a release, or a reset."""

    kind: str
    at: int
    replica: int
    row: int = -1
    key: int = -1


class _Watched(Replica):
    """A replica that writes down what it does, a lookup before what its own admission removes."""

    def __init__(self, twin: WatchedTwin, number: int) -> None:
        super().__init__(twin, number)
        self.stored: dict[int, int] = {}
        self.overtaken: set[int] = set()  # by a reset, before they were released

    def try_admit(self, number: int, now: int) -> bool:
        events, place, again = self.t.events, len(self.t.events), number in self.paused
        admitted = super().try_admit(number, now)
        if admitted and again:  # outside the books
            self.stored[number] = self.running[number].full
        elif admitted and not self.t.answer.refused[number]:
            events.insert(place, Event("lookup", now, self.number, number))
        return admitted

    def key_block(self, run, index, now):
        super().key_block(run, index, now)
        if run.alive:
            self.stored[run.row] = index + 1

    def release(self, now: int, number: int) -> None:
        super().release(now, number)
        row = self.t.rows[number]
        stored = min(self.stored.get(number, 0), len(row.keys))
        if stored > row.prompt_keys and number not in self.overtaken:
            self.t.events.append(Event("release", now, self.number, number, stored))

    def reset(self, force: bool, now: int = 0) -> bool:
        done = super().reset(force)
        if done:
            self.overtaken |= {*self.running, *self.paused}
            self.t.events.append(Event("reset", now, self.number))
        return done


@dataclass(slots=True)
class WatchedTwin(Twin):
    """The block-by-block twin, with a list of all that happened, replica by replica."""

    events: list[Event] = field(default_factory=list)

    def note(self, cause: str, row: int, at: int, replica: int, key: object, gone: bool) -> None:
        """Write down what left with its last copy."""
        Twin.note(self, cause, row, at, replica, key, gone)
        if gone and isinstance(key, int):
            self.events.append(Event("removed", at, replica, row, key))

    def run(self) -> Answer:
        """Replay every replica and watch it."""
        n = len(self.rows)
        self.answer = Answer(
            [0] * n, [0] * n, [0] * n, [False] * n, [False] * len(self.resets), [-1] * self.replicas
        )
        for number in range(self.replicas):
            self.run_replica(_Watched(self, number))
        return self.answer


@dataclass(slots=True)
class TierTwin:
    """One tier: keys from the least to the most recently used."""

    capacity: int
    write: str
    inclusive: bool
    min_blocks: int
    block: int
    rows: list
    hits: list[int]
    host: list[int]
    gone: list[tuple[int, int, int, int]]
    held: OrderedDict = field(default_factory=OrderedDict)
    above: set = field(default_factory=set)

    def use(self, event: Event, keys: list[int], hits: int) -> None:
        """Take keys as used, deepest first; the first ``hits`` of them were there already."""
        self.above |= set(keys)
        for index, key in reversed(list(enumerate(keys))):
            if key in self.held:
                if self.inclusive:
                    self.held.move_to_end(key)
                else:
                    del self.held[key]
            elif self.write == "through" or (self.write == "through-selective" and index < hits):
                self.put(event, key)

    def put(self, event: Event, key: int) -> None:
        """Write a key; the least recently used goes."""
        if self.capacity == 0:
            return
        self.held[key] = None
        if len(self.held) > self.capacity:
            lost, _ = self.held.popitem(last=False)
            if lost not in self.above:
                self.gone.append((event.row, event.at, event.replica, lost))

    def follow(self, event: Event) -> None:
        """Do what one event of the cache above asks for."""
        row = self.rows[event.row]
        if event.kind == "lookup":
            keys = row.keys[: row.prompt_keys]
            reach = hits = self.hits[event.row]
            while reach < min(len(keys), (row.tokens - 1) // self.block) and keys[reach] in self.held:
                reach += 1
            if reach - hits < self.min_blocks:
                reach = hits
            self.host[event.row] = reach - hits
            self.use(event, keys, reach)
        elif event.kind == "release":
            self.use(event, row.keys[row.prompt_keys : event.key], 0)
        elif event.kind == "reset":
            self.held.clear()
            self.above.clear()
        else:
            self.above.discard(event.key)
            if event.key in self.held:
                return
            if self.write == "on-evict" and self.capacity > 0:
                self.put(event, event.key)
            else:
                self.gone.append((event.row, event.at, event.replica, event.key))


def run_tiers(
    twin: WatchedTwin, *, capacity: int, shared: bool, write: str, inclusive: bool, min_blocks: int
):
    """Return (hits above, hits in the tier, what left both) for tiers that follow ``twin``.

    Replicas that share a tier are merged by time, so no two of them may act at one moment.
    """
    answer = twin.run()
    host, gone = [0] * len(twin.rows), []
    streams = [
        [event for event in twin.events if event.replica == replica] for replica in range(twin.replicas)
    ]
    if shared:
        streams = [sorted((e for e in twin.events if e.kind != "reset"), key=lambda e: e.at)]
    for stream in streams:
        tier = TierTwin(capacity, write, inclusive, min_blocks, twin.block, twin.rows, answer.hit, host, gone)
        for event in stream:
            tier.follow(event)
    return answer.hit, host, gone
