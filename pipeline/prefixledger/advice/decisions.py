"""What to do about each shared prefix of a hosted cache, with the numbers that decide."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.advice.ground import currency_of
from prefixledger.advice.hosted import KEEP_ALIVE, NONE, PRE_WARM, SPLIT, card_of
from prefixledger.advice.parts import Decision
from prefixledger.config.registry import PROFILES
from prefixledger.config.units import parse_duration_us

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.advice.ground import Ground
    from prefixledger.advice.hosted import Study
    from prefixledger.advice.units import Unit


def decide(ground: Ground, study: Study) -> tuple[Decision, ...]:
    """Return a decision for the head of each user of a pool, the largest loss first."""
    if len(study.outcomes) < 2:  # noqa: PLR2004
        return ()
    rows = [
        _decision(ground, study, number, unit)
        for number, unit in enumerate(study.units.units)
        if unit.head_blocks > 0 and unit.lookups.size > 1
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.loss or 0), row.name)))


def _decision(ground: Ground, study: Study, number: int, unit: Unit) -> Decision:
    kinds, chosen = list(study.outcomes), study.chosen[number]
    paid = study.whole[:, number]
    now, then = paid[kinds.index(study.today)], paid[kinds.index(chosen)]
    profile = PROFILES[study.pool.cache.profile]
    ttl = study.pool.cache.ttl if chosen in (PRE_WARM, KEEP_ALIVE, NONE, study.today) else chosen
    ttl = profile.ttls[1] if ttl == SPLIT else ttl if ttl not in ("as sent", "merge") else profile.ttls[0]
    ttl_us = parse_duration_us(ttl)
    card = card_of(ground, int(unit.lookups[0]))
    w, r = (float(price / card.base) if card.base else 1.0 for price in (card.write_for(ttl_us), card.read))
    break_even = (w - 1) / (w - r) if w > 1 else None
    outcome = study.outcomes[chosen]
    written = int(outcome.written_tokens[unit.lookups].sum())
    read = int(outcome.hit_tokens[unit.lookups].sum())
    forest = ground.log.forest
    key = bytes(forest.key[unit.head_block].astype("<u8").tobytes()).hex() if len(forest.key) else ""
    share = _within(unit.gaps_us, ttl_us)
    return Decision(
        key=key,
        name=unit.value,
        pool=study.pool.name or "",
        tokens=unit.head_tokens,
        requests=unit.lookups.size,
        today=study.today,
        decision=chosen,
        because=_because(unit, profile.ttls, ttl, break_even),
        hit_share=share,
        break_even=break_even,
        reads_per_write=read / written if written else None,
        saved=_money(now - then),
        loss=_money(max(now - paid.min(), 0.0)),
        currency=currency_of(ground.base.trial, int(unit.lookups[0])),
    )


def _within(gaps_us: NDArray[np.int64], ttl_us: int | None) -> float:
    return float((gaps_us <= ttl_us).mean()) if ttl_us is not None and gaps_us.size else 1.0


def _because(unit: Unit, sold: tuple[str, ...], ttl: str, break_even: float | None) -> str:
    """Say with the gaps of the log why."""
    named = [(one, parse_duration_us(one)) for one in dict.fromkeys((*sold[:2], ttl)) if one != "none"]
    shares = ", ".join(f"{100 * _within(unit.gaps_us, us):.0f} % within {one}" for one, us in named)
    even = "" if break_even is None else f"; {ttl} pays from {100 * break_even:.1f} %"
    median_s = float(np.median(unit.gaps_us)) / 1e6
    return f"its uses follow each other after {median_s:,.0f} s in the median: {shares}{even}"


def _money(amount: float) -> Decimal:
    return Decimal(f"{amount:.9g}")
