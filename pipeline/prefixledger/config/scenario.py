"""Reads and writes scenario files; unknown keys, profiles and routings are refused with what does exist."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from pydantic import BaseModel

from prefixledger.config.events import Event
from prefixledger.config.in_flight import SGLANG_CHUNK_TOKENS, InFlight
from prefixledger.config.match import Match
from prefixledger.config.models import (
    DEFAULT_NAME,
    Cache,
    Fleet,
    ModelShape,
    Pool,
    Scenario,
)
from prefixledger.config.pricing import ENGINE_RATES, Pricing, Rates
from prefixledger.config.registry import EVENT_KINDS, OUTPUTS, PROFILES, RESIDENCES, ROUTINGS
from prefixledger.config.routers import ROUTER_ABSENT, ROUTER_COMMENTS
from prefixledger.config.tiers import TIER_ABSENT, TIER_COMMENTS, Tier
from prefixledger.config.toml_file import parse_toml, read_toml, validated
from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.config.toml_file import TomlFile

__all__ = [
    "DEFAULT_NAME",
    "ENGINE_RATES",
    "Cache",
    "Event",
    "Fleet",
    "InFlight",
    "Match",
    "ModelShape",
    "Pool",
    "Pricing",
    "Rates",
    "Scenario",
    "Tier",
    "default_scenario",
    "dump",
    "load_scenario",
    "parse_scenario",
]

_POOL_TABLES = ("cache", "fleet", "in_flight", "model", "tier")

_COMMENTS: dict[tuple[str, str], str] = {
    ("Scenario", "seed"): "decides everything random",
    (
        "Scenario",
        "seeds",
    ): "where a router draws, its hits are replayed under so many seeds from that one on; 1: no spread",
    ("Cache", "profile"): " | ".join(PROFILES),
    ("Cache", "version"): "of vLLM: up to 0.22 freed partial blocks wait behind all others",
    (
        "Cache",
        "page_size",
    ): "of SGLang: tokens, a multiple of the log's blocks; a block of a capacity is then a page",
    ("Cache", "capacity"): '"60000 blocks", "1000000 tokens" or "60GiB" per replica, "unlimited", "from-log"',
    ("Cache", "ttl"): '"5m", "1h", "none"',
    (
        "Cache",
        "mark_ttls",
    ): 'of a hosted cache: "as-sent", each mark has its own and ttl is that of the others; "all" have ttl; "long-heads", '
    'those before the last of a prompt have the longer lifetime on sale; "off", nothing is marked',
    (
        "Cache",
        "overflow_rpm",
    ): "of a hosted cache: requests a minute with one head that a cache takes; 0 is any number",
    (
        "Cache",
        "marks",
    ): "of a hosted cache: tokens behind which every prompt is marked, besides its end, where the log has no marks",
    (
        "Cache",
        "keep_alive",
    ): "of a hosted cache: after so long without a request of its conversation a client is said to touch "
    "a prefix; the report says whether the log shows it",
    ("Cache", "keep_alive_calls"): "as many times in a row at most",
    ("Cache", "minimum_tokens"): "of a hosted cache, where the model's own is not the one in force",
    ("Fleet", "routing"): " | ".join(ROUTINGS),
    ("Fleet", "replicas"): "absent: as many as the log names",
    ("Fleet", "replica_grace"): "how long a replica lives after its last logged request",
    ("Fleet", "prefix_tokens"): "tokens that prefix-hash and consistent-hash look at",
    ("InFlight", "residence"): " | ".join(RESIDENCES),
    ("InFlight", "output"): " | ".join(OUTPUTS),
    (
        "InFlight",
        "max_running",
    ): "requests that may run on a replica at a time: max_num_seqs of vLLM, max_running_requests of SGLang; absent: as many as fit",
    (
        "InFlight",
        "chunked_prefill_tokens",
    ): "of SGLang: tokens that are computed, then shown, in one go; 0: whole prompts",
    ("Event", "kind"): " | ".join(EVENT_KINDS),
    **ROUTER_COMMENTS,
    **TIER_COMMENTS,
    ("Rates", "write"): "times base",
    ("Pricing", "discount"): "share that a contract takes off every price",
    ("Pricing", "region_factor"): "times every price: regional endpoints, data that stay in a region",
    ("Pricing", "batch_factor"): "times the price of requests in batches; absent: what the price list says",
    ("Pricing", "exchange_rate"): "units of currency for one unit that the rates are in",
    ("Pricing", "shared_writes"): "first | per-read: who pays for a prefix that several use",
    ("Rates", "read"): "times base",
}
_ABSENT: dict[tuple[str, str], str] = {
    (
        "Pool",
        "match",
    ): '{ provider = "vllm", replica = "h100-*" }  # absent: every row that no earlier pool took',
    ("Pool", "model"): '{ layers = 32, kv_heads = 8, head_dim = 128, dtype = "bfloat16", tp = 1 }',
    **TIER_ABSENT,
    ("Cache", "version"): '"0.22.1"',
    ("Cache", "page_size"): "64",
    ("Cache", "minimum_tokens"): "1024",
    ("Cache", "marks"): "[10000]",
    ("Cache", "mark_ttls"): '"all"',
    ("Cache", "overflow_rpm"): "15",
    ("Cache", "keep_alive"): '"5m"',
    ("Cache", "keep_alive_calls"): "12",
    ("Fleet", "replicas"): "8",
    **ROUTER_ABSENT,
    ("InFlight", "prefill_ms_per_token"): "0.05",
    ("InFlight", "decode_ms_per_token"): "20",
    ("InFlight", "max_running"): "256",
    ("InFlight", "chunked_prefill_tokens"): str(SGLANG_CHUNK_TOKENS),
    ("Pricing", "gpu_hour"): "2.5",
    ("Pricing", "prefill_tokens_per_s"): "20000",
    ("Pricing", "discount"): "0.15",
    ("Pricing", "region_factor"): "1.1",
    ("Pricing", "batch_factor"): "0.5",
    ("Pricing", "currency"): '"EUR"',
    ("Pricing", "exchange_rate"): "0.92",
    ("Pricing", "shared_writes"): '"first"',
}
"""What a key without a default is shown as, behind a comment sign."""


def default_scenario() -> Scenario:
    """Return what is replayed when no scenario is given: hosted rows under their provider, all others under vLLM."""
    hosted = tuple(
        Pool(
            name=name if number == 1 else f"{name}-{number}",
            match=Match(provider=providers, model=models, ruled=True if profile.hosted else None),
            cache=Cache(profile=name),
        )
        for name, profile in PROFILES.items()
        for number, (providers, models) in enumerate(profile.serves, start=1)
    )
    return Scenario(pool=(*hosted, Pool(name="engine")))


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file; its name is the stem of the file unless it says another.

    Raises:
        UsageError: The file cannot be read or something in it is wrong; the place is file, line and column.
    """
    return _scenario(read_toml(path), path.stem)


def parse_scenario(text: str, path: str = "scenario.toml") -> Scenario:
    """Read a scenario from text; ``path`` names it in messages."""
    return _scenario(parse_toml(text, path), DEFAULT_NAME)


def _scenario(file: TomlFile, default_name: str) -> Scenario:
    data = {"name": default_name, **file.data}
    short = [key for key in _POOL_TABLES if key in data]
    if not short:
        found = validated(Scenario, file, data)
        # Prices alone change nothing about who caches what: a discount is no reason to take Claude's rows for vLLM's.
        alone = "pricing" in data and not data.keys() & {"pool", "event"}
        return found.model_copy(update={"pool": default_scenario().pool}) if alone else found
    if "pool" in data:
        raise UsageError(
            f"[{short[0]}] at top level is shorthand for one pool and does not go with [[pool]]",
            place=file.place((short[0],)),
            hint=f"move it into its pool as [pool.{short[0]}]",
        )
    data["pool"] = [{key: data.pop(key) for key in short}]
    return validated(Scenario, file, data, prefix=("pool", 0))


def dump(scenario: Scenario) -> str:
    """Return the scenario as TOML, with every default written out; ``parse_scenario`` reads it back.

    Keys without a default stand behind a comment sign. Prices stand with each pool, as they apply to it.
    """
    lines = [*_keys(scenario)]
    for pool in scenario.pool:
        priced = pool.model_copy(update={"pricing": scenario.pricing_of(pool)})
        lines += ["", "[[pool]]", *_keys(priced)]
        for name, part in priced:
            if isinstance(part, BaseModel) and name != "match":
                lines += [f"[pool.{name}]", *_keys(part)]
            if isinstance(part, Fleet) and (options := [*_keys(part.options)]):
                lines += ["[pool.fleet.router]", *options]
    for event in scenario.event:
        lines += ["", "[[event]]", *(line for line in _keys(event) if line != "force = false")]
    return "\n".join(lines) + "\n"


def _keys(part: BaseModel) -> Iterator[str]:
    kind = type(part).__name__
    for name, value in part:
        comment = _COMMENTS.get((kind, name))
        tail = f"  # {comment}" if comment else ""
        if value is None and (kind, name) in _ABSENT:
            yield f"# {name} = {_ABSENT[kind, name]}{tail}"
        elif isinstance(value, (Match, Rates)) or (value is not None and not _is_table(value)):
            yield f"{name} = {_value(value)}{tail}"


def _is_table(value: object) -> bool:
    return (
        isinstance(value, BaseModel)
        or (isinstance(value, tuple) and any(isinstance(v, BaseModel) for v in value))
        or value == ()
    )


def _value(value: object) -> str:
    if isinstance(value, BaseModel):
        return "{ " + ", ".join(f"{name} = {_value(v)}" for name, v in value if v is not None) + " }"
    if isinstance(value, tuple):
        return _value(value[0]) if len(value) == 1 else f"[{', '.join(_value(v) for v in value)}]"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return f"{value:f}"
    # A JSON string is a TOML string but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
