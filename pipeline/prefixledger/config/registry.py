"""The profiles, routings and event kinds that exist; whatever is not listed here is refused, never replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack


@dataclass(frozen=True, slots=True)
class Profile:
    """One cache whose rules can be replayed.

    Attributes:
        meaning: One sentence.
        hosted: Whether a provider runs it and sends invoices; its default rates are then those of the model.
        overlaps: Whether running requests and output can be replayed; else one prompt is replayed at a time.
        stack: Whether more capacity keeps all that less would have kept: then the capacity that was needed is known.
        ttls: Of a hosted cache the lifetimes that can be had, the default first.
        replayed: Whether there is a replay; else what the log says was read from cache is all that is known.
        any_ttl: Whether another lifetime may be tried: the provider names none, or lets it be chosen.
        serves: Of a hosted cache whose rows it replays where no scenario says so: providers, and models or all.
        home: Of a hosted cache the provider whose rules hold where the log names none.
        family: Of a hosted cache a name that all its models bear, for rules that do not depend on the model.
        follows: Profiles of other rules that it can replay as well.
        mode: Which rules are meant where a provider caches both what is asked for and what is not.
    """

    meaning: str
    hosted: bool = False
    overlaps: bool = True
    stack: bool = True
    ttls: tuple[str, ...] = ()
    replayed: bool = True
    any_ttl: bool = False
    serves: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...] = ()
    home: str = ""
    family: str = ""
    follows: tuple[str, ...] = ()
    mode: Literal["implicit", "explicit"] = "implicit"


def _hosted(
    meaning: str, ttls: tuple[str, ...], home: str, family: str, **others: Unpack[_Others]
) -> Profile:
    return Profile(
        meaning, hosted=True, overlaps=False, stack=False, ttls=ttls, home=home, family=family, **others
    )


class _Others(TypedDict, total=False):
    any_ttl: bool
    serves: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...]
    follows: tuple[str, ...]
    mode: Literal["implicit", "explicit"]


HOSTED_PROVIDERS = frozenset(
    {
        "anthropic", "aws", "azure", "bedrock", "cerebras", "cohere", "dashscope", "deepinfra", "deepseek", "fireworks", "fireworks_ai",
        "gemini", "google", "groq", "mistral", "moonshot", "openai", "openrouter", "perplexity",
        "sambanova", "together", "together_ai", "vertex", "xai",
    }
)  # fmt: skip
"""Providers whose caches follow their own published rules, not those of an engine."""

OWN_MODELS = frozenset(
    {
        "anthropic",
        "deepseek",
        "gemini",
        "google",
        "kimi",
        "mistral",
        "moonshot",
        "moonshotai",
        "openai",
        "x-ai",
        "xai",
    }
)
"""Providers that serve nothing but models of their own: one that nobody knows there is a mistake, not somebody else's."""

_CLOUDS = ("aws", "bedrock", "google", "vertex")
_NEW_GPT = ("*gpt-5.6*", "*gpt-6*")
_GPT = ("*gpt-4o*", "*gpt-4.1*", "*gpt-5*", "*gpt-6*", "o1*", "o3*", "o4*")
_GOOGLE = ("google", "gemini", "vertex")
_MOONSHOT = ("moonshotai", "moonshot", "kimi")
_KEPT = "a best-effort cache, replayed as if it lost nothing"

PROFILES = {
    "vllm": Profile("vLLM's block cache: least recently released block first, tail before head"),
    "sglang": Profile(
        "SGLang's classic radix tree: whole leaves, least recently accessed first",
        stack=False,
    ),
    "textbook": Profile(
        "the naive LRU over blocks that many people write first", overlaps=False, stack=False
    ),
    "anthropic": _hosted(
        "Claude's prompt cache: entries at marks, alive from the start of each use, readable from the first token on",
        ("5m", "1h"),
        "anthropic",
        "claude",
        serves=((("anthropic",), None), (_CLOUDS, ("*claude*",)), (("openrouter",), ("anthropic/*",))),
    ),
    "openai": _hosted(
        "OpenAI's prompt cache: from GPT-5.6 on entries at ends of messages and marks, before at intervals of a prompt",
        ("30m", "12h", "10m", "1h", "24h"),
        "openai",
        "gpt-6",
        serves=(
            (("openai", "azure"), _GPT),
            (("aws", "bedrock"), _NEW_GPT),
            (("openrouter",), ("openai/*",)),
        ),
    ),
    "bedrock": _hosted(
        "Amazon's own models on Bedrock: entries at marks, 20,000 tokens at most; Claude and GPT there by their own rules",
        ("5m", "1h", "30m"),
        "bedrock",
        "nova",
        serves=((("aws", "bedrock"), ("*nova*",)),),
        follows=("anthropic", "openai"),
    ),
    "gemini-implicit": _hosted(
        f"what Gemini caches unasked: {_KEPT}",
        ("24h",),
        "gemini",
        "gemini-3",
        any_ttl=True,
        serves=((_GOOGLE, ("*gemini-2.5*", "*gemini-3*", "*gemini-4*")), (("openrouter",), ("google/*",))),
    ),
    "gemini-explicit": _hosted(
        "cached contents of Gemini: heads that are created, pay rent, and end a fixed time after that whoever reads them",
        ("1h",),
        "gemini",
        "gemini-3",
        any_ttl=True,
        mode="explicit",
    ),
    "deepseek": _hosted(
        f"DeepSeek's disk cache: whole stored prefixes, {_KEPT}",
        ("none",),
        "deepseek",
        "deepseek",
        any_ttl=True,
        serves=((("deepseek",), ("*deepseek*",)), (("openrouter",), ("deepseek/*",))),
    ),
    "xai": _hosted(
        f"Grok's cache: {_KEPT}",
        ("none",),
        "x-ai",
        "grok-4",
        any_ttl=True,
        serves=((("xai", "x-ai"), ("*grok-*",)), (("openrouter",), ("x-ai/*",))),
    ),
    "mistral": _hosted(
        f"Mistral's cache by key: {_KEPT}",
        ("none",),
        "mistral",
        "mistral",
        any_ttl=True,
        serves=((("mistral",), None), (("openrouter",), ("mistral/*",))),
    ),
    # These two serve where they are asked to: the price list has no rates for them.
    "qwen-implicit": _hosted(
        f"what Model Studio caches unasked: {_KEPT}",
        ("none",),
        "dashscope",
        "qwen",
        any_ttl=True,
    ),
    "qwen-explicit": _hosted(
        "marked prompts of Model Studio: entries at marks, readable once the answer has ended",
        ("5m", "1h"),
        "dashscope",
        "qwen",
        mode="explicit",
    ),
    "kimi": _hosted(
        "Kimi's cache: whole blocks, alive since their last use",
        ("5m", "1h"),
        "moonshotai",
        "kimi-k3",
        serves=((_MOONSHOT, None), (("openrouter",), ("moonshotai/*",))),
    ),
    "groq": _hosted(
        "Groq's cache: alive for about two hours since its last use",
        ("2h",),
        "groq",
        "groq",
        any_ttl=True,
        serves=((("groq",), None),),
    ),
    "fireworks": _hosted(
        f"the cache of one replica of Fireworks: {_KEPT}",
        ("none",),
        "fireworks",
        "fireworks",
        any_ttl=True,
        serves=((("fireworks", "fireworks_ai"), None),),
    ),
    "together": _hosted(
        f"Together's cache: {_KEPT}",
        ("none",),
        "together",
        "together",
        any_ttl=True,
        serves=((("together", "together_ai"), None),),
    ),
    # The last of those that serve: it takes what no other one speaks for.
    "observed": Profile(
        "no replay: hits are those that the log reports, and what it did not hit has no proven cause",
        overlaps=False,
        stack=False,
        replayed=False,
        serves=((tuple(sorted(HOSTED_PROVIDERS)), None),),
    ),
}

ROUTINGS = {
    "as-logged": "the replica that the log names",
    "random": "seeded per (seed, request)",
    "round-robin": "in turn, from replica 0, per pool",
    "prefix-hash": "hash of the first prefix_tokens tokens, modulo the replicas",
    "least-loaded": "fewest requests in flight",
    "session": "hash of the session id on a ring",
    "consistent-hash": "hash of the first prefix_tokens tokens on a ring, with a bound on the load",
    "cache-aware": "SGLang gateway: longest prefix sent before, unless loads are uneven",
    "kv-aware": "NVIDIA Dynamo: least cost of prefill left over and decode",
    "llm-d-prefix": "llm-d: weighted scores of prefix, queue and KV use",
    "production-stack-prefix": "vLLM production-stack: longest prefix sent before, whatever the load",
    "aibrix-prefix": "AIBrix: longest prefix sent before, unless loads are uneven",
    "ray-prefix": "Ray Serve: longest prefix sent before, shortest queue among equals",
}

EVENT_KINDS = {
    "restart": "all blocks of the replica are gone",
    "flush": "the cache is emptied unless a request is running",
    "deploy": "a restart, after which keys may live in a new namespace",
    "weights": "new model weights: cached blocks are worthless",
    "scale": "the pool has this many replicas from now on",
}

RESIDENCES = ("auto", "logged", "estimated", "none")
OUTPUTS = ("auto", "as_decoded", "at_release", "ignore")
