"""SGLang's classic radix tree with locks and running requests, in plain slow Python: the twin of the running kernel."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from twins.locked_tree import LockedNode, LockedTree, above
from twins.running_records import Answer, Run

if TYPE_CHECKING:
    from twins.vllm_blocks import Row

INSERT, GROW, RELEASE = range(3)


class Replica:
    """One replica in time."""

    def __init__(self, twin: Running, number: int) -> None:
        self.t, self.number = twin, number
        self.tree = LockedTree()
        self.running: dict[int, Run] = {}
        self.events: list[tuple[int, int, int]] = []
        self.waiting: list[tuple[int, int]] = []  # (since when, row)
        self.paused: dict[
            int, tuple[int, int, int]
        ] = {}  # row: tokens to prefill, output to come, time for it
        self.turns = 0
        self.made_room = False

    def keys(self, run: Run, blocks: int, known: int) -> list[object]:
        """Return the keys of the first blocks of a row; where they are not known they are like no other."""
        known = min(known, blocks)
        return [*self.t.rows[run.row].keys[:known], *((run.row, run.turn, k) for k in range(known, blocks))]

    def taken(self) -> tuple[int, int]:
        """Return slots in use, and those that cannot be had by eviction."""
        dead = {id(node): node for run in self.running.values() for node in above(run.node) if node.dead}
        own = sum(run.own for run in self.running.values())
        kept = own + sum(len(node.key) for node in dead.values())
        nodes = self.tree.nodes()
        in_use = kept + sum(len(node.key) for node in nodes)
        assert in_use <= self.t.capacity
        return in_use, kept + sum(len(node.key) for node in nodes if node.locks)

    def make_room(self, need: int, row: int, now: int) -> None:
        """Evict whole leaves, the one accessed longest ago first, for what is short."""
        short = self.taken()[0] + need - self.t.capacity
        if need > 0 and short > 0 and self.t.answer.first_eviction[self.number] < 0:
            self.t.answer.first_eviction[self.number] = now
        while need > 0 and short > 0:
            leaves = self.tree.leaves()
            oldest = min(leaves, key=lambda node: node.accessed)
            assert [leaf.accessed for leaf in leaves].count(oldest.accessed) == 1, (
                "a tie is for nobody to break"
            )
            self.tree.remove(oldest)
            short -= len(oldest.key)
            self.note("evicted", row, now, oldest)

    def note(self, cause: str, row: int, at: int, node: LockedNode) -> None:
        """Record what left the tree, deep blocks first."""
        self.t.answer.removed += [
            (cause, row, at, self.number, key) for key in reversed(node.key) if isinstance(key, int)
        ]

    def expire(self, now: int) -> None:
        """Take out every node that no admission used for more than the TTL; its locks keep its room."""
        ttl = self.t.ttl
        late = [node for node in self.tree.nodes() if ttl >= 0 and node.used[0] + ttl < now]
        for node in reversed(late):  # children first
            assert not node.children
            del node.parent.children[node.key[0]]
            node.dead = True
        late.reverse()  # of those that one lookup used last, children first
        for node in sorted(late, key=lambda node: node.used):
            self.note("expired", -1, node.used[0] + ttl, node)

    def is_alive(self, run: Run, now: int) -> bool:
        """Return whether a request may still insert."""
        return run.alive and (self.t.ttl < 0 or now - run.admitted <= self.t.ttl)

    def computed_by(self, number: int, hits: int, now: int) -> tuple[int, int]:
        """Return who computes most of what a row misses behind its hits, of equals the first admitted, and how deep."""
        row = self.t.rows[number]
        wanted = row.keys[: 0 if row.bypassed else min(row.prompt_keys, (row.tokens - 1) // self.t.block)]
        best = (-1, 0)
        for other, run in sorted(self.running.items(), key=lambda one: one[1].turn):
            theirs = self.t.rows[other]
            keys = theirs.keys if self.t.output != "ignore" else theirs.keys[: theirs.prompt_keys]
            if run.stopped:
                keys = keys[: run.slots]
            same = 0
            while same < min(len(keys), len(wanted)) and keys[same] == wanted[same]:
                same += 1
            if self.is_alive(run, now) and same > max(hits, best[1]):
                best = (other, same)
        return best

    def try_admit(self, number: int, now: int) -> bool:
        """Match, lock and allocate; False where it does not fit."""
        t, row, answer = self.t, self.t.rows[number], self.t.answer
        again = number in self.paused
        tokens, output, decode = self.paused.get(number, (row.tokens, row.output, row.hold - row.prefill))
        keyed = min(len(row.keys), tokens // t.block) if again else row.prompt_keys
        slots = -(-tokens // t.block)
        if slots > t.capacity:
            answer.refused[number] = True
            answer.admitted[number] = answer.finished[number] = now
            return True
        if len(self.running) >= t.most_running:
            return False
        may_hit = row.keys[: 0 if row.bypassed else min(keyed, (tokens - 1) // t.block)]
        if slots - self.locked_already(may_hit) > t.capacity - self.taken()[1]:
            return False
        node = self.tree.use(may_hit, (now, number))
        for locked in above(node):
            locked.locks += 1
        hits = sum(len(locked.key) for locked in above(node))
        if not again:
            answer.in_flight[number] = self.computed_by(number, hits, now)
        self.make_room(slots - hits, number, now)
        prefill = row.prefill * tokens // row.tokens if again else row.prefill
        first = now + prefill - min(prefill, int(hits * t.hit_saves_us + 0.5))
        self.turns += 1
        shows = tokens if t.chunk is None else min((hits + t.chunk) * t.block, tokens)
        run = Run(
            number,
            now,
            first,
            first + decode,
            node,
            slots - hits,
            slots,
            tokens,
            output,
            self.turns,
            now,
            hits,
            shows,
        )
        self.running[number] = run
        answer.finished[number] = run.end
        if again:
            del self.paused[number]
            answer.recompute[number] = answer.recompute.get(number, 0) + tokens - hits * t.block
        else:
            answer.hit[number], answer.admitted[number] = hits, now
        heapq.heappush(self.events, (self.shown_at(run), INSERT, number))
        heapq.heappush(self.events, (run.end, RELEASE, number))
        self.plan_growth(run)
        return True

    def locked_already(self, keys: list[object]) -> int:
        """Return how many blocks of a path are locked in the tree."""
        node, found = self.tree.root, 0
        while found < len(keys) and keys[found] in node.children:
            node = node.children[keys[found]]
            if not node.locks:
                break
            for key in node.key:
                if found == len(keys) or keys[found] != key:
                    return found
                found += 1
        return found

    def plan_growth(self, run: Run) -> None:
        """Note when the next output token needs a slot."""
        token = run.slots * self.t.block + 1
        if self.t.output == "as_decoded" and token <= run.tokens + run.output - 1:
            heapq.heappush(self.events, (self.step_at(run, token - run.tokens - 1), GROW, run.row))

    def shown_at(self, run: Run) -> int:
        """Return when what it shows next is computed: chunks take their share of the prefill."""
        hit = run.hits * self.t.block
        return run.began + (run.first - run.began) * (run.shows - hit) // (run.tokens - hit)

    def step_at(self, run: Run, step: int) -> int:
        """Return when a decode step begins: steps are spread evenly."""
        return run.first + step * (run.end - run.first) // (run.output - 1)

    def so_far(self, run: Run, now: int) -> int:
        """Return the output tokens since the last admission: one with the prefill, one with each step that is over."""
        over = sum(self.step_at(run, step) < now for step in range(run.output - 1))
        return max(min(1 + over, run.output - 1), 0)

    def retract(self, run: Run, now: int) -> None:
        """Release a request without inserting anything; it waits behind those that came before now."""
        got, rest = self.so_far(run, now), run.end - max(run.first, now)
        if run.output > 1:
            rest = (run.output - 1 - got) * (run.end - run.first) // (run.output - 1)
        tokens = min(run.tokens + got, self.t.capacity * self.t.block)
        self.paused[run.row] = (tokens, run.output - got, rest)
        place = sum(since < now or number in self.paused for since, number in self.waiting)
        self.waiting.insert(place, (now, run.row))
        self.events = [event for event in self.events if event[2] != run.row]
        heapq.heapify(self.events)
        for node in above(run.node):
            node.locks -= 1
        del self.running[run.row]
        self.t.answer.retracted[run.row] = self.t.answer.retracted.get(run.row, 0) + 1
        self.made_room = True

    def make_room_to_grow(self, now: int, run: Run) -> None:
        """Retract who has the least output, then the longest prompt, then came last; the last that decodes is left."""
        while self.taken()[1] == self.t.capacity and run.row in self.running:
            decoding = [each for each in self.running.values() if each.shown]
            if len(decoding) == 1:
                return

            def order(each: Run) -> tuple[int, int, int]:
                prompt = self.t.rows[each.row].tokens
                return each.tokens - prompt + self.so_far(each, now), -prompt, -each.turn

            self.retract(min(decoding, key=order), now)

    def grow(self, now: int, run: Run) -> None:
        """Take one more slot, or make room for it, or stop growing."""
        if self.t.ttl < 0 and run.slots < self.t.capacity:
            self.make_room_to_grow(now, run)
            if run.row not in self.running:
                return
        if self.taken()[1] == self.t.capacity:
            run.stopped = True
            self.t.answer.stopped += 1
            return
        self.make_room(1, run.row, now)
        run.own += 1
        run.slots += 1
        self.plan_growth(run)

    def insert(self, now: int, run: Run, blocks: int, known: int) -> None:
        """Bring the first blocks of a request into the tree, and lock them instead of what it locked."""
        if not self.is_alive(run, now):
            return
        before, in_use = above(run.node), self.taken()[0]
        run.own -= blocks - sum(len(node.key) for node in before)
        # Until its slots are given, the tree may seem to hold more than there is.
        run.node = self.tree.insert(self.keys(run, blocks, known), (run.admitted, run.row))
        for node in above(run.node):
            node.locks += 1
        for node in before:
            node.locks -= 1
        self.t.answer.freed_at_once += in_use - self.taken()[0]

    def release(self, now: int, run: Run) -> None:
        """Insert prompt and output, then let go of everything."""
        t, row = self.t, self.t.rows[run.row]
        tokens = row.tokens
        if t.output != "ignore" and row.output > 0:
            tokens += row.output - 1
        if t.output == "as_decoded":
            tokens = min(tokens, run.slots * t.block)
        if t.output == "at_release":
            more = -(-tokens // t.block) - run.slots
            if more > t.capacity - self.taken()[1]:
                tokens = row.tokens
            else:
                self.make_room(more, run.row, now)
                run.own += more
        known = row.prompt_keys if t.output == "ignore" else len(row.keys)
        self.insert(now, run, tokens // t.block, known)
        for node in above(run.node):
            node.locks -= 1
        del self.running[run.row]

    def reset(self, force: bool) -> bool:
        """Empty the tree; what is locked keeps its room. False where a running request forbids it."""
        if self.running and not force:
            return False
        for node in self.tree.nodes():
            node.dead = True
        for run in self.running.values():
            run.alive = False
        self.tree = LockedTree()
        return True

    def settle(self, now: int) -> bool:
        """Do the inserts, growth and releases of one moment; return whether that may have made room for who waits."""
        self.made_room = False
        while self.events and self.events[0][0] <= now:
            at, what, number = heapq.heappop(self.events)
            assert at == now
            run, row = self.running[number], self.t.rows[number]
            if what == INSERT:
                blocks = run.shows // self.t.block
                prompt = run.tokens == row.tokens
                self.insert(now, run, blocks, row.prompt_keys if prompt else min(len(row.keys), blocks))
                run.shown, self.made_room = run.shows == run.tokens, True
                if not run.shown:
                    run.shows = min(run.shows + self.t.chunk * self.t.block, run.tokens)
                    heapq.heappush(self.events, (self.shown_at(run), INSERT, number))
            elif what == GROW:
                self.grow(now, run)
            else:
                self.release(now, run)
                self.made_room = True
        return self.made_room

    def run(self) -> None:
        """Go from moment to moment."""
        to_come = [i for i, row in enumerate(self.t.rows) if row.replica == self.number]
        resets = [i for i, event in enumerate(self.t.resets) if event[1] == self.number]
        blocked = False
        while True:
            times = [self.t.rows[to_come[0]].arrival] if to_come else []
            times += [self.t.resets[resets[0]][0]] if resets else []
            times += [self.events[0][0]] if self.events else []
            if not times:
                break
            now = min(times)
            self.expire(now)
            blocked = not self.settle(now) and blocked
            while resets and self.t.resets[resets[0]][0] == now:
                number = resets.pop(0)
                self.t.answer.ignored[number] = not self.reset(self.t.resets[number][2])
            while to_come and self.t.rows[to_come[0]].arrival == now:
                self.waiting.append((now, to_come.pop(0)))
            while self.waiting and not blocked:
                if self.try_admit(self.waiting[0][1], now):
                    self.waiting.pop(0)
                    self.settle(now)
                else:
                    blocked = not self.settle(now)
        self.expire(1 << 60)


@dataclass(slots=True)
class Running:
    """All replicas; ``resets`` are (at, replica, force) in order of time."""

    rows: list[Row]
    block: int
    capacity: int
    replicas: int = 1
    ttl: int = -1
    output: str = "ignore"
    hit_saves_us: float = 0.0
    resets: list[tuple[int, int, bool]] = field(default_factory=list)
    chunk: int | None = None
    most_running: int = 1 << 30
    answer: Answer = field(init=False)
    watched: ClassVar[type[Replica]] = Replica

    def run(self) -> Answer:
        """Replay every replica."""
        n = len(self.rows)
        self.answer = Answer(
            [0] * n,
            [0] * n,
            [0] * n,
            [False] * n,
            [(-1, 0)] * n,
            [False] * len(self.resets),
            [-1] * self.replicas,
        )
        for number in range(self.replicas):
            self.watched(self, number).run()
        return self.answer
