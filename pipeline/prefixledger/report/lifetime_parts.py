"""What the log shows of lifetimes: reads and writes by gap, and lifetimes of writes that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from prefixledger.report.numbers import amount, clean, count, finite, iso, percent, significant
from prefixledger.report.parts import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prefixledger.report import document


@dataclass(frozen=True, slots=True)
class GapRange:
    """Lookups of one model that came so long after the one before in their conversation.

    Attributes:
        model: Name of the model; None where the log names none.
        from_s: They came later than this many seconds, start to start.
        to_s: And at most this many; None without an end.
        requests: How many there are.
        prompt_tokens: Their prompts.
        hit_tokens: Their hits: of the replay, or of the service where there are no keys.
        requests_with_usage: How many of them carry usage.
        observed_hit_tokens: What the service read for these.
        observed_written_tokens: What it wrote for them.
    """

    model: str | None
    from_s: int
    to_s: int | None
    requests: int
    prompt_tokens: int
    hit_tokens: int
    requests_with_usage: int
    observed_hit_tokens: int
    observed_written_tokens: int

    @property
    def mean_written_tokens(self) -> float | None:
        """Tokens written for one of them; None without usage."""
        return self.observed_written_tokens / self.requests_with_usage if self.requests_with_usage else None


@dataclass(frozen=True, slots=True)
class TtlChange:
    """One model and tenant whose writes went from one lifetime to another.

    Attributes:
        model: Name of the model; None where the log names none.
        tenant: The tenant; None where the log names none.
        day: The first day of the new lifetime, in the zone of the window.
        at_us: Its first write on that day, UTC microseconds.
        requests_before: Writes before it.
        requests_since: Writes since.
        long_share_before: Share of the tokens that were written for an hour before it.
        long_share_since: The same since.
        clients_before: Programs that asked before it.
        clients_since: Programs that asked since.
        written_tokens_since: Tokens written since.
        rewritten_requests: Writes since after a gap that only the longer lifetime bridges.
        rewritten_tokens: Their tokens.
    """

    model: str | None
    tenant: str | None
    day: str
    at_us: int
    requests_before: int
    requests_since: int
    long_share_before: float
    long_share_since: float
    clients_before: tuple[str, ...]
    clients_since: tuple[str, ...]
    written_tokens_since: int
    rewritten_requests: int
    rewritten_tokens: int


def gap_ranges(mart: pa.Table) -> tuple[GapRange, ...]:
    """Return the rows of the mart ``gaps``."""
    return tuple(GapRange(**row) for row in mart.to_pylist())


def ttl_changes(mart: pa.Table) -> tuple[TtlChange, ...]:
    """Return the rows of the mart ``ttl_changes``."""
    starts = mart["day_at"].cast(pa.int64()).to_pylist()
    found = []
    for row, at_us in zip(mart.drop_columns(["day_at"]).to_pylist(), starts, strict=True):
        clients: dict[str, Any] = {name: tuple(row.pop(name)) for name in ("clients_before", "clients_since")}
        found.append(TtlChange(**row, **clients, at_us=at_us))
    return tuple(found)


def gap_value(row: GapRange) -> document.GapRange:
    """Return one range of gaps for the twin."""
    return {
        "model": row.model,
        "from_s": row.from_s,
        "to_s": row.to_s,
        "requests": row.requests,
        "prompt_tokens": row.prompt_tokens,
        "hit_tokens": row.hit_tokens,
        "requests_with_usage": row.requests_with_usage,
        "observed_hit_tokens": row.observed_hit_tokens,
        "observed_written_tokens": row.observed_written_tokens,
        "mean_written_tokens": significant(row.mean_written_tokens),
    }


def ttl_change_value(row: TtlChange) -> document.TtlChange:
    """Return one change of a lifetime for the twin."""
    return {
        "model": row.model,
        "tenant": row.tenant,
        "day": row.day,
        "at": iso(row.at_us),
        "requests_before": row.requests_before,
        "requests_since": row.requests_since,
        "long_share_before": finite(row.long_share_before),
        "long_share_since": finite(row.long_share_since),
        "clients_before": list(row.clients_before),
        "clients_since": list(row.clients_since),
        "written_tokens_since": row.written_tokens_since,
        "rewritten_requests": row.rewritten_requests,
        "rewritten_tokens": row.rewritten_tokens,
    }


def shortened(changes: Iterable[TtlChange]) -> tuple[Finding, ...]:
    """Return a finding for each lifetime that became shorter and cost something since."""
    return tuple(_shortened(change) for change in changes if change.rewritten_tokens)


def _shortened(change: TtlChange) -> Finding:
    whose = f"writes of {clean(change.model or 'a model without a name', 60)}"
    if change.tenant is not None:
        whose += f" for {clean(change.tenant, 40)}"
    came = sorted(set(change.clients_since) - set(change.clients_before))
    clients = f"; {', '.join(clean(name, 40) for name in came[:3])} asked since then only" if came else ""
    return Finding(
        kind="ttl_changed",
        title=(
            f"{whose} were for an hour to {percent(change.long_share_before)} before {change.day} and to "
            f"{percent(change.long_share_since)} since: {amount(change.rewritten_tokens)} tokens were written again in "
            f"{count(change.rewritten_requests, 'request')} that came 5 to 60 minutes after the one before{clients}"
        ),
        tokens=change.rewritten_tokens,
        from_us=change.at_us,
        where=f"model {clean(change.model, 60)}" if change.model else "",
        action=(
            "find out who chose the lifetime (client, gateway or service), and ask for the longer one where conversations pause "
            "for minutes"
        ),
    )
