"""Sentences about an ingest: what inputs were taken for, what became of their records, and whether it is too bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prefixledger.ingest.account import TooManyRejectsError
from prefixledger.ingest.options import reject_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prefixledger.ingest.account import IngestSummary, InputAccount
    from prefixledger.ingest.detect import Detected
    from prefixledger.ingest.options import IngestOptions

_MAX_NAMED: Final = 5


def detected_as(account: InputAccount, detected: Detected) -> str:
    """Say what an input was taken for."""
    what = f"{account.format} ({account.why})"
    if account.block_size is not None:
        what += f", {account.block_size} tokens a block ({detected.size_origin})"
    if account.block_ids is not None:
        scope = "ids mean the same everywhere" if account.id_scope == "global" else "ids local to the file"
        what += f", {account.block_ids}, {scope}"
    return f"{what}, {account.clock} clock"


def summed_up(said: Sequence[tuple[InputAccount, str]]) -> Iterator[str]:
    """Say what inputs were and what became of their records; many alike in one sentence."""
    groups: dict[tuple[str, tuple[str, ...]], list[InputAccount]] = {}
    for account, what in said:
        groups.setdefault((what, account.notes), []).append(account)
    for (what, notes), accounts in groups.items():
        name = accounts[0].path
        if len(accounts) > 1:
            name = f"{len(accounts):,} inputs from {name} to {accounts[-1].path}"
        fates = [("kept", sum(account.kept for account in accounts))]
        for fate in ("rejected", "duplicates", "joined", "skipped"):
            count = sum(getattr(account, fate) for account in accounts)
            fates += [(fate, count)] if count else []
        records = sum(account.records for account in accounts)
        yield f"{name}: {what}"
        yield f"{name}: {records:,} records, " + ", ".join(f"{count:,} {fate}" for fate, count in fates)
        yield from (f"{name}: {note}" for note in notes)


def check_rejects(summary: IngestSummary, options: IngestOptions) -> None:
    """Refuse a call that rejected too much, or kept nothing.

    Raises:
        TooManyRejectsError: It did.
    """
    limit = reject_limit(options.max_rejects, summary.records)
    kept = sum(account.kept for account in summary.inputs)
    if summary.rejected > limit:
        message = f"{summary.rejected:,} of {summary.records:,} records were rejected, more than {limit:,}"
    elif kept == 0 and summary.rejected and not any(account.duplicates for account in summary.inputs):
        message = f"no record could be used: {summary.rejected:,} of {summary.records:,} were rejected"
    else:
        return
    counts: dict[str, int] = {}
    for account in summary.inputs:
        for reason, count in account.reasons.items():
            counts[reason] = counts.get(reason, 0) + count
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_NAMED]
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in worst)
    raise TooManyRejectsError(
        message, summary=summary, hint=f"{reasons}; see rejects/ in the workspace, or --max-rejects"
    )
