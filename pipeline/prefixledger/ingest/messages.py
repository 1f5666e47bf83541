"""Sentences about an ingest: what inputs were taken for, what became of their records, and whether it is too bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prefixledger.ingest.account import NoRequestError, TooManyRejectsError
from prefixledger.ingest.options import reject_limit
from prefixledger.ingest.record_order import OUT_OF_ORDER

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
        # How far records are out of order is a number of its own for each input.
        same = tuple(note for note in account.notes if OUT_OF_ORDER not in note)
        groups.setdefault((what, same), []).append(account)
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
        moved = [note for account in accounts for note in account.notes if OUT_OF_ORDER in note]
        if len(accounts) == 1:
            yield from (f"{name}: {note}" for note in moved)
        elif moved:
            yield f"{name}: {len(moved):,} of them hold records {OUT_OF_ORDER}, read in order of time; see the manifest"


def check_rejects(summary: IngestSummary, options: IngestOptions) -> None:
    """Refuse a call that rejected too much, or kept nothing.

    Raises:
        TooManyRejectsError: It did.
        NoRequestError: No record was bad, and none is a request.
    """
    limit = reject_limit(options.max_rejects, summary.records)
    kept = sum(account.kept for account in summary.inputs)
    if summary.rejected > limit:
        message = f"{summary.rejected:,} of {summary.records:,} records were rejected, more than {limit:,}"
    elif kept == 0 and summary.rejected and not any(account.duplicates for account in summary.inputs):
        message = f"no record could be used: {summary.rejected:,} of {summary.records:,} were rejected"
    else:
        _check_requests(summary, kept)
        return
    raise TooManyRejectsError(
        message, summary=summary, hint=f"{_reasons(summary)}; see rejects/ in the workspace, or --max-rejects"
    )


def _check_requests(summary: IngestSummary, kept: int) -> None:
    if kept or not summary.records or any(account.duplicates for account in summary.inputs):
        return
    if any(account.facts or account.beside for account in summary.inputs):
        return  # what engines say of themselves stands beside the requests of another call
    told = {note: None for account in summary.inputs for note in account.notes}
    hint = "; ".join(told) or "give the log of the requests themselves"
    message = f"none of {summary.records:,} records is a request: {_reasons(summary)}"
    raise NoRequestError(message, summary=summary, hint=hint)


def _reasons(summary: IngestSummary) -> str:
    counts: dict[str, int] = {}
    for account in summary.inputs:
        for reason, count in account.reasons.items():
            counts[reason] = counts.get(reason, 0) + count
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_NAMED]
    return ", ".join(f"{reason} ({count:,})" for reason, count in worst)
