"""Durations, sizes, counts and times, between what people write and integers with a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from datetime import tzinfo

_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_NUMBER = r"\d[\d_,]*(?:\.\d+)?"
_DURATION = re.compile(rf"({_NUMBER})\s*(us|ms|s|m|h|d)\s*")
_CAPACITY = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)(?:\s+(per gpu))?")
FROM_LOG: Final = "from-log"
"""The capacity that the engine's own log prints; a replay puts the number in its place before it begins."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much KV memory one replica has.

    Attributes:
        amount: Blocks, tokens or bytes; None means unlimited, or not known yet where the unit is ``from-log``.
        unit: What is counted.
        per_gpu: True where ``amount`` is the memory of one GPU of the replica, not of the whole replica.
    """

    amount: int | None
    unit: Literal["blocks", "tokens", "bytes", "from-log"] = "blocks"
    per_gpu: bool = False


def parse_duration_us(text: str) -> int | None:
    """Return microseconds for ``"90s"``, ``"5m"``, ``"1h30m"`` …, or None for ``"none"``.

    Raises:
        UsageError: The text is no duration.
    """
    stripped = text.strip()
    if stripped == "none":
        return None
    if stripped == "0":
        return 0
    total, end = Decimal(0), 0
    for part in _DURATION.finditer(stripped):
        if part.start() != end:
            break
        total += _number(part[1]) * _US[part[2]]
        end = part.end()
    if end == 0 or end != len(stripped) or total != int(total):
        raise UsageError(f"{text!r} is not a duration", hint='write "90s", "5m", "1h", "1h30m" or "none"')
    return int(total)


def format_duration(us: int | None) -> str:
    """Return the shortest text that ``parse_duration_us`` reads back as ``us``."""
    if us is None:
        return "none"
    if us == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, us = divmod(us, _US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_capacity(text: str) -> Capacity:
    """Read ``"60000 blocks"``, ``"1000000 tokens"``, ``"60GiB"``, ``"60GiB per gpu"``, ``"unlimited"`` or ``"from-log"``.

    Raises:
        UsageError: The text is none of these.
    """
    stripped = text.strip()
    if stripped == "unlimited":
        return Capacity(None)
    if stripped == FROM_LOG:
        return Capacity(None, FROM_LOG)
    match = _CAPACITY.fullmatch(stripped)
    if match is not None:
        amount, unit, per_gpu = _number(match[1]), match[2], bool(match[3])
        if unit in ("block", "blocks", "token", "tokens") and not per_gpu and amount == int(amount):
            return Capacity(int(amount), "tokens" if unit.startswith("token") else "blocks")
        if unit in _BYTES:
            return Capacity(int(amount * _BYTES[unit]), "bytes", per_gpu)
    raise UsageError(
        f"{text!r} is not a capacity",
        hint='write "60000 blocks", "1000000 tokens", "60GiB", "60GiB per gpu", "unlimited" or "from-log"',
    )


def parse_bytes(text: str) -> int:
    """Return bytes for ``"512MiB"``, ``"2GB"`` and the like.

    Raises:
        UsageError: The text is no size of memory.
    """
    match = _CAPACITY.fullmatch(text.strip())
    if match is None or match[2] not in _BYTES or match[3]:
        raise UsageError(f"{text!r} is no size of memory", hint='write "512MiB", "2GiB" …')
    return int(_number(match[1]) * _BYTES[match[2]])


def parse_time_us(text: str, zone: tzinfo = UTC) -> int:
    """Return microseconds since 1970 for an ISO 8601 date or time, or for an offset such as ``"+90s"``.

    Args:
        text: ``2026-11-24T10:00:00Z``, ``2026-11-24`` (its midnight) or ``+1h`` (since the zero of a relative clock).
        zone: The zone of a time that names none.

    Raises:
        UsageError: The text is no time.
    """
    stripped = text.strip()
    if stripped.startswith("+"):
        offset = parse_duration_us(stripped[1:])
        if offset is not None:
            return offset
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time",
            hint="write 2026-11-24T10:00:00Z, 2026-11-24, or +90s on a relative clock",
        ) from None
    return datetime_us(moment, zone)


def month_us(text: str, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return the first microsecond of a calendar month, and the first after it.

    Args:
        text: ``2026-11``.
        zone: Where its days begin.

    Raises:
        UsageError: The text is no month.
    """
    try:
        first = datetime.strptime(text.strip(), "%Y-%m").replace(tzinfo=zone)
    except ValueError:
        raise UsageError(f"{text!r} is not a month", hint="write 2026-11") from None
    year, month = divmod(first.year * 12 + first.month, 12)
    return datetime_us(first), datetime_us(first.replace(year=year, month=month + 1))


def datetime_us(moment: datetime, zone: tzinfo = UTC) -> int:
    """Return microseconds since 1970, reading a time without zone in ``zone``."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    return (aware - EPOCH) // timedelta(microseconds=1)


def us_datetime(us: int) -> datetime:
    """Return the UTC time of ``us`` microseconds since 1970."""
    return EPOCH + timedelta(microseconds=us)


def _number(text: str) -> Decimal:
    return Decimal(text.replace("_", "").replace(",", ""))
