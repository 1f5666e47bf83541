"""What is told of one request: its life, its segments, and the evidence for each in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from prefixledger.cards import Card, frame_card
from prefixledger.frames import Tabled, objects_frame
from prefixledger.ids import short_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    import polars as pl

ROUTES = {
    "affinity": "the router remembered the longest prefix there",
    "below_threshold": "the router remembered too little of the prefix anywhere",
    "fallback": "the replica that the router wanted is gone, or there is no session id",
    "hash": "the replica owns the key that the router hashes",
    "imbalance": "loads were so uneven that prefixes did not count",
    "least_loaded": "the router remembered no prefix and took the least loaded",
    "overload": "the replica that the router preferred had too much to do",
    "random": "drawn at random, or no key to go by",
    "tie": "several replicas were equally good",
    "turn": "it was this replica's turn",
}
"""Why a router sent a request where it went; see ``replay.routers.base.BRANCHES``."""

_NO_LOOKUP = {
    "failed": "it failed before it reached a cache, so nothing was looked up",
    "usage": "the log has its usage but no keys, so it cannot be looked up: hits are those that the service reports",
    "unmeasured": "the log has neither keys nor cached tokens for it, so nothing is known of its hits",
}
_BY_RULE = {
    "partial_block": "the block, or the interval at which the cache stores, is not full, and only full ones are kept",
    "last_token": "the last token is always computed, and its block with it",
    "below_minimum": "the prompt is shorter than the cache stores",
    "no_breakpoint": "no cache mark stored it: none lies behind it, or none where earlier prompts part from this one",
    "out_of_reach": "it lies too far before the next cache mark",
    "bypassed": "the request asked to bypass the cache",
    "larger_than_cache": "the prompt is larger than the whole cache",
    "new_content": "nobody had asked for it before in this log",
    "window_start": "first seen during the warm-up: it may be older than the log",
}
_PARTS = {"tools": "the tools", "system": "the system prompt", "message": "a message"}
_UNDONE = {
    "model_changed": "the same model",
    "template_changed": "the same template",
    "namespace_split": "the same namespace",
}
"""What would have to stay for content to keep its key, beside what stands before it."""
_FOR_WANT_OF_ROOM = ("evicted", "expired")
"""Causes for which the needed capacity says something; a reset takes what had room enough."""


@dataclass(frozen=True, slots=True)
class ExplainedSegment:
    """A stretch of the prompt with one outcome.

    Attributes:
        first_token: 0-based position in the prompt; None where the row has no keys.
        tokens: Its length.
        hit: Whether the cache had it.
        cause: Why it was missed; None for a hit.
        detail: What exactly.
        evidence: What proves it, in words.
        would_have_helped: Each change that alone would have made it a hit.
    """

    first_token: int | None
    tokens: int
    hit: bool
    cause: str | None
    detail: str | None
    evidence: tuple[str, ...]
    would_have_helped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation(Tabled):
    """The life of one request in one replay.

    Attributes:
        scenario: Name of the replay.
        request_id: Id, shortened unless it was asked for whole, as all ids here.
        source_file: Where it was logged.
        source_line: Its line there.
        started_at: Arrival at the service.
        admitted_at: Simulated admission; None where it was never looked up.
        finished_at: Simulated end; None where one request at a time is replayed.
        tenant: Who asked.
        model: Model as logged.
        release: Release of the calling application.
        session_id: Session as logged.
        conversation: Request that began its conversation, of which a session may hold several; None where none can be told.
        status: ok, failed or cut.
        replica: The cache that was asked.
        route_branch: The rule that sent it there; None where the log did.
        route: The same in words; None where no cache was asked.
        basis: simulated, or observed for usage without keys; None where nothing is known of its hits.
        prompt_tokens: Tokens of the prompt.
        hit_tokens: Of these, hits.
        hit_host_tokens: Of the hits, those from a lower tier.
        observed_hit_tokens: Hits that the service reports.
        no_lookup: Why it is no lookup, in words; None where it is one.
        segments: The prompt from its first token to its last.
        missed_tokens: Missed tokens by cause, in order of the prompt.
        closing: The sum in words: hits and misses make the prompt.
    """

    scenario: str
    request_id: str
    source_file: str
    source_line: int
    started_at: datetime
    admitted_at: datetime | None
    finished_at: datetime | None
    tenant: str | None
    model: str | None
    release: str | None
    session_id: str | None
    conversation: str | None
    status: str
    replica: str | None
    route_branch: str | None
    route: str | None
    basis: str | None
    prompt_tokens: int
    hit_tokens: int | None
    hit_host_tokens: int | None
    observed_hit_tokens: int | None
    no_lookup: str | None
    segments: tuple[ExplainedSegment, ...]
    missed_tokens: dict[str, int]
    closing: str

    def _frames(self) -> Mapping[str, Callable[[], pl.DataFrame]]:
        return {"segments": partial(objects_frame, self.segments, ExplainedSegment)}

    def _card(self) -> Card:
        notes = tuple(note for note in (self.route, self.no_lookup) if note)
        return frame_card(f"Request {self.request_id}: {self.closing}", self.frame(), notes)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cache of the pool allows.

    Attributes:
        ttl_s: Time to live, seconds; None is none.
        capacity_blocks: Usable blocks of a replica; None is unlimited.
    """

    ttl_s: float | None
    capacity_blocks: int | None


def told(
    scenario: str, life: Mapping[str, Any], segments: tuple[ExplainedSegment, ...], *, show_ids: bool
) -> Explanation:
    """Put a request and its segments together.

    Args:
        scenario: Name of the replay.
        life: A row of ``80_explain/life``.
        segments: In order.
        show_ids: Whether ids are kept whole.
    """
    kept = {name: value for name, value in life.items() if name not in ("reason", "pool", "block_size")}
    session = life["session_id"]
    kept["request_id"] = short_id(life["request_id"], show_ids=show_ids)
    kept["session_id"] = None if session is None else short_id(session, show_ids=show_ids)
    opener = life["conversation"]
    kept["conversation"] = None if opener is None else short_id(opener, show_ids=show_ids)
    missed: dict[str, int] = {}
    for segment in segments:
        if not segment.hit:
            cause = segment.cause or "unexplained"
            missed[cause] = missed.get(cause, 0) + segment.tokens
    return Explanation(
        **kept,
        scenario=scenario,
        route=_route(life),
        no_lookup=_NO_LOOKUP.get(life["reason"]),
        segments=segments,
        missed_tokens=missed,
        closing=_closing(segments, missed, life["prompt_tokens"]),
    )


def segment(row: Mapping[str, Any], limits: Limits, *, show_ids: bool) -> ExplainedSegment:
    """Put one segment into words.

    Args:
        row: A row of ``80_explain/spans``.
        limits: What the cache of its pool allows.
        show_ids: Whether ids are kept whole.
    """
    ids = {
        name: None if row[name] is None else short_id(row[name], show_ids=show_ids)
        for name in ("previous_request_id", "removed_by")
    }
    named = {**row, **ids}
    return ExplainedSegment(
        row["first_token"],
        row["tokens"],
        row["hit"],
        row["cause"],
        row["detail"],
        (*_uses(named), *_bounds(named, limits)),
        tuple(_helps(row, limits)),
    )


def moment(at: datetime) -> str:
    """Write a time in UTC to the millisecond."""
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _uses(row: Mapping[str, Any]) -> Iterator[str]:
    """Say who used it last, and what took it since."""
    if row["detail"] in _BY_RULE:
        yield _BY_RULE[row["detail"]]
    if row["last_used_at"] is not None:
        by = f"at {moment(row['last_used_at'])} by request {row['previous_request_id']}"
        if row["cause"] == "in_flight":
            yield f"being computed since its admission {by}"
        elif row["cause"] == "key_changed":
            yield f"the same content was served under another key {by}"
            if (apart := _apart(row)) is not None:
                yield apart
            yield _changed(row)
        else:
            there = row["elsewhere"] or row["cause"] == "misrouted"
            yield f"last used{' on another replica' if there else ''} {by}"
    if row["removed_at"] is not None:
        by = f" by request {row['removed_by']}" if row["removed_by"] is not None else ""
        yield f"removed at {moment(row['removed_at'])}{by}"
    if row["event_id"] is not None:
        when = "" if row["event_at"] is None else f": {row['kind']} at {moment(row['event_at'])}"
        note = "" if row["note"] is None else f" ({row['note']})"
        yield f"reset {row['event_id']}{when}{note}"
    if row["resident_replica"] is not None:
        yield f"replica {row['resident_replica']} was live and held it"


def _apart(row: Mapping[str, Any]) -> str | None:
    """Say what keeps equal content of two requests apart; None where nothing but the content before it does."""
    if row["detail"] == "model_changed":
        return f"that request went to model {row['previous_model']}, this one to {row['model']}, and models share no keys"
    if row["detail"] == "template_changed":
        return (
            "its parts are those of that request, and the keys are not: they were rendered or cut otherwise"
        )
    if row["detail"] != "namespace_split":
        return None
    if row["adapter"] != row["previous_adapter"]:
        here, there = (each or "(none)" for each in (row["adapter"], row["previous_adapter"]))
        return f"that request asked for adapter {there}, this one for {here}, and adapters share no keys"
    return "that request had another salt or namespace, and those share no keys"


def _changed(row: Mapping[str, Any]) -> str:
    """Say where two prompts part."""
    new, old = row["changed_new_tokens"], row["changed_old_tokens"]
    if not new and not old:
        return "what stands before it is the same in both prompts"
    part = "" if row["changed_part"] is None else f", in {_PARTS[row['changed_part']]}"
    what = "" if row["varies"] is None else f": {row['varies']}"
    return f"that prompt departs from this one at token {row['changed_at_token']:,}{part}, {new:,} new for {old:,} old{what}"


def _bounds(row: Mapping[str, Any], limits: Limits) -> Iterator[str]:
    """Set the gap beside the TTL, and the needed capacity beside that of the replica."""
    if row["needed_ttl_s"] is not None:
        bound = "no TTL is set" if limits.ttl_s is None else f"the TTL is {_seconds(limits.ttl_s)}"
        yield f"unused for {_seconds(row['needed_ttl_s'])}; {bound}"
    if row["cause"] in _FOR_WANT_OF_ROOM and row["needed_capacity_blocks"] is not None:
        needed, have = row["needed_capacity_blocks"], limits.capacity_blocks
        if have is None:
            yield f"to keep it takes {needed:,} blocks; the cache is unlimited"
        elif needed > have:
            yield f"to keep it takes {needed:,} blocks; the cache has {have:,}"
        else:
            yield f"to keep it takes {needed:,} blocks by itself; the cache has {have:,}, shared with running requests"


def _helps(row: Mapping[str, Any], limits: Limits) -> Iterator[str]:
    if row["hit_on_other_replica"]:
        yield f"another replica: {row['resident_replica']}"
    if row["hit_with_more_capacity"]:
        needed, have = row["needed_capacity_blocks"], limits.capacity_blocks
        # Running requests hold blocks of their own, so that what is needed may be less than what there is.
        enough = needed is not None and (have is None or needed > have)
        yield f"more capacity: {needed:,} blocks" if enough else "more capacity"
    if row["hit_with_stable_prefix"]:
        edited = row["changed_new_tokens"] or row["changed_old_tokens"]
        one = _UNDONE.get(row["detail"])
        yield " and ".join(filter(None, (one, "a stable prefix" if edited or one is None else None)))
    if row["hit_with_longer_ttl"]:
        yield f"a longer TTL: {_seconds(row['needed_ttl_s'])}"


def _route(life: Mapping[str, Any]) -> str | None:
    if life["replica"] is None:
        return None
    branch = life["route_branch"]
    return "as logged" if branch is None else ROUTES.get(branch, branch)


def _closing(segments: tuple[ExplainedSegment, ...], missed: Mapping[str, int], prompt_tokens: int) -> str:
    if not segments:
        return f"a prompt of {prompt_tokens:,} tokens, none of them in the books"
    hits = sum(each.tokens for each in segments if each.hit)
    parts = [f"{hits:,} hit", *(f"{tokens:,} {cause}" for cause, tokens in missed.items())]
    return f"{' + '.join(parts)} = {hits + sum(missed.values()):,} tokens of the prompt"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.6g} s"
