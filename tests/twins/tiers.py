"""The lower tier as plain lists of keys that follow the block-by-block twin: the twin of the tier kernel."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from twins import radix_running
from twins.vllm_blocks import Answer, Replica, Twin

if TYPE_CHECKING:
    from prefixledger.replay.tiers import TierRules


@dataclass(slots=True)
class Event:
    """What one replica did: a lookup, a prompt that is shown, a key that was removed, a release, or a reset."""

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
        self.told: set[int] = set()

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
        if run.alive and (self.t.ttl < 0 or now - run.admitted <= self.t.ttl):
            self.stored[run.row] = index + 1

    def tell_release(self, number: int, now: int) -> None:
        row = self.t.rows[number]
        stored = min(self.stored.get(number, 0), len(row.keys))
        if stored > row.prompt_keys and number not in self.overtaken | self.told:
            self.t.events.append(Event("release", now, self.number, number, stored))
        self.told.add(number)

    def expire(self, now: int) -> None:
        """What a request generated counts as written when it expires above, if it runs as long as that."""
        events, place, ttl = self.t.events, len(self.t.events), self.t.ttl
        for number, run in sorted(self.running.items(), key=lambda item: (item[1].admitted, item[1].turn)):
            if ttl >= 0 and run.admitted + ttl < now:
                self.tell_release(number, run.admitted + ttl)
        used = {key: max(self.pool.used[slot] for slot in slots) for key, slots in self.pool.copies.items()}
        super().expire(now)
        late = {event.key: (1, used[event.key], -event.key) for event in events[place:] if event.key in used}
        # Of what one lookup was the last to use the deepest block goes first: a child has a higher number.
        events[place:] = sorted(
            events[place:],
            key=lambda event: (event.at, late[event.key]) if event.kind == "removed" else (event.at, (0,)),
        )

    def release(self, now: int, number: int) -> None:
        super().release(now, number)
        self.tell_release(number, now)

    def reset(self, force: bool, now: int = 0) -> bool:
        done = super().reset(force)
        if done:
            self.overtaken |= {*self.running, *self.paused}
            self.t.events.append(Event("reset", now, self.number))
        return done


class _WatchedTree(radix_running.Replica):
    """The same for a tree with running requests."""

    def __init__(self, twin: WatchedTree, number: int) -> None:
        super().__init__(twin, number)
        self.shown: set[int] = set()
        self.overtaken: set[int] = set()  # by a reset, before they were released

    def try_admit(self, number: int, now: int) -> bool:
        place, again = len(self.t.events), number in self.paused
        admitted = super().try_admit(number, now)
        if admitted and not again and not self.t.answer.refused[number]:
            self.t.events.insert(place, Event("lookup", now, self.number, number))
        return admitted

    def note(self, cause, row, at, node):
        super().note(cause, row, at, node)
        self.t.events += [
            Event("removed", at, self.number, row, key) for key in reversed(node.key) if isinstance(key, int)
        ]

    def insert(self, now, run, blocks, known):
        super().insert(now, run, blocks, known)
        if not self.is_alive(run, now):
            self.shown.add(run.row)  # or never: a reset or the TTL came first
            return
        row = self.t.rows[run.row]
        if run.shown and min(known, blocks) > row.prompt_keys and run.row not in self.overtaken:
            self.t.events.append(Event("release", now, self.number, run.row, min(known, blocks)))
        elif (
            not run.shown and run.shows == run.tokens and run.row not in self.shown
        ):  # once: what a retracted request shows later is outside the books
            self.t.events.append(Event("shown", now, self.number, run.row))
        if run.shows == run.tokens:
            self.shown.add(run.row)

    def reset(self, force: bool) -> bool:
        done = super().reset(force)
        if done:
            self.overtaken |= {*self.running, *self.paused}
            self.t.events.append(Event("reset", 0, self.number))
        return done


@dataclass(slots=True)
class WatchedTree(radix_running.Running):
    """The tree of nodes, with a list of all that happened, replica by replica."""

    events: list[Event] = field(default_factory=list)
    watched: ClassVar[type] = _WatchedTree


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

    rules: TierRules
    apart: bool
    block: int
    rows: list
    hits: list[int]
    host: list[int]
    gone: list[tuple[int, int, int, int]]
    held: OrderedDict = field(default_factory=OrderedDict)
    above: set = field(default_factory=set)

    def use(self, event: Event, keys: list[int], written: int) -> None:
        """Take keys as used, deepest first; the first ``written`` of them are written where they are not held."""
        self.above |= set(keys)
        for index, key in reversed(list(enumerate(keys))):
            if key in self.held:
                if self.rules.inclusive:
                    self.held.move_to_end(key)
                else:
                    del self.held[key]
            elif index < written:
                self.put(event, key)

    def put(self, event: Event, key: int) -> None:
        """Write a key; the least recently used goes."""
        if self.rules.capacity_blocks == 0:
            return
        self.held[key] = None
        if self.rules.capacity_blocks is not None and len(self.held) > self.rules.capacity_blocks:
            lost, _ = self.held.popitem(last=False)
            if lost not in self.above:
                self.gone.append((event.row, event.at, event.replica, lost))

    def whole(self, blocks: int) -> int:
        """Return how many of the first blocks of a prompt lie in whole chunks."""
        return blocks - blocks % self.rules.chunk_blocks

    def read(self, event: Event) -> int:
        """Return how far a lookup gets with what the tier has."""
        row, hits = self.rows[event.row], self.hits[event.row]
        reach = hits
        while reach < row.prompt_keys and row.keys[reach] in self.held:
            reach += 1
        reach = 0 if row.bypassed else min(self.whole(reach), (row.tokens - 1) // self.block)
        return reach if reach - hits >= max(self.rules.min_blocks, 1) else hits

    def follow(self, event: Event) -> None:
        """Do what one event of the cache above asks for."""
        row, write = self.rows[event.row], self.rules.write
        prompt = row.keys[: row.prompt_keys]
        if event.kind == "lookup":
            reach = self.read(event)
            self.host[event.row] = reach - self.hits[event.row]
            if self.apart:
                self.use(event, prompt[:reach], 0)
        if event.kind == "shown" if self.apart else event.kind == "lookup":
            reach = self.hits[event.row] + self.host[event.row]
            written = {"through": self.whole(len(prompt)), "through-selective": reach, "on-evict": 0}[write]
            self.use(event, prompt, written)
        if event.kind == "release":
            begin = self.whole(row.prompt_keys)
            keeps = write == "through" and self.rules.output
            self.use(event, row.keys[begin : event.key], self.whole(event.key) - begin if keeps else 0)
        elif event.kind == "reset":
            self.held.clear()
            self.above.clear()
        elif event.kind == "removed":
            self.above.discard(event.key)
            if event.key in self.held:
                return
            if write == "on-evict" and self.rules.capacity_blocks != 0:
                self.put(event, event.key)
            else:
                self.gone.append((event.row, event.at, event.replica, event.key))


def run_tiers(twin: WatchedTwin | WatchedTree, rules: TierRules, *, apart: bool):
    """Return (hits above, hits in the tier, what left both) for tiers that follow ``twin``.

    Replicas that share a tier are merged by time, so no two of them may act at one moment.

    Args:
        twin: The cache above.
        rules: How the tiers work.
        apart: Whether a prompt is written when the twin shows it, not at its lookup.
    """
    answer = twin.run()
    host, gone = [0] * len(twin.rows), []
    streams = [
        [event for event in twin.events if event.replica == replica] for replica in range(twin.replicas)
    ]
    if rules.shared:
        streams = [sorted((e for e in twin.events if e.kind != "reset"), key=lambda e: e.at)]
    for stream in streams:
        tier = TierTwin(rules, apart, twin.block, twin.rows, answer.hit, host, gone)
        for event in stream:
            tier.follow(event)
    return answer.hit, host, gone
