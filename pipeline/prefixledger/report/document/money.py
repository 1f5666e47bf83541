"""Money in ``report.json``: costs, spend, the invoice, and whether the replay reproduces what was billed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from prefixledger.report.document.scalars import Count, Moment, MoneyByCause, one_of


class Cost(TypedDict):
    """What the lookups of one currency cost."""

    currency: str
    uncached: float
    actual: float
    """Input and output at list price."""
    logged: float | None
    """What the usage in the log comes to."""
    logged_high: float | None
    """logged, if all writes whose lifetime the log does not say were for the longest."""
    output: float | None
    """The part of uncached and actual that is output."""
    saved: float | None
    """uncached less actual; below 0 the cache costs more than it saves."""
    saved_share: float | None
    """saved over uncached, output included."""
    multiplier: float | None
    effective_tokens: int | None
    """Uncached prompt tokens that the input as charged would buy."""
    break_even: dict[str, float]
    """Least hit rate that pays for the write premium, by rate card."""
    by_cause: MoneyByCause


class Spend(TypedDict):
    """What some lookups cost."""

    field: Annotated[str, one_of("all", "model", "tenant", "provider", "service_tier", "day")]
    value: str | None
    """Null where the log does not say."""
    currency: str
    requests: Count
    prompt_tokens: Count
    output_tokens: Count
    read_tokens: Count
    written_tokens: Count
    uncached_tokens: Count
    unread_tokens: Count
    """Written, and read by nobody to the end of the log."""
    uncached: float
    actual: float
    output: float
    saved: float
    """Below 0 the cache costs more than it saves."""
    saved_share: float | None
    wasted: float
    """What writing the unread cost above uncached input."""


InvoiceKind = Annotated[
    str, one_of("uncached_input", "cache_read", "cache_write", "cache_write_long", "output", "other")
]
Difference = Annotated[
    str, one_of("not_in_log", "not_on_invoice", "less_in_log", "more_in_log", "kinds_differ", "price_differs")
]


class InvoiceKindTokens(TypedDict):
    """The tokens of one kind on both sides."""

    kind: InvoiceKind
    log_tokens: Count
    invoice_tokens: Count


class InvoiceDifference(TypedDict):
    """One way in which log and invoice differ."""

    difference: Difference
    model_days: Count
    tokens: int
    cost: float


class InvoiceDay(TypedDict):
    """One model on one day, in the log and on the invoice; null where one side does not have it."""

    model: str | None
    day: str
    difference: Difference | None
    requests: Count
    log_uncached_input_tokens: Count
    log_cache_read_tokens: Count
    log_cache_write_tokens: Count
    log_cache_write_long_tokens: Count
    log_output_tokens: Count
    invoice_uncached_input_tokens: Count | None
    invoice_cache_read_tokens: Count | None
    invoice_cache_write_tokens: Count | None
    invoice_cache_write_long_tokens: Count | None
    invoice_output_tokens: Count | None
    invoice_other_tokens: Count | None
    log_cost: float | None
    invoice_cost: float | None


class Reconciliation(TypedDict):
    """The log beside an invoice."""

    currency: str
    coverage: float | None
    """What the log holds of the invoice: of its money where it tells any, else of its tokens."""
    log_tokens: Count
    invoice_tokens: Count
    log_cost: float
    invoice_cost: float
    lines_outside: Count
    lines_in_other_currency: Count
    by_kind: list[InvoiceKindTokens]
    differences: list[InvoiceDifference]
    by_model_day: list[InvoiceDay]


class PolicyDay(TypedDict):
    """What the service billed for one model on one day, and what the replay says."""

    model: str | None
    day: str
    requests: Count
    prompt_tokens: Count
    billed_read_tokens: Count
    simulated_read_tokens: Count
    billed_write_tokens: Count | None
    simulated_write_tokens: Count | None
    read_error: float | None
    write_error: float | None


class Disagreement(TypedDict):
    """One request that was billed otherwise than the replay says; of each kind the largest."""

    kind: Annotated[str, one_of("read_less", "read_more", "written_less", "written_more")]
    request_id: str
    model: str | None
    tenant: str | None
    at: Moment | None
    prompt_tokens: Count
    billed_tokens: Count
    simulated_tokens: Count
    kind_requests: Count
    """Requests of that kind in all."""
    kind_tokens: Count


class Policy(TypedDict):
    """Whether the replay reproduces what the service billed."""

    reproduced: bool
    """Reads and writes differ by at most 2 % of the prompt tokens, request by request."""
    sentence: str
    prompt_tokens: Count
    read_error: float | None
    write_error: float | None
    by_model_day: list[PolicyDay]
    disagreements: list[Disagreement]


class LengthRange(TypedDict):
    """Reads by model and length of prompt, of requests with usage."""

    model: str | None
    from_tokens: Count
    to_tokens: Count | None
    """First length beyond; null without an end."""
    requests: Count
    requests_with_read: Count
    prompt_tokens: Count
    read_tokens: Count
    observed_hit_rate: float | None
    ideal_hit_rate: float | None


class GapRange(TypedDict):
    """Lookups of one model that came so long after the one before in their conversation."""

    model: str | None
    from_s: Annotated[int, Field(ge=0, description="They came later than this, start to start.")]
    to_s: int | None
    """And at most so late; null without an end."""
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    requests_with_usage: Count
    observed_hit_tokens: Count
    observed_written_tokens: Count
    mean_written_tokens: float | None


class KeepAlive(TypedDict):
    """Calls that are said to keep prefixes alive, beside those that the log shows."""

    pool: Count | None
    model: str | None
    tenant: str | None
    interval_s: float
    gaps: Count
    """Gaps of conversations in which a call was due."""
    expected_calls: Count
    seen_calls: Count
    lost_gaps: Count
    missed_tokens: Count
    """What the requests behind gaps with too few calls did not find although it was there before."""
    first_at: Moment | None


class LongerLife(TypedDict):
    """What the longer lifetime of writes would be worth to one model, by gaps and usage alone."""

    model: str | None
    short_ttl_s: Count
    long_ttl_s: Count
    currency: str
    requests: Count
    lost_short_tokens: Count
    """What was there before a gap and would be written again under the shorter lifetime."""
    lost_long_tokens: Count
    grown_tokens: Count
    """Written under either."""
    saved: float
    """All of it written for longer, against all of it for the shorter time; below 0 it costs more."""


class TtlChange(TypedDict):
    """A day from which writes have another lifetime."""

    model: str | None
    tenant: str | None
    day: str
    at: Moment
    requests_before: Count
    requests_since: Count
    long_share_before: float
    """Share of the written tokens that were written for an hour."""
    long_share_since: float
    clients_before: list[str]
    clients_since: list[str]
    written_tokens_since: Count
    rewritten_requests: Count
    """Requests since that came 5 to 60 minutes after the one before, and wrote again."""
    rewritten_tokens: Count


class SilentWrite(TypedDict):
    """A cache that was written on a day and never read."""

    model: str | None
    tenant: str | None
    day: Moment
    requests: Count
    written_tokens: Count
    prompt_tokens: Count
