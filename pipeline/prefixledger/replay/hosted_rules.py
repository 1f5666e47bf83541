"""The rules under which each lookup of a hosted pool is cached, from the file of provider rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.config.provider_rules import knows_provider, rules_of
from prefixledger.config.registry import PROFILES
from prefixledger.config.units import parse_duration_us
from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.provider_rules import ProviderRules
    from prefixledger.config.scenario import Pool
    from prefixledger.replay.lookups import Log

_DAY_US = 86_400_000_000
NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class LookupRules:
    """What holds for each lookup of a pool.

    Attributes:
        minimum_tokens: int64[k], shortest prefix that is stored.
        look_back: int64[k], positions searched back from a mark, the mark counted; -1: no limit.
        of: int64[k], position in ``minimums``.
        minimums: Every minimum in words: whose it is, how long, and where that was read.
        scope: Who shares entries, in words.
        minimal: Whether an entry may live longer than its TTL.
    """

    minimum_tokens: NDArray[np.int64]
    look_back: NDArray[np.int64]
    of: NDArray[np.int64]
    minimums: tuple[str, ...]
    scope: str
    minimal: bool


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
    minimum = np.asarray([_minimum(pool, rules) for rules in said], np.int64)
    reach = np.asarray([rules.look_back.value if rules.look_back else NO_LIMIT for rules in said], np.int64)
    worded = [_worded(pool, row["model"], rules) for row, rules in zip(whose, said, strict=True)]
    minimums = tuple(sorted(set(worded)))
    scopes = {rules.scope.value: None for rules in said if rules.scope}
    return LookupRules(
        minimum_tokens=minimum[code],
        look_back=reach[code],
        of=np.asarray([minimums.index(words) for words in worded], np.int64)[code],
        minimums=minimums,
        scope=" or ".join(scopes),
        minimal=any(rules.ttl_basis is not None and rules.ttl_basis.value == "minimum" for rules in said),
    )


def _rules_of(pool: Pool, log: Log, lookup: int, row: dict[str, str | None]) -> ProviderRules:
    profile = pool.cache.profile
    logged, model = row["provider"], row["model"]
    provider = logged if logged is not None and knows_provider(logged) else profile
    at_us = int(log.lookups.started_us[lookup])
    told = pool.cache.minimum_tokens is not None
    rules = rules_of(provider, model or PROFILES[profile].family, at_us)
    if rules.profile is None and told:
        rules = rules_of(provider, PROFILES[profile].family, at_us)
    whose = f"request {_name(log, lookup)} was served by {logged!r} as model {model!r}"
    if not told and (model is None or rules.profile is None or rules.profile.value != profile):
        raise UsageError(
            f"{whose}: profile {profile!r} follows no rules of that model",
            place=_place(log, lookup),
            hint="prefixledger rates MODEL shows what is known; minimum_tokens in [pool.cache] replays it all the same, "
            "and a [[pool]] with another profile takes it out",
        )
    if not told and rules.minimum_tokens is None:
        raise UsageError(
            f"{whose}: its shortest stored prefix is not known",
            place=_place(log, lookup),
            hint="give minimum_tokens in [pool.cache]",
        )
    sold = [parse_duration_us(ttl) for ttl in rules.ttls.value] if rules.ttls else []
    if sold and pool.cache.ttl_us not in sold:
        assert rules.ttls is not None
        raise UsageError(
            f"{whose}: there is no ttl {pool.cache.ttl!r}",
            place=_place(log, lookup),
            hint=f"lifetimes there: {', '.join(rules.ttls.value)}",
        )
    return rules


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
