"""The block-by-block cache over a tier whose blocks are read but not cached above again: the twin of that kernel."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from twins.vllm_blocks import Answer, Replica, Run, Twin

if TYPE_CHECKING:
    from prefixledger.replay.tiers import TierRules


@dataclass(slots=True)
class Tier:
    """Keys from the least to the most recently used."""

    rules: TierRules
    held: OrderedDict = field(default_factory=OrderedDict)

    def write(self, key: int) -> int | None:
        """Write a key that is not held; return the one that goes for it."""
        self.held[key] = None
        full = self.rules.capacity_blocks is not None and len(self.held) > self.rules.capacity_blocks
        return self.held.popitem(last=False)[0] if full else None

    def whole(self, blocks: int) -> int:
        """Return how many of the first blocks of a prompt lie in whole chunks."""
        return blocks - blocks % self.rules.chunk_blocks


class OverTier(Replica):
    """A replica over a tier; blocks that it reads take slots without a key."""

    def __init__(self, twin: OverTiers, number: int, tier: Tier) -> None:
        super().__init__(twin, number)
        self.tier = tier
        self.coming: set[int] = set()
        self.stored: dict[int, int] = {}
        self.overtaken: set[int] = set()
        self.told: set[int] = set()

    def lose(self, row: int, now: int, key: int | None) -> None:
        """Write down a key that is in neither; of a shared tier that is not asked."""
        if key is not None and not self.tier.rules.shared and key not in {*self.pool.copies, *self.coming}:
            self.t.gone.append((row, now, self.number, key))

    def leave(self, row: int, now: int, key: int) -> None:
        """Follow a key that left the cache above with its last copy."""
        rules, tier = self.tier.rules, self.tier
        if rules.shared:
            self.t.gone.append((row, now, self.number, key))
        if key in tier.held:
            return
        if rules.write == "on-evict" and rules.capacity_blocks != 0:
            self.lose(row, now, tier.write(key))
        elif not rules.shared:
            self.t.gone.append((row, now, self.number, key))

    def use(self, row: int, now: int, keys: list[int], written: int) -> None:
        """Take keys as used, deepest first; the first ``written`` of them are written where they are not held."""
        for index, key in reversed(list(enumerate(keys))):
            if key in self.tier.held:
                self.tier.held.move_to_end(key)
            elif index < written and self.tier.rules.capacity_blocks != 0:
                self.lose(row, now, self.tier.write(key))

    def key_block(self, run: Run, index: int, now: int) -> None:
        """Remember how far down its path the request has keyed blocks."""
        super().key_block(run, index, now)
        if run.alive:
            self.stored[run.row] = max(self.stored[run.row], min(index + 1, len(self.t.rows[run.row].keys)))

    def read(self, keys: list[int], hits: int, limit: int) -> int:
        """Return how far a lookup gets with what the tier has."""
        below = list(takewhile(lambda key: key in self.tier.held, keys[hits:]))
        reach = min(self.tier.whole(hits + len(below)), limit)
        return reach if reach - hits >= max(self.tier.rules.min_blocks, 1) else hits

    def try_admit(self, number: int, now: int) -> bool:
        """Look up above and below, pin, allocate and key what neither had."""
        t, p, row, rules = self.t, self.pool, self.t.rows[number], self.tier.rules
        again = number in self.paused
        tokens, output, decode = self.paused.get(number, (row.tokens, row.output, row.hold - row.prefill))
        keyed = min(len(row.keys), tokens // t.block) if again else row.prompt_keys
        need = -(-tokens // t.block)
        if need > t.capacity:
            t.answer.refused[number] = True
            t.answer.admitted[number] = t.answer.finished[number] = now
            return True
        limit = 0 if row.bypassed else min(keyed, (tokens - 1) // t.block)
        there = list(takewhile(lambda key: key in p.copies, row.keys[:limit]))
        hits = [p.copies[key][0] for key in there]
        short = need - len(hits) + sum(s in p.queue for s in hits) > len(p.queue)
        if short or len(self.running) >= t.most_running:
            return False
        reach = self.read(row.keys[:keyed], len(hits), limit)
        for slot in hits:
            p.queue.pop(slot, None)
            p.pins[slot] += 1
        if not again:
            t.host[number] = reach - len(hits)
            self.coming = set(row.keys[len(hits) : keyed])
            written = {"through": self.tier.whole(keyed), "through-selective": reach, "on-evict": 0}
            self.use(number, now, row.keys[:keyed], written[rules.write])
        run = Run(
            number, now, 0, 0, alive=True, slots=hits + self.take(need - len(hits), number, now), full=0
        )
        self.coming = set()
        for index in range(reach, tokens // t.block):
            key = row.keys[index] if index < keyed else ("unknown", number, index)
            p.give_key(run.slots[index], key, (now, number))
        for key in () if again else row.keys[len(hits) : reach]:  # its replica does not hold them for others
            if key not in p.copies and (rules.shared or key not in self.tier.held):
                t.gone.append((number, now, self.number, key))
        run.full, run.tokens, run.output, run.turn = tokens // t.block, tokens, output, self.turns
        self.turns += 1
        prefill = row.prefill * tokens // row.tokens if again else row.prefill
        run.first = now + prefill - min(prefill, int(len(hits) * t.hit_saves_us + 0.5))
        run.end = t.answer.finished[number] = run.first + decode
        if again:
            del self.paused[number]
            t.answer.recompute[number] = t.answer.recompute.get(number, 0) + tokens - reach * t.block
        else:
            t.answer.hit[number], t.answer.admitted[number] = len(hits), now
        self.stored[number] = keyed
        self.running[number] = run
        heapq.heappush(self.releases, (run.end, number))
        if t.output == "as_decoded":
            self.plan_growth(run)
        return True

    def release(self, now: int, number: int) -> None:
        """What the output filled is used below at its release, but for what a reset overtook."""
        super().release(now, number)
        row, rules = self.t.rows[number], self.tier.rules
        stored, begin = self.stored[number], self.tier.whole(row.prompt_keys)
        if stored > row.prompt_keys and number not in self.overtaken:
            keeps = rules.write == "through" and rules.output
            written = self.tier.whole(stored) - begin if keeps else 0
            self.use(number, now, row.keys[begin:stored], written)

    def reset(self, force: bool) -> bool:
        """A tier of its own is emptied too."""
        done = super().reset(force)
        if done:
            self.overtaken |= {*self.running, *self.paused}
            if not self.tier.rules.shared:
                self.tier.held.clear()
        return done


@dataclass(slots=True)
class OverTiers(Twin):
    """All replicas in time, over tiers of their own or one; ``gone``: (row, at, replica, key)."""

    rules: TierRules | None = None
    host: list[int] = field(default_factory=list)
    gone: list[tuple[int, int, int, int]] = field(default_factory=list)
    all: list[OverTier] = field(default_factory=list)

    def note(self, cause: str, row: int, at: int, replica: int, key: object, gone: bool) -> None:  # noqa: ARG002
        """Follow what left with its last copy."""
        if gone and isinstance(key, int):
            self.all[replica].leave(row, at, key)

    def run(self) -> Answer:
        """Replay all replicas side by side; no two of them act at one moment where they share a tier."""
        n = len(self.rows)
        self.answer = Answer(
            [0] * n, [0] * n, [0] * n, [False] * n, [False] * len(self.resets), [-1] * self.replicas
        )
        self.host = [0] * n
        one = Tier(self.rules)
        self.all = [
            OverTier(self, r, one if self.rules.shared else Tier(self.rules)) for r in range(self.replicas)
        ]
        to_come = [[i for i, row in enumerate(self.rows) if row.replica == r] for r in range(self.replicas)]
        resets = [[i for i, event in enumerate(self.resets) if event[1] == r] for r in range(self.replicas)]
        while True:
            moments = []
            for r, replica in enumerate(self.all):
                moments += [(self.rows[i].arrival, r) for i in to_come[r][:1]]
                moments += [(self.resets[i][0], r) for i in resets[r][:1]]
                moments += [(heap[0][0], r) for heap in (replica.releases, replica.growths) if heap]
            if not moments:
                return self.answer
            now, r = min(moments)
            self.step(self.all[r], now, to_come[r], resets[r])
