"""The sections of a report as plain data: what each table and chart shows, before any formatting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Source:
    """One input and what became of its records.

    Attributes:
        path: As given, relative to the SOURCE argument.
        digest: First 16 hex digits of the BLAKE3 of its decompressed bytes.
        format: Detected or stated format.
        why: Why that format.
        size_bytes: Bytes read.
        records: Records found; ``kept + rejected + duplicates + joined + skipped``.
        reasons: Rejected and skipped records by reason.
        truncated_at: Decompressed byte offset where the input is cut, or None.
        identical_lines: Equal lines without an id, kept and counted.
        block_size: Tokens per block, 0 without keys.
        block_ids: ``floor``, ``ceil`` or ``exact``: whether the log hashes a trailing partial block.
        id_scope: ``file`` or ``global``.
        clock: ``relative`` or ``absolute``.
        notes: Sentences that reading it gave rise to.
    """

    path: str
    digest: str
    format: str
    why: str
    size_bytes: int
    records: int
    kept: int
    rejected: int = 0
    duplicates: int = 0
    joined: int = 0
    skipped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    truncated_at: int | None = None
    identical_lines: int = 0
    block_size: int = 0
    block_ids: str | None = None
    id_scope: str | None = None
    clock: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def residual(self) -> int:
        """Records that no column of the account explains; anything but 0 is a fault of ours."""
        return self.records - self.kept - self.rejected - self.duplicates - self.joined - self.skipped


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lookups admitted in one slice of time.

    Attributes:
        at_us: Start of the slice, UTC microseconds.
        requests: Lookups.
        prompt_tokens: Tokens asked.
        hit_tokens: Tokens found.
        misses: Missed tokens by cause.
        observed_prompt_tokens: Tokens of lookups that carry usage.
        observed_hit_tokens: Tokens the service says it read from cache, of those.
    """

    at_us: int
    requests: int
    prompt_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]
    observed_prompt_tokens: int = 0
    observed_hit_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Consecutive slices of equal width; quiet ones are present with zeros.

    Attributes:
        width_s: Width of one slice in seconds.
        buckets: In order of time.
    """

    width_s: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The lookups that share one value of one field, e.g. one tenant."""

    value: str
    requests: int
    prompt_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One field and its values, largest loss first.

    Attributes:
        name: ``tenant``, ``model`` or another field of the log.
        groups: The values shown.
        left_out: Values that are not shown.
    """

    name: str
    groups: tuple[Group, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Prefix:
    """One shared node of the forest: the tokens that belong to it alone, and those of its subtree.

    Attributes:
        key: Hex key of the node's block; None for the row ``(unshared)``.
        parent: Key of the nearest shared node above, or None.
        level: Shared nodes above it.
        name: Who uses it: tenant, model or adapter where the log names one.
        depth_tokens: Tokens from the start of the prompt to the node.
        requests: Lookups that pass through it.
        requests_per_hour: The same per hour of the window.
        replicas: Replicas that computed or hit it.
        own_tokens: Asked tokens that belong to this node.
        own_hit_tokens: Of these, hits.
        below_tokens: Asked tokens of the node and everything under it.
        below_hit_tokens: Of these, hits.
        multiplier: Price over the uncached price, 1.00 = no caching, None without rates.
        excess_cost: Price of its misses above that of a hit, None without rates.
        below_excess_cost: The same with everything under it.
        currency: What all costs are in.
        misses: Missed own tokens by cause.
        uncached_cost: What its own tokens would cost without a cache, None without rates.
        paid_cost: What they cost.
        written_tokens: Of its own tokens, those written to a cache.
        unread_tokens: Of these, those that nobody read to the end of the log.
        wasted_cost: What writing the unread cost above uncached input, None without rates.
        borne_cost: What the lookups whose last shared prefix this is pay on their whole way, prefixes above included.
    """

    key: str | None
    parent: str | None
    level: int
    name: str
    depth_tokens: int
    requests: int
    requests_per_hour: float | None
    replicas: int
    own_tokens: int
    own_hit_tokens: int
    below_tokens: int
    below_hit_tokens: int
    multiplier: float | None = None
    excess_cost: Decimal | None = None
    below_excess_cost: Decimal | None = None
    currency: str = ""
    misses: Mapping[str, int] = field(default_factory=dict)
    uncached_cost: Decimal | None = None
    paid_cost: Decimal | None = None
    written_tokens: int = 0
    unread_tokens: int = 0
    wasted_cost: Decimal | None = None
    borne_cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Shared prefixes, every parent above its children, siblings ranked by excess cost incl. below.

    Attributes:
        shown: The rows of the page's table: parent and level refer to rows that are shown.
        rows: The rows of the JSON twin and the CSV, largest loss first.
        nodes: Shared prefixes in all.
        tree: Those that more than a thousandth of the tokens pass through, for the picture; parents are among them.
        priced: The costliest that are paid in money, and the row ``(unshared)``.
        by_reads: Whether what several use is charged to each by the tokens it asks for, not to who writes it.
    """

    shown: tuple[Prefix, ...]
    rows: tuple[Prefix, ...] = ()
    nodes: int = 0
    tree: tuple[Prefix, ...] = ()
    priced: tuple[Prefix, ...] = ()
    by_reads: bool = False

    @property
    def left_out(self) -> int:
        """Shared prefixes that the page does not show."""
        return self.nodes - sum(1 for p in self.shown if p.key)


@dataclass(frozen=True, slots=True)
class Replica:
    """One cache and its load.

    Attributes:
        name: As logged, or made by the scenario.
        requests: Lookups.
        prompt_tokens: Tokens asked of it.
        hit_tokens: Tokens it had.
        misses: Missed tokens by cause.
        live_to_us: When it was last live; None where it lives to the end.
        pool: Number of its pool: only replicas of one pool share a load. None for lookups outside all pools.
        peak_in_flight: Most requests between admission and end at once; None where one at a time is replayed.
        waited_us: Time that its lookups waited to be admitted, added up.
        longest_wait_us: The longest of these waits.
    """

    name: str
    requests: int
    prompt_tokens: int
    hit_tokens: int
    misses: Mapping[str, int]
    live_to_us: int | None = None
    pool: int | None = 0
    peak_in_flight: int | None = None
    waited_us: int = 0
    longest_wait_us: int = 0

    @property
    def prefill_tokens(self) -> int:
        """Tokens it had to compute: its load."""
        return self.prompt_tokens - self.hit_tokens


@dataclass(frozen=True, slots=True)
class ReplicaSlice:
    """The lookups of one replica in one slice of time.

    Attributes:
        replica: Its name.
        pool: Number of its pool; None for lookups outside all pools.
        at_us: Start of the slice, as on the timeline, UTC microseconds.
        requests: Lookups.
        prompt_tokens: Tokens asked of it.
        hit_tokens: Tokens it had.
    """

    replica: str
    pool: int | None
    at_us: int
    requests: int
    prompt_tokens: int
    hit_tokens: int


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung of the ladder of bounds.

    Attributes:
        rung: ``pooled``, ``per_replica``, ``resets``, ``ttl``, ``capacity`` or ``observed``.
        prompt_tokens: Tokens asked by the lookups that it covers.
        hit_tokens: Hits when this and all limits before it apply.
        lost_tokens: Hits lost against the rung before, on the first against the whole prompt; on ``observed`` against
            the simulated hits of the same lookups, negative where the service had more.
    """

    rung: str
    prompt_tokens: int
    hit_tokens: int
    lost_tokens: int


@dataclass(frozen=True, slots=True)
class Event:
    """A reset, a release or a change of scale, and what followed.

    Attributes:
        event_id: Name used in every output.
        at_us: When, UTC microseconds.
        kind: ``restart``, ``flush``, ``deploy``, ``weights``, ``scale_in`` or ``replica_gone``.
        replicas: Which replicas.
        note: Note of the event file.
        lost_tokens: Missed tokens whose cause is this event.
        rate_before: Token hit rate of these replicas in the hour before, None without lookups.
        rate_after: The same in the hour after.
        recovery_s: Seconds until 90 % of the rate before was back; None if it was not within 2 hours, or is unknown.
    """

    event_id: str
    at_us: int
    kind: str
    replicas: tuple[str, ...]
    note: str | None
    lost_tokens: int
    rate_before: float | None = None
    rate_after: float | None = None
    recovery_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The bill under one rate card.

    Attributes:
        currency: ISO code, or ``prefill tokens``.
        uncached: What the window would cost without any cache.
        actual: What it costs at list price with the hits of the headline book.
        logged: What the usage in the log comes to, for the requests that carry it; None where none does.
        multiplier: Input price over the uncached input price, None where input is free.
        by_cause: Excess cost of the misses of each cause.
        note: Which rates, in one sentence.
        effective_tokens: Uncached prompt tokens that the input as charged would buy, None where input is free.
        break_even: Hit rate at which caching costs what no caching costs, under each card with a write premium.
        output: The part of ``uncached`` and ``actual`` that is output.
        logged_high: ``logged`` if all writes whose lifetime the log does not say were for the longest; None: all are said.
    """

    currency: str
    uncached: Decimal
    actual: Decimal
    logged: Decimal | None
    multiplier: float | None
    by_cause: Mapping[str, Decimal]
    note: str = ""
    effective_tokens: int | None = None
    break_even: Mapping[str, float] = field(default_factory=dict)
    output: Decimal | None = None
    logged_high: Decimal | None = None

    @property
    def saved(self) -> Decimal:
        """What the cache saves; below 0 it costs more than it saves."""
        return self.uncached - self.actual

    @property
    def saved_share(self) -> float | None:
        """The saving over the whole bill without a cache, output included; None where that is nothing."""
        return float(self.saved / self.uncached) if self.uncached else None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth acting on, with its evidence.

    Attributes:
        kind: A cause, or another short name.
        title: One sentence.
        tokens: Missed tokens it explains.
        cost: Their excess cost, None without rates.
        currency: What it is in.
        from_us: When it began.
        to_us: When it ended.
        where: Tenant, replica, model or prefix.
        evidence: Request ids or event ids.
        action: What to do, one sentence; empty if nothing follows.
    """

    kind: str
    title: str
    tokens: int
    cost: Decimal | None = None
    currency: str = ""
    from_us: int | None = None
    to_us: int | None = None
    where: str = ""
    evidence: tuple[str, ...] = ()
    action: str = ""
