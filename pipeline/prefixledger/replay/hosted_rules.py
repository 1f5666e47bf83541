"""The rules under which each lookup of a hosted pool is cached, from the file of provider rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger.config.provider_rules import knows_provider, near_models, rules_of
from prefixledger.config.registry import PROFILES
from prefixledger.config.units import parse_duration_us
from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prefixledger.config.provider_rules import ProviderRules, Said
    from prefixledger.config.scenario import Pool
    from prefixledger.replay.lookups import Log

_DAY_US = 86_400_000_000
NO_LIMIT = -1
ENTRIES = ("marks", "messages", "blocks", "units", "created")
MARKS, MESSAGES, BLOCKS, UNITS, CREATED = range(len(ENTRIES))
VISIBLE = ("first_token", "response_end", "seconds_later")
FIRST_TOKEN, RESPONSE_END, SECONDS_LATER = range(len(VISIBLE))


@dataclass(frozen=True, slots=True)
class LookupRules:
    """What holds for each lookup of a pool.

    Attributes:
        minimum_tokens: int64[k], shortest prefix that is stored.
        most_tokens: int64[k], longest prefix that is stored; -1: no limit.
        look_back: int64[k], positions searched back from a mark, the mark counted; -1: no limit.
        entries: int8[k], where prefixes are stored, a position in ``ENTRIES``.
        interval_tokens: int64[k], distance of stored prefixes that nobody marks; 1: every block.
        first_tokens: int64[k], length of the shortest of them, below that distance; 0: they are its multiples.
        ttl_us: int64[k], lifetime of what no mark gives one; -1: none.
        sold_us: int64[k], longest lifetime that can be had, ``NO_LIMIT`` where any may be chosen or none is named.
        refresh: bool[k], whether a use starts the lifetime anew.
        takes_ttl: bool[k], whether that lifetime is the one that the reader asks for.
        visible: int8[k], when others can read what it writes, a position in ``VISIBLE``.
        overflow_rpm: int64[k], requests a minute with one head that a cache takes; 0: any number.
        of: int64[k], position in ``minimums``.
        minimums: Every minimum in words: whose it is, how long, and where that was read.
        scope: Who shares entries, in words.
        scope_by: Columns of requests that tell scopes apart.
        minimal: Whether an entry may live longer than its TTL.
        best_effort: Whether no lifetime is promised at all.
    """

    minimum_tokens: NDArray[np.int64]
    most_tokens: NDArray[np.int64]
    look_back: NDArray[np.int64]
    entries: NDArray[np.int8]
    interval_tokens: NDArray[np.int64]
    first_tokens: NDArray[np.int64]
    ttl_us: NDArray[np.int64]
    sold_us: NDArray[np.int64]
    refresh: NDArray[np.bool_]
    takes_ttl: NDArray[np.bool_]
    visible: NDArray[np.int8]
    overflow_rpm: NDArray[np.int64]
    of: NDArray[np.int64]
    minimums: tuple[str, ...]
    scope: str
    scope_by: tuple[str, ...]
    minimal: bool
    best_effort: bool


def lookup_rules(pool: Pool, log: Log, mine: NDArray[np.int64]) -> LookupRules:
    """Look up the rules of every model, provider and day of a hosted pool.

    Args:
        pool: The pool.
        log: All lookups.
        mine: int64[k], those of the pool, at least one.

    Raises:
        UsageError: A model has other rules than those of the profile, no known minimum, or not this lifetime; or the scenario
            was given what the provider does not sell.
    """
    pool.cache.check_hosted()
    rows = log.lookups.request_row[mine]
    day = log.lookups.started_us[mine] // _DAY_US
    table = log.rows.table.select(["provider", "model"]).take(pa.array(rows))
    code = day - day.min()
    for name in ("provider", "model"):
        column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        values = np.asarray(column.indices.to_numpy(zero_copy_only=False), np.int64)
        _, code = np.unique(code * (len(column.dictionary) + 1) + values, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    whose = [table.slice(int(at), 1).to_pylist()[0] for at in first]
    said = [_rules_of(pool, log, int(mine[at]), row) for at, row in zip(first, whose, strict=True)]

    def each(of: Callable[[ProviderRules], int]) -> NDArray[np.int64]:
        values = np.asarray([of(rules) for rules in said], np.int64)
        return np.asarray(values[code], np.int64)

    worded = [_worded(pool, row["model"], rules) for row, rules in zip(whose, said, strict=True)]
    minimums = tuple(sorted(set(worded)))
    bases = {_or(rules.ttl_basis, "") for rules in said}
    return LookupRules(
        minimum_tokens=each(lambda rules: _minimum(pool, rules)),
        most_tokens=each(lambda rules: _or(rules.most_tokens, NO_LIMIT)),
        look_back=each(lambda rules: _or(rules.look_back, NO_LIMIT)),
        entries=each(lambda rules: ENTRIES.index(_or(rules.entries, "marks"))).astype(np.int8),
        interval_tokens=each(lambda rules: _or(rules.interval_tokens, 1)),
        first_tokens=np.zeros(code.size, np.int64),
        ttl_us=each(lambda rules: _lifetime(pool, rules)),
        sold_us=each(lambda rules: _longest_sold(pool, rules)),
        refresh=each(lambda rules: _or(rules.refresh, 1)).astype(np.bool_),
        takes_ttl=each(lambda rules: _or(rules.takes_ttl, 0)).astype(np.bool_),
        visible=each(lambda rules: VISIBLE.index(_or(rules.visible, "first_token"))).astype(np.int8),
        overflow_rpm=each(lambda rules: _overflow(pool, rules)),
        of=np.asarray([minimums.index(words) for words in worded], np.int64)[code],
        minimums=minimums,
        scope=" or ".join({rules.scope.value: None for rules in said if rules.scope}),
        scope_by=tuple({name: None for rules in said for name in _or(rules.scope_by, ())}),
        minimal="minimum" in bases,
        best_effort=bool({"best_effort", "typical"} & bases),
    )


def _or(said: Said | None, otherwise: object) -> Any:
    return otherwise if said is None else said.value


def _lifetime(pool: Pool, rules: ProviderRules) -> int:
    """Return the lifetime of entries without one of their own: the first that the model has, unless the scenario chose."""
    sold = rules.ttls.value if rules.ttls else ()
    given = parse_duration_us(sold[0]) if sold and pool.cache.as_sent else pool.cache.ttl_us
    return NO_LIMIT if given is None else given


def _longest_sold(pool: Pool, rules: ProviderRules) -> int:
    sold = [parse_duration_us(ttl) for ttl in rules.ttls.value] if rules.ttls else []
    if PROFILES[pool.cache.profile].any_ttl or not sold:
        return NO_LIMIT
    return max(NO_LIMIT if ttl_us is None else ttl_us for ttl_us in sold)


def _overflow(pool: Pool, rules: ProviderRules) -> int:
    given = pool.cache.overflow_rpm
    return int(_or(rules.overflow_rpm, 0)) if given is None else given


def _rules_of(pool: Pool, log: Log, lookup: int, row: dict[str, str | None]) -> ProviderRules:
    profile = PROFILES[pool.cache.profile]
    logged, model = row["provider"], row["model"]
    provider = logged if logged is not None and knows_provider(logged) else profile.home
    at_us = int(log.lookups.started_us[lookup])
    told = pool.cache.minimum_tokens is not None
    followed = (pool.cache.profile, *profile.follows)

    def follows(rules: ProviderRules) -> bool:
        return rules.profile is not None and rules.profile.value in followed

    rules = rules_of(provider, model or profile.family, at_us, mode=profile.mode)
    if told and not follows(rules):
        rules = rules_of(profile.home, profile.family, at_us, mode=profile.mode)
    whose = f"request {_name(log, lookup)} was served by {logged!r} as model {model!r}"
    if not told and (model is None or not follows(rules)):
        raise UsageError(
            f"{whose}: profile {pool.cache.profile!r} follows no rules of that model",
            place=_place(log, lookup),
            hint=_other_rules(model, rules),
        )
    if not told and rules.minimum_tokens is None:
        raise UsageError(
            f"{whose}: its shortest stored prefix is not known",
            place=_place(log, lookup),
            hint=f"give minimum_tokens in [pool.cache]; {near_models(str(model))}",
        )
    sold = [parse_duration_us(ttl) for ttl in rules.ttls.value] if rules.ttls else []
    if sold and not profile.any_ttl and not pool.cache.as_sent and pool.cache.ttl_us not in sold:
        assert rules.ttls is not None
        raise UsageError(
            f"{whose}: there is no ttl {pool.cache.ttl!r}",
            place=_place(log, lookup),
            hint=f"lifetimes there: {', '.join(rules.ttls.value)}",
        )
    return rules


def _other_rules(model: str | None, rules: ProviderRules) -> str:
    """Say how to go on with a model that a profile does not know."""
    if rules.profile is not None:
        known = f"its rules are those of profile {rules.profile.value!r}: give it a [[pool]] of its own with that profile"
    elif model is not None:
        known = near_models(model)
    else:
        known = "a model decides which rules hold"
    return (
        f"{known}; prefixledger rates MODEL shows what is known, minimum_tokens in [pool.cache] replays it all the same, and "
        "a [[pool]] with another profile takes it out"
    )


def _minimum(pool: Pool, rules: ProviderRules) -> int:
    if pool.cache.minimum_tokens is not None:
        return pool.cache.minimum_tokens
    assert rules.minimum_tokens is not None
    return int(rules.minimum_tokens.value)


def _worded(pool: Pool, model: str | None, rules: ProviderRules) -> str:
    tokens = _minimum(pool, rules)
    if pool.cache.minimum_tokens is not None or rules.minimum_tokens is None:
        return f"{tokens} tokens, as the scenario says"
    sources = "; ".join(map(str, rules.minimum_tokens.sources))
    return f"{tokens} tokens with {model} ({sources})"


def _name(log: Log, lookup: int) -> str:
    return repr(log.rows.table["request_id"][int(log.lookups.request_row[lookup])].as_py())


def _place(log: Log, lookup: int) -> Place:
    row = int(log.lookups.request_row[lookup])
    return Place(log.rows.table["source_file"][row].as_py(), log.rows.table["source_line"][row].as_py())
