"""What a log's own word for the end of a call means for the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import integer

if TYPE_CHECKING:
    from prefixledger.ingest.records import Status

_FAILED: Final = frozenset({"error", "errored", "fail", "failed", "failure", "rejected", "denied"})
_CUT: Final = frozenset(
    {"abort", "aborted", "cancel", "cancelled", "canceled", "cut", "disconnected", "interrupted", "timeout"}
)
_CLIENT_CLOSED = 499


def status_of(word: Any, *, produced: bool = True) -> Status:
    """Sort a status, a finish reason or an HTTP code into ok, failed or cut.

    Words that are not known are ok: finish reasons such as ``stop`` or ``tool_calls`` are many, faults are few.

    Args:
        word: Text or number; None means that nothing is said.
        produced: Whether the call made output. A call that was cut before any output may have failed; one that
            failed after some output has been in the cache.
    """
    if isinstance(word, str) and (number := integer(word)) is not None:
        word = number
    if isinstance(word, bool) or word is None:
        return "ok"
    if isinstance(word, int):
        if word == _CLIENT_CLOSED:
            return "cut"
        return "failed" if word >= 400 else "ok"  # noqa: PLR2004  # HTTP
    name = str(word).strip().lower()
    if name in _FAILED:
        return "cut" if produced else "failed"
    return "cut" if name in _CUT else "ok"
