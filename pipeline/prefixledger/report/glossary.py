"""What the words of the report mean: one line for every cause, detail and rung."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Term:
    """A cause in words.

    Attributes:
        name: Short label, as on charts.
        gloss: What it means, one line.
        loss: The noun that the verdict uses for tokens lost this way.
        advice: What would have made it a hit.
    """

    name: str
    gloss: str
    loss: str
    advice: str


CAUSE_TERMS = {
    "uncacheable": Term(
        "not cacheable",
        "the rules of the cache exclude it: the partial last block, the last token, a prompt below the minimum",
        "tokens that no cache of this kind may keep",
        "nothing on the cache's side",
    ),
    "in_flight": Term(
        "in flight",
        "another request was computing it at that moment and the cache did not show it yet",
        "prompts that came while their prefix was still being computed",
        "letting the second request wait for the first",
    ),
    "invalidated": Term(
        "invalidated",
        "it was there until a restart, a deploy, a flush or a lost replica removed it",
        "restarts, deploys and flushes",
        "fewer or rolling resets",
    ),
    "expired": Term(
        "expired",
        "it was there until its time to live (TTL) ran out",
        "time to live",
        "a longer time to live",
    ),
    "evicted": Term(
        "evicted",
        "it was there until other traffic needed the room",
        "eviction",
        "more cache memory",
    ),
    "misrouted": Term(
        "misrouted",
        "another live replica held it, but this one was asked",
        "routing",
        "sending the request to the replica that held the prefix",
    ),
    "key_changed": Term(
        "key changed",
        "the same text was served before, under another key: something in front of it changed",
        "changed keys",
        "a prefix that stays the same to the byte",
    ),
    "cold": Term(
        "cold",
        "never seen before in this log",
        "text that was new",
        "nothing: it was new",
    ),
    "unexplained": Term(
        "unexplained",
        "the log holds no evidence for any cause",
        "misses that nothing in the log explains",
        "logging token ids or block ids, so that the prompts can be compared",
    ),
}

DETAIL_NAMES = {
    "partial_block": "partial last block",
    "last_token": "last token, always computed",
    "below_minimum": "prompt below the minimum length",
    "no_breakpoint": "no cache mark behind it",
    "out_of_reach": "too far before the next cache mark",
    "bypassed": "cache bypassed on request",
    "larger_than_cache": "prompt larger than the whole cache",
    "restart": "restart",
    "deploy": "deploy",
    "flush": "flush",
    "weights": "new weights",
    "scale_in": "scaled in",
    "replica_gone": "replica gone",
    "prefix_edited": "prefix edited",
    "tools_reordered": "tools reordered",
    "history_rewritten": "history rewritten",
    "model_changed": "model changed",
    "template_changed": "template changed",
    "namespace_split": "namespace split",
    "new_content": "new text",
    "window_start": "first seen during the warm-up",
}

RUNG_NAMES = {
    "pooled": ("One shared cache, unlimited", "every prefix seen before is a hit"),
    "per_replica": ("Each replica its own, unlimited", "lost: asked of a replica that never had it"),
    "resets": ("With resets", "lost: restarts, deploys, flushes, replicas gone"),
    "ttl": ("With the time to live", "lost: used again too late"),
    "capacity": ("With the capacity", "lost: pushed out for lack of room"),
    "observed": ("Logged by the service", "difference between this replay and the log"),
}


SETTING_NAMES = {
    "growth": ("Traffic, times", "the sessions of the log so many times over"),
    "target": ("Hit rate asked for", "the smallest cache that reaches it is tried"),
    "block_size": ("Tokens per block", "only whole blocks are kept and found again"),
    "salt": ("Cache salt", "a secret in front of prompts that keeps tenants apart; off: one for all"),
    "layout": ("Prompt layout", "volatile-last puts what changes from call to call at the end"),
    "capacity": ("Cache size", "what one replica can hold"),
    "ttl": ("Time to live", "how long something stays after its last use"),
    "residence": ("Blocks held by", "how it is known how long running requests hold theirs"),
    "running": ("Requests at a time", "how many may run on a replica; the others wait"),
    "tier": ("Lower tier", "slower memory behind that of the replica"),
    "rates": ("Prices", "the model whose prices are paid"),
    "routing": ("Routing", "which replica a request is sent to"),
    "replicas": ("Replicas", "caches that requests are spread over"),
}  # fmt: skip
"""What a what-if changes: its label, and what it is."""

_NAMES = {cause: term.name for cause, term in CAUSE_TERMS.items()} | DETAIL_NAMES
_NAMED = re.compile(rf"\b({'|'.join(_NAMES)})\b")

WHERE_NAMES = {"here": "last used on the replica that was asked", "elsewhere": "last used on another replica"}


def cause_name(cause: str) -> str:
    """Return the label of a cause."""
    return CAUSE_TERMS[cause].name


def settings(axes: Mapping[str, Any]) -> str:
    """Name a combination by the values of its settings."""
    return ", ".join(
        f"{SETTING_NAMES[name][0].lower()} {value}" for name, value in axes.items() if value is not None
    )


def in_words(text: str) -> str:
    """Write causes and details in a sentence as the report names them."""
    return _NAMED.sub(lambda m: _NAMES[m.group()], text)


def detail_name(detail: str | None) -> str:
    """Return a detail in words; an unknown one with its underscores opened."""
    if not detail:
        return ""
    return DETAIL_NAMES.get(detail, detail.replace("_", " "))
