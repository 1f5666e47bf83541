"""Local times without a zone: what to take off them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUARTER_US: Final = 15 * 60 * 1_000_000
"""No zone changes its offset within a quarter of an hour."""


def check_zone(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {name!r}", hint='write "UTC", "Europe/Berlin" …') from error


def zone_offsets(local_us: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    """Return local time less UTC of each local time; the first of two hours of one name, as clocks are set back.

    Args:
        local_us: int64[n], local times counted as if they were UTC.
        name: The zone.

    Example:
        >>> zone_offsets(np.array([0, 15_638_400_000_000]), "Europe/London") // 3_600_000_000
        array([1, 1])
    """
    zone = check_zone(name)
    quarter, where = np.unique(local_us // _QUARTER_US, return_inverse=True)
    moments = (datetime.fromtimestamp(int(at) * 900, UTC).replace(tzinfo=zone) for at in quarter.tolist())
    offsets = [round((moment.utcoffset() or moment - moment).total_seconds() * 1e6) for moment in moments]
    return np.array(offsets, np.int64)[where]


def zone_text(zone_us: int) -> str:
    """Return a fixed difference from UTC in words.

    Example:
        >>> zone_text(0), zone_text(7_200_000_000), zone_text(-12_600_000_000)
        ('UTC', 'UTC+02:00', 'UTC-03:30')
    """
    if zone_us == 0:
        return "UTC"
    minutes = abs(zone_us) // 60_000_000
    return f"UTC{'+' if zone_us > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}"
