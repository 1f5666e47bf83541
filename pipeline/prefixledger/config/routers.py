"""The options of every router, with the defaults that it really ships with.

Sizes that a router counts in characters stand here in tokens, because a log of block keys knows no characters.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from prefixledger.config.toml_file import Part, checked, near_hint, refusal
from prefixledger.config.units import parse_duration_us

NAT = Annotated[int, Field(ge=0)]
POSITIVE = Annotated[int, Field(ge=1)]
SHARE = Annotated[float, Field(ge=0, le=1)]
FACTOR = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _duration(value: str) -> str:
    checked(parse_duration_us, value)
    return value


def _lasting(value: str) -> str:
    if not checked(parse_duration_us, value):
        raise refusal("it must be longer than nothing and not for ever", 'write "60s", "2m" …')
    return value


def _passing(value: str) -> str:
    if checked(parse_duration_us, value) is None:
        raise refusal("it must not be for ever", 'write "0s", "50ms" …')
    return value


Duration = Annotated[str, AfterValidator(_duration)]
Lasting = Annotated[str, AfterValidator(_lasting)]
Passing = Annotated[str, AfterValidator(_passing)]

Events = Literal["never", "if-known", "always"]
"""Whether a router is told what the caches hold: if that is known while requests are routed, or it cannot do without."""


class RouterOptions(Part):
    """Options of a router that has none, and base of all others."""

    @property
    def events(self) -> Events:
        """Whether KV events tell the router what the caches hold."""
        return "never"

    @property
    def lag_us(self) -> int:
        """Microseconds until it is told."""
        return 0


class ToldOptions(RouterOptions):
    """Options of a router that KV events can tell what the caches hold."""

    MODES: ClassVar[dict[str, Events]] = {}

    mode: str = ""
    event_lag: Passing = "0s"

    @field_validator("mode")
    @classmethod
    def _exists(cls, value: str) -> str:
        if value not in cls.MODES:
            raise refusal(
                f"there is no mode {value!r}", near_hint(value, list(cls.MODES), "modes that exist")
            )
        return value

    @property
    def events(self) -> Events:
        """Whether KV events tell the router what the caches hold."""
        return self.MODES[self.mode]

    @property
    def lag_us(self) -> int:
        """Microseconds until it is told."""
        return parse_duration_us(self.event_lag) or 0


class LeastLoaded(RouterOptions):
    """The replica with the least in flight; ties are drawn."""

    load: Literal["requests", "tokens"] = "requests"


class Session(RouterOptions):
    """vLLM production-stack ``session``: a ring of session ids; a request without one goes where fewest went lately.

    The window is the default of its ``--request-stats-window``, the ring that of uhashring: 40 points, each at 4 places.
    """

    vnodes: POSITIVE = 160
    window: Lasting = "60s"


_FORMS: dict[str, dict[str, Any]] = {
    "kubeai": {},
    "sglang": {"vnodes": 150, "overflow": "least-loaded"},
    "sglang-bounded": {"vnodes": 150, "bound": "share", "factor": 1.5},
    "haproxy": {"vnodes": 16, "start": "nearest", "bound": "slots", "factor": 0.0},
    "envoy": {
        "ring_size": 1024,
        "bound": "slots-inclusive",
        "factor": 0.0,
        "overflow": "permutation",
        "exhausted": "least-loaded",
    },
    "paper": {"bound": "ceiling"},
}
"""What each form has in place of the defaults of the class."""


class ConsistentHash(RouterOptions):
    """A ring of hashed names with a bound on the load (facts of HAProxy, Envoy, KubeAI, SGLang and arXiv 1608.01350).

    ``form`` sets the other keys; each can still be given. ``factor = 0`` takes the bound away, as HAProxy and Envoy do
    unless told otherwise.
    """

    form: Literal["kubeai", "sglang", "sglang-bounded", "haproxy", "envoy", "paper"] = "kubeai"
    key: Literal["prefix", "session"] = "prefix"
    vnodes: POSITIVE = 256
    ring_size: NAT = 0
    start: Literal["next", "nearest"] = "next"
    bound: Literal["share", "share-plus-one", "slots", "slots-inclusive", "ceiling"] = "share-plus-one"
    factor: FACTOR = 1.25
    overflow: Literal["clockwise", "permutation", "least-loaded"] = "clockwise"
    exhausted: Literal["owner", "least-loaded"] = "owner"

    @model_validator(mode="before")
    @classmethod
    def _of_form(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {**_FORMS.get(str(data.get("form", "kubeai")), {}), **data}
        return data

    @model_validator(mode="after")
    def _bounded(self) -> ConsistentHash:
        if 0 < self.factor < 1:
            raise refusal(
                "a bound below the even share lets nobody in",
                "give a factor of 1 or more, or 0",
                at=("factor",),
            )
        return self

    @property
    def bounded(self) -> bool:
        """Whether load matters."""
        return self.factor > 0


class CacheAware(RouterOptions):
    """SGLang gateway ``cache_aware`` with the defaults of its command line (not those of its library)."""

    cache_threshold: SHARE = 0.3
    balance_abs_threshold: NAT = 64
    balance_rel_threshold: FACTOR = 1.5
    eviction_interval: Lasting = "60s"
    max_tree_tokens: POSITIVE = 2**26
    no_match: Literal["least-loaded", "smallest-tree"] = "least-loaded"


class KvAware(ToldOptions):
    """NVIDIA Dynamo's KV router, with KV events (``exact``) or without them (``approximate``: it knows what it sent)."""

    MODES: ClassVar[dict[str, Events]] = {"auto": "if-known", "exact": "always", "approximate": "never"}

    mode: str = "auto"
    overlap_score_credit: FACTOR = 1.0
    overlap_credit_decay: FACTOR = 0.0
    prefill_load_scale: FACTOR = 1.0
    decode_active_request_weight: FACTOR = 0.0
    temperature: FACTOR = 0.0
    ttl: Duration = "120s"
    max_tree_blocks: POSITIVE = 2**20
    prune_target: SHARE = 0.8


class LlmDPrefix(ToldOptions):
    """llm-d's prefix scorer beside its queue and KV utilization scorers, in its default profile."""

    MODES: ClassVar[dict[str, Events]] = {"approximate": "never", "precise": "always"}

    mode: str = "approximate"
    prefix_weight: FACTOR = 3.0
    queue_weight: FACTOR = 2.0
    kv_weight: FACTOR = 2.0
    block_tokens: Annotated[int, Field(ge=64)] = 64
    max_prefix_tokens: POSITIVE = 131_072
    lru_blocks: POSITIVE | None = None
    match_length_weight: SHARE = 0.0


class ProductionStackPrefix(RouterOptions):
    """vLLM production-stack ``prefixaware``: a trie that forgets nothing and knows no load."""

    chunk_tokens: POSITIVE = 32
    min_match_tokens: NAT = 0
    window: Lasting = "60s"


class AibrixPrefix(RouterOptions):
    """AIBrix ``prefix-cache``: one LRU of blocks for all pods."""

    block_tokens: POSITIVE = 1
    lru_blocks: POSITIVE = 200_000
    ttl: Duration = "20m"
    imbalance_requests: NAT = 8
    deviation_factor: FACTOR = 1.0


class RayPrefix(RouterOptions):
    """Ray Serve ``PrefixCacheAffinityRouter``; absent thresholds never apply."""

    imbalanced_threshold: NAT | None = None
    match_rate_threshold: SHARE = 0.1
    max_tree_tokens: POSITIVE | None = None
    evict_to: SHARE = 0.9
    eviction_interval: Lasting = "10s"


ROUTER_OPTIONS: dict[str, type[RouterOptions]] = {
    "least-loaded": LeastLoaded,
    "session": Session,
    "consistent-hash": ConsistentHash,
    "cache-aware": CacheAware,
    "kv-aware": KvAware,
    "llm-d-prefix": LlmDPrefix,
    "production-stack-prefix": ProductionStackPrefix,
    "aibrix-prefix": AibrixPrefix,
    "ray-prefix": RayPrefix,
}
"""Options of each routing that has any."""

ROUTER_COMMENTS: dict[tuple[str, str], str] = {
    ("LeastLoaded", "load"): "what is counted in flight: requests | tokens",
    ("Session", "window"): "without a session id: fewest requests in this time",
    ("ConsistentHash", "form"): " | ".join(_FORMS) + "; sets all keys below",
    ("ConsistentHash", "key"): "prefix | session",
    ("ConsistentHash", "vnodes"): "points of a replica on the ring",
    ("ConsistentHash", "ring_size"): "0, or points of all replicas in place of vnodes",
    ("ConsistentHash", "start"): "next | nearest",
    ("ConsistentHash", "bound"): "share | share-plus-one | slots | slots-inclusive | ceiling",
    ("ConsistentHash", "factor"): "times the even share; 0: no bound",
    ("ConsistentHash", "overflow"): "clockwise | permutation | least-loaded",
    ("ConsistentHash", "exhausted"): "where nobody is within the bound: owner | least-loaded",
    ("CacheAware", "cache_threshold"): "share of the prompt that must match",
    ("CacheAware", "max_tree_tokens"): "per replica, counted in tokens of full blocks",
    ("CacheAware", "no_match"): "least-loaded | smallest-tree (old releases)",
    ("KvAware", "mode"): "exact: by KV events | approximate: by what it sent | auto: exact where it can be",
    ("KvAware", "event_lag"): "exact only: until the router hears of what a cache stored or removed",
    ("KvAware", "ttl"): "approximate only, as the two below",
    ("KvAware", "temperature"): "0: least cost, ties drawn",
    ("KvAware", "max_tree_blocks"): "over all replicas",
    ("LlmDPrefix", "mode"): "approximate: by what it sent | precise: by KV events, in blocks of the engine",
    ("LlmDPrefix", "event_lag"): "precise only: until the router hears of what a cache stored or removed",
    ("LlmDPrefix", "block_tokens"): "or the block size where that is larger",
    ("ProductionStackPrefix", "chunk_tokens"): "128 characters at 4 a token",
    ("AibrixPrefix", "block_tokens"): "4 bytes; a log of blocks knows whole blocks only",
    ("AibrixPrefix", "lru_blocks"): "for all replicas, each of block_tokens",
}
ROUTER_ABSENT: dict[tuple[str, str], str] = {
    (
        "LlmDPrefix",
        "lru_blocks",
    ): "31250  # absent: the capacity of the replica, 31250 where that is unlimited",
    ("RayPrefix", "imbalanced_threshold"): "10  # absent: queues are never called uneven",
    ("RayPrefix", "max_tree_tokens"): "100000  # absent: nothing is forgotten",
}
"""What ``dump`` says of an option, and what it shows for one that is absent."""


def router_options(routing: str, given: Any) -> RouterOptions:
    """Return the options of a router, defaults filled in.

    Args:
        routing: Its name.
        given: The table as read, options made before, or None.

    Raises:
        PydanticCustomError: A key that this router does not have.
        ValidationError: A value that it does not take.
    """
    kind = ROUTER_OPTIONS.get(routing, RouterOptions)
    if isinstance(given, RouterOptions):
        return given if type(given) is kind else kind()
    table = {} if given is None else given
    if isinstance(table, dict):
        for key in table:
            if key not in kind.model_fields:
                known = list(kind.model_fields)
                raise refusal(
                    f"routing {routing!r} has no option {key!r}",
                    near_hint(str(key), known, "its options") if known else "it has no options",
                    at=(key,),
                )
    return kind.model_validate(table)
