"""Observed beside simulated as plain data: by model and day, and the requests that disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.attribute.policy import PolicyError, policy_error
from prefixledger.config.units import datetime_us
from prefixledger.ids import short_id
from prefixledger.report.numbers import iso, significant

if TYPE_CHECKING:
    import pyarrow as pa

    from prefixledger.report import document

KINDS = {
    "read_less": "The service read less than the replay",
    "read_more": "The service read more than the replay",
    "written_less": "The service wrote less than the replay",
    "written_more": "The service wrote more than the replay",
}
"""Kinds of disagreement, as the statement names them."""


@dataclass(frozen=True, slots=True)
class PolicyDay:
    """One model on one day; writes are None where the service counts none.

    Attributes:
        model: As logged; None where the log does not say.
        day: ISO date in the zone of the report.
        requests: Lookups that have keys and usage.
        error: Differences request by request.
        billed_read_tokens: What the service read.
        simulated_read_tokens: What the replay reads.
        billed_write_tokens: What the service wrote.
        simulated_write_tokens: What the replay writes, of the same requests.
    """

    model: str | None
    day: str
    requests: int
    error: PolicyError
    billed_read_tokens: int
    simulated_read_tokens: int
    billed_write_tokens: int | None
    simulated_write_tokens: int | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One request that replay and service disagree on.

    Attributes:
        kind: A key of ``KINDS``.
        request_id: As logged.
        model: As logged.
        tenant: As logged.
        at_us: When it arrived.
        prompt_tokens: Its prompt.
        billed_tokens: What the service read, or wrote.
        simulated_tokens: What the replay reads, or writes.
        kind_requests: Requests of the kind, also those that are not listed.
        kind_tokens: Their differences.
    """

    kind: str
    request_id: str
    model: str | None
    tenant: str | None
    at_us: int
    prompt_tokens: int
    billed_tokens: int
    simulated_tokens: int
    kind_requests: int
    kind_tokens: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Whether the replay reproduces what was billed.

    Attributes:
        error: Over the whole window.
        days: By model and day.
        disagreements: The largest of each kind.
    """

    error: PolicyError
    days: tuple[PolicyDay, ...]
    disagreements: tuple[Disagreement, ...]

    @property
    def kinds(self) -> tuple[tuple[str, int, int, tuple[Disagreement, ...]], ...]:
        """(words, requests, tokens, its three largest) of each kind that occurs."""
        found = []
        for kind, words in KINDS.items():
            mine = tuple(one for one in self.disagreements if one.kind == kind)
            if mine:
                found.append((words, mine[0].kind_requests, mine[0].kind_tokens, mine[:3]))
        return tuple(found)


def policy(days: pa.Table, disagreements: pa.Table) -> Policy | None:
    """Read the marts ``policy_days`` and ``disagreements``; None where no lookup has keys and usage."""
    whole = policy_error(days.to_pylist())
    if whole is None:
        return None
    return Policy(
        whole,
        tuple(
            PolicyDay(
                row["model"],
                row["day"],
                row["requests"],
                PolicyError(
                    max(1, row["prompt_tokens"]),
                    row["read_error_tokens"],
                    row["write_prompt_tokens"] or 0,
                    row["write_error_tokens"] or 0,
                ),
                row["billed_read_tokens"],
                row["simulated_read_tokens"],
                row["billed_write_tokens"],
                row["simulated_write_tokens"],
            )
            for row in days.to_pylist()
        ),
        tuple(
            Disagreement(
                row["kind"],
                row["request_id"],
                row["model"],
                row["tenant"],
                datetime_us(row["started_at"]),
                row["prompt_tokens"],
                row["billed_tokens"],
                row["simulated_tokens"],
                row["kind_requests"],
                row["kind_tokens"],
            )
            for row in disagreements.to_pylist()
        ),
    )


def policy_value(policy: Policy, *, show_ids: bool) -> document.Policy:
    """Return it for the JSON twin."""
    return {
        "reproduced": policy.error.reproduced,
        "sentence": policy.error.sentence,
        "prompt_tokens": policy.error.prompt_tokens,
        "read_error": significant(policy.error.read),
        "write_error": significant(policy.error.write),
        "by_model_day": [
            {
                "model": day.model,
                "day": day.day,
                "requests": day.requests,
                "prompt_tokens": day.error.prompt_tokens,
                "billed_read_tokens": day.billed_read_tokens,
                "simulated_read_tokens": day.simulated_read_tokens,
                "billed_write_tokens": day.billed_write_tokens,
                "simulated_write_tokens": day.simulated_write_tokens,
                "read_error": significant(day.error.read),
                "write_error": significant(day.error.write),
            }
            for day in policy.days
        ],
        "disagreements": [
            {
                "kind": one.kind,
                "request_id": short_id(one.request_id, show_ids=show_ids),
                "model": one.model,
                "tenant": one.tenant,
                "at": iso(one.at_us),
                "prompt_tokens": one.prompt_tokens,
                "billed_tokens": one.billed_tokens,
                "simulated_tokens": one.simulated_tokens,
                "kind_requests": one.kind_requests,
                "kind_tokens": one.kind_tokens,
            }
            for one in policy.disagreements
        ],
    }
