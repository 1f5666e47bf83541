"""What an investigation finds, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Move:
    """A rate that changed at some moment.

    Attributes:
        measure: ``hit`` or a cause; both as shares of the prompt tokens.
        field: all, tenant, prefix, model, release or replica.
        value: Which one.
        before: Rate of the stretch before.
        after: Rate of the stretch behind.
        low: Lower end of the 95 % interval of the change.
        high: Its upper end.
        p: Probability of such a change by chance, allowing for the places where it might have been.
    """

    measure: str
    field: str
    value: str
    before: float
    after: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Nearby:
    """Something that happened near a change.

    Attributes:
        kind: release, model, client, adapter or replica with ``begins`` or ``ends``; the kind of an event; or ``routing``.
        name: Which one.
        at: When.
    """

    kind: str
    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """One line of the table around a change.

    Attributes:
        name: ``hit`` or a cause.
        before_tokens: Tokens in the stretch before.
        after_tokens: Tokens in the stretch behind.
        before: Share of the prompt tokens before.
        after: Share behind.
    """

    name: str
    before_tokens: int
    after_tokens: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Incident:
    """A moment at which rates changed, of the whole or of a part.

    Attributes:
        at: When; the begin of the slice, or of what happened in it.
        field: Whose rates: all, tenant, prefix, model, release or replica.
        value: Which one.
        better: Whether the hit rate rose.
        sentence: The same in words.
        shape: What it looks like, in words; None where nothing known.
        moves: The rates that changed, the largest first.
        table: What hit and was missed before and after.
        nearby: What happened near it.
        begin: Begin of the stretch before.
        end: End of the stretch behind.
    """

    at: datetime
    field: str
    value: str
    better: bool
    sentence: str
    shape: str | None
    moves: tuple[Move, ...]
    table: tuple[BeforeAfter, ...]
    nearby: tuple[Nearby, ...]
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Burden:
    """One thing that misses are owed to.

    Attributes:
        cause: Their cause.
        thing: What it is.
        release: Release in which it is; None where that says nothing.
        tokens: Missed tokens.
        requests: Lookups that miss them.
        currency: Of ``cost``.
        cost: What they cost above the price of a read.
        share_so_far: Share of the tokens of all such things that this and the larger ones carry.
        first_at: First lookup.
        last_at: Last lookup.
    """

    cause: str
    thing: str
    release: str | None
    tokens: int
    requests: int
    currency: str
    cost: Decimal
    share_so_far: float
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Matched:
    """Turns after gaps of one length, with and without a change of process.

    Attributes:
        field: release, client, model or replica.
        gap_from_s: Shortest gap of the class.
        gap_to_s: Longest; None has none.
        changed_pairs: Pairs of turns between which it changed.
        same_pairs: Pairs between which it did not.
        changed_share: Share of the prompt before that hits after a change; None without pairs.
        same_share: The same without a change.
        low: Lower end of the 95 % interval of the difference; None where there is not enough data.
        high: Its upper end.
        p: Probability of the difference by chance, times the comparisons made.
    """

    field: str
    gap_from_s: int
    gap_to_s: int | None
    changed_pairs: int
    same_pairs: int
    changed_share: float | None
    same_share: float | None
    low: float | None
    high: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """How caches came back after a reset.

    Attributes:
        event_id: The reset.
        kind: What it was.
        at: When.
        replicas: Whom it struck.
        lost_tokens: Prefill that it caused, beyond what would have been.
        rate_before: Hit rate of the hour before.
        rate_after: Hit rate of the hour behind.
        recovery_s: Seconds until five minutes hit at 90 % of the rate before; None if they do not within 2 hours.
        peak_tokens: Most extra prefill in one minute: the headroom that such a reset needs.
        minutes: Minute, prompt tokens, hit tokens and extra prefill of each minute from 10 before to 60 behind.
    """

    event_id: str
    kind: str
    at: datetime
    replicas: tuple[str, ...]
    lost_tokens: int
    rate_before: float | None
    rate_after: float | None
    recovery_s: int | None
    peak_tokens: int
    minutes: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """What it costs that content is kept apart.

    Attributes:
        differs: cache_salt, adapter or namespace.
        tenant: Whose requests; None where the log does not say.
        requests: Lookups that miss what stands in another namespace.
        tokens: Tokens that they compute again.
        currency: Of ``cost``.
        cost: What that costs above the price of a read.
    """

    differs: str
    tenant: str | None
    requests: int
    tokens: int
    currency: str
    cost: Decimal


@dataclass(frozen=True, slots=True)
class SideChannel:
    """Two tenants that hit each other's blocks although the log separates tenants.

    Attributes:
        tenant: Who hits.
        other_tenant: Who used the blocks last.
        one_salt: Whether both have the same salt; otherwise these requests have none.
        requests: Lookups.
        tokens: Hit tokens.
    """

    tenant: str
    other_tenant: str
    one_salt: bool
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Investigation:
    """What an investigation of one replay finds.

    Attributes:
        scenario: Name of the replay.
        begin: First moment.
        end: First moment behind.
        slice_s: Width of a slice.
        requests: Lookups.
        prompt_tokens: Their tokens.
        hit_tokens: Of these found.
        misses: The others by cause; with the hits they are the prompt.
        hit_rate: Hits among them; None without tokens.
        series_tested: Series that were looked through.
        verdict: The whole in a few sentences.
        problem: Why nothing could be looked for; None where it could.
        incidents: Moments at which rates changed, in order of time.
        shapes: What the log as a whole looks like, in words.
        burdens: What misses are owed to, the largest first.
        carriers: How many of them carry 80 % of the tokens.
        things: How many there are.
        matched: Matched comparisons.
        recoveries: Resets, and how caches came back.
        splits: What isolation costs.
        side_channels: Where isolation is missing.
        hourly: Begin of each slice, its hit rate, and the shares of all causes in ``causes``.
        causes: Names of the causes of ``hourly``.
    """

    scenario: str
    begin: datetime
    end: datetime
    slice_s: float
    requests: int
    prompt_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]
    hit_rate: float | None
    series_tested: int
    verdict: tuple[str, ...]
    problem: str | None
    incidents: tuple[Incident, ...]
    shapes: tuple[str, ...]
    burdens: tuple[Burden, ...]
    carriers: int
    things: int
    matched: tuple[Matched, ...]
    recoveries: tuple[Recovery, ...]
    splits: tuple[Split, ...]
    side_channels: tuple[SideChannel, ...]
    hourly: tuple[tuple[datetime, float, tuple[float, ...]], ...] = field(default=())
    causes: tuple[str, ...] = ()
