"""Measures how well planted faults are named: recall and precision in tokens, for each kind and strength.

    python benchmarks/faults.py                            every kind at three strengths
    python benchmarks/faults.py --kind "clock on top"      some kinds
    python benchmarks/faults.py --strength 1.0 --seed 7    one strength, other traffic

The truth is a paired replay: the same traffic without the fault. What a request hits there and computes with the fault is lost to it.
Recall is the share of lost tokens that carry the planted cause and detail. Precision is the share of tokens so named that are lost
ones, over the traffic with the fault and over traffic with something in its place that only looks like it. In one request a
difference of one block of 16 tokens is rounding. Varies is the share of tokens named with what varies for which that is right; of a
place that was seen with two values only nothing is said. The last lines are controls: tokens blamed in traffic without any fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from planted import PLANTS, STRENGTHS, planted

from prefixledger import api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planted import Plant
    from planted_traffic import Traffic

TARGET = 0.95
BLOCK_TOKENS = 16
BLAMED = ("invalidated", "expired", "evicted", "misrouted", "key_changed", "unexplained")
"""Causes that accuse somebody; in traffic without a fault none has a token."""
_COLUMNS = ("request_id", "hit", "tokens", "cause", "detail", "varies")

Name = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay says of each request.

    Attributes:
        hit: Hit tokens.
        missed: Missed tokens by cause, detail and what varies.
    """

    hit: Mapping[str, int]
    missed: Mapping[str, Counter[Name]]


@dataclass(frozen=True, slots=True)
class Score:
    """How well one fault of one strength is named.

    Attributes:
        lost_tokens: What it really cost.
        named_tokens: What carries its name, beyond what does without it.
        right_tokens: Of these, what it really cost.
        told_tokens: Of what carries its name, those of which something is said to vary.
        varying_tokens: Of these, those of which it is the right thing.
        alike_tokens: What carries its name where there is only something that looks like it.
        top: Cause and detail that grew most.
    """

    lost_tokens: int
    named_tokens: int
    right_tokens: int
    told_tokens: int
    varying_tokens: int
    alike_tokens: int
    top: str

    @property
    def recall(self) -> float:
        """Return the share of what was lost that is named."""
        return self.right_tokens / self.lost_tokens if self.lost_tokens else float("nan")

    @property
    def varies(self) -> float:
        """Return the share of what is said to vary that does."""
        return self.varying_tokens / self.told_tokens if self.told_tokens else float("nan")

    @property
    def precision(self) -> float:
        """Return the share of what is named that was lost."""
        named = self.named_tokens + self.alike_tokens
        return self.right_tokens / named if named else float("nan")


def outcome(made: Traffic) -> Outcome:
    """Replay traffic and return what became of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made.write(place)
        api.replay(
            [place / "log.jsonl"], workspace=place / "ws", map=place / "map.toml", scenario=[place / "scenario.toml"], jobs=1
        )  # fmt: skip
        rows = pq.read_table(
            place / "ws/replays/planted/segments.parquet", columns=list(_COLUMNS)
        ).to_pylist()
    hit: Counter[str] = Counter()
    missed: dict[str, Counter[Name]] = defaultdict(Counter)
    for row in rows:
        if row["hit"]:
            hit[row["request_id"]] += row["tokens"]
        else:
            missed[row["request_id"]][row["cause"], row["detail"], row["varies"]] += row["tokens"]
    return Outcome(hit, missed)


def score(plant: Plant, clean: Outcome, fault: Outcome, alike: Outcome) -> Score:
    """Compare what is named with what was lost."""

    def named(of: Outcome, request: str) -> int:
        return _tokens(of.missed.get(request), lambda name: _is(plant, name))

    lost = {request: _lost(clean, fault, request) for request in clean.missed}
    excess = {request: max(0, named(fault, request) - named(clean, request)) for request in fault.missed}
    for request, tokens in excess.items():
        # Both are rounded to blocks on their own: a difference of one block or less is none.
        if tokens and lost.get(request) and abs(tokens - lost[request]) <= BLOCK_TOKENS:
            lost[request] = tokens
    said: Counter[str] = Counter()
    for request in (request for request, tokens in excess.items() if tokens):
        for name, tokens in fault.missed[request].items():
            if _is(plant, name) and name[2] is not None:
                said[name[2]] += tokens
    return Score(
        lost_tokens=sum(lost.values()),
        named_tokens=sum(excess.values()),
        right_tokens=sum(min(tokens, lost.get(request, 0)) for request, tokens in excess.items()),
        told_tokens=said.total(),
        varying_tokens=sum(said[what] for what in plant.varies),
        alike_tokens=sum(max(0, named(alike, request) - named(clean, request)) for request in alike.missed),
        top=_top(clean, fault),
    )


def _lost(clean: Outcome, fault: Outcome, request: str) -> int:
    """Return the hits that turned into misses: neither text that a fault takes out nor text that it brings is lost."""
    fewer_hits = clean.hit[request] - fault.hit[request]
    more_misses = sum(fault.missed[request].values()) - sum(clean.missed[request].values())
    return max(0, min(fewer_hits, more_misses))


def blamed(clean: Outcome) -> int:
    """Return the tokens that are blamed on somebody."""
    return sum(_tokens(missed, lambda name: name[0] in BLAMED) for missed in clean.missed.values())


def _is(plant: Plant, name: Name) -> bool:
    return name[0] == plant.cause and (not plant.details or name[1] in plant.details)


def _tokens(missed: Counter[Name] | None, wanted: Callable[[Name], bool]) -> int:
    return sum(tokens for name, tokens in (missed or {}).items() if wanted(name))


def _top(clean: Outcome, fault: Outcome) -> str:
    grown: Counter[str] = Counter()
    for sign, of in ((1, fault), (-1, clean)):
        for missed in (of.missed[request] for request in clean.missed if request in of.missed):
            for (cause, detail, _), tokens in missed.items():
                told = detail if cause in ("key_changed", "invalidated") else None
                grown[":".join(filter(None, (cause, told)))] += sign * tokens
    return max(grown, key=lambda name: (grown[name], name))


def measure(plants: list[Plant], strengths: list[float], seed: int) -> bool:
    """Print the table, and return whether every kind reaches the target."""
    print(
        f"{'kind':24} {'share':>5} {'lost':>9} {'named':>9} {'recall':>7} {'precis.':>7} {'varies':>7} {'alike':>7}  grew most"
    )
    clean: dict[object, Outcome] = {}
    ok = True
    for plant in plants:
        key = plant.before
        if key not in clean:
            clean[key] = outcome(planted(plant, seed, 1.0, "clean"))
        for strength in strengths:
            fault, alike = (outcome(planted(plant, seed, strength, what)) for what in ("fault", "alike"))
            one = score(plant, clean[key], fault, alike)
            varies = f"{one.varies:7.3f}" if plant.varies else f"{'-':>7}"
            print(
                f"{plant.kind:24} {strength:5.1f} {one.lost_tokens:9,} {one.named_tokens:9,} {one.recall:7.3f} "
                f"{one.precision:7.3f} {varies} {one.alike_tokens:7,}  {one.top}",
                flush=True,
            )
            ok &= one.recall >= TARGET and one.precision >= TARGET
            ok &= not plant.varies or one.varies >= TARGET
    for key, found in clean.items():
        print(f"control{'' if key is None else f' ({key.__name__})'}: {blamed(found):,} tokens blamed")  # type: ignore[attr-defined]
    return ok


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", action="append", choices=[plant.kind for plant in PLANTS])
    parser.add_argument("--strength", action="append", type=float)
    parser.add_argument("--seed", type=int, default=20_261_116)
    asked = parser.parse_args()
    plants = [plant for plant in PLANTS if asked.kind is None or plant.kind in asked.kind]
    sys.exit(0 if measure(plants, asked.strength or list(STRENGTHS), asked.seed) else 1)


if __name__ == "__main__":
    main()
