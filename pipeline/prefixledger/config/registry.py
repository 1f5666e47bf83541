"""The profiles, routings and event kinds that exist; whatever is not listed here is refused, never replaced."""

from __future__ import annotations

from dataclasses import dataclass


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
        serves: Of a hosted cache whose rows it replays where no scenario says so: providers, and models or all.
        family: Of a hosted cache a name that all its models bear, for rules that do not depend on the model.
    """

    meaning: str
    hosted: bool = False
    overlaps: bool = True
    stack: bool = True
    ttls: tuple[str, ...] = ()
    replayed: bool = True
    serves: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...] = ()
    family: str = ""


HOSTED_PROVIDERS = frozenset(
    {
        "anthropic", "aws", "azure", "bedrock", "cerebras", "cohere", "dashscope", "deepinfra", "deepseek", "fireworks", "fireworks_ai",
        "gemini", "google", "groq", "mistral", "moonshot", "openai", "openrouter", "perplexity",
        "sambanova", "together", "together_ai", "vertex", "xai",
    }
)  # fmt: skip
"""Providers whose caches follow their own published rules, not those of an engine."""

_CLOUDS = ("aws", "bedrock", "google", "vertex")
_GPT = ("*gpt-5.6*", "*gpt-6*")

PROFILES = {
    "vllm": Profile("vLLM's block cache: least recently released block first, tail before head"),
    "sglang": Profile(
        "SGLang's classic radix tree: whole leaves, least recently accessed first",
        stack=False,
    ),
    "textbook": Profile(
        "the naive LRU over blocks that many people write first", overlaps=False, stack=False
    ),
    "anthropic": Profile(
        "Claude's prompt cache: entries at marks, alive from the start of each use, readable from the first token on",
        hosted=True,
        overlaps=False,
        stack=False,
        ttls=("5m", "1h"),
        serves=((("anthropic",), None), (_CLOUDS, ("*claude*",))),
        family="claude",
    ),
    "openai": Profile(
        "OpenAI's prompt cache from GPT-5.6 on: entries at ends of messages and marks, alive since their last use",
        hosted=True,
        overlaps=False,
        stack=False,
        ttls=("30m", "12h"),
        serves=((("openai", "azure", "aws", "bedrock"), _GPT),),
        family="gpt-6",
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
