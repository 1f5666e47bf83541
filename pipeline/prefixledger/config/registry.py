"""The profiles, routings and event kinds that exist; whatever is not listed here is refused, never replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """One cache whose rules can be replayed.

    Attributes:
        meaning: One sentence.
        hosted: Whether a provider runs it and sends invoices; its default rates are then those of the model.
    """

    meaning: str
    hosted: bool = False


PROFILES = {
    "vllm": Profile("vLLM's block cache: least recently released block first, tail before head"),
    "textbook": Profile("the naive LRU over blocks that many people write first"),
}

ROUTINGS = {
    "as-logged": "the replica that the log names",
    "random": "seeded per (seed, request)",
    "round-robin": "in turn, from replica 0, per pool",
    "prefix-hash": "hash of the first prefix_tokens tokens, modulo the replicas",
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
