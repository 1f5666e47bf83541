"""Numbers, times and names as the report prints them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, overload
from zoneinfo import ZoneInfo

from prefixledger.texts import clean as clean  # noqa: PLC0414  # all that a report prints goes through here
from prefixledger.texts import quiet as quiet  # noqa: PLC0414

if TYPE_CHECKING:
    from prefixledger.report.view import Window

NO_VALUE = "n/a"
"""Printed where there is no value: never 0, never an empty cell."""

_LEAST_SHARE = 0.001
_MINUTE_S = 60
_KIB = 1024
_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def whole(number: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{round(number):,}".replace("-", "\N{MINUS SIGN}")


def count(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is one."""
    return f"{whole(number)} {noun}{'' if number == 1 else 's'}"


def percent(share: float | None) -> str:
    """Return a share as percent; what is not 0 or 100 % never prints as 0 or 100 %."""
    if share is None:
        return NO_VALUE
    if 0 < share < _LEAST_SHARE:
        return "< 0.1 %"
    if 1 - _LEAST_SHARE < share < 1:
        return "> 99.9 %"
    return f"{share * 100:.1f} %".replace("-", "\N{MINUS SIGN}")


def points(share: float) -> str:
    """Return a difference of two shares in percentage points, unsigned."""
    if 0 < abs(share) < _LEAST_SHARE:
        return "< 0.1 points"
    return f"{abs(share) * 100:.1f} points"


def amount(tokens: float) -> str:
    """Return a count of tokens in words short enough for a sentence: ``143 million``."""
    size = abs(tokens)
    for unit, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if size >= unit:
            return f"{tokens / unit:.3g} {name}" if size < 999.5 * unit else f"{tokens / unit:,.0f} {name}"
    return whole(tokens)


def compact(number: float) -> str:
    """Return a number in three digits for a crowded table: ``9.36 M``; the JSON twin and the CSVs have it whole."""
    sign = "\N{MINUS SIGN}" if number < 0 else ""
    size = abs(number)
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= 0.9995 * unit:
            figure = float(f"{size / unit:.3g}")
            return f"{sign}{figure:#.3g} {letter}".replace(". ", " ")
    return f"{sign}{size:.3g}"


def money(value: Decimal | None, currency: str) -> str:
    """Return an amount of money; small ones keep three significant digits."""
    if value is None:
        return NO_VALUE
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    size = abs(value)
    if _is_code(currency):
        symbol = _SYMBOLS.get(currency)
        figure = f"{size:,.2f}" if size >= 1 or not size else f"{Decimal(f'{float(size):.3g}'):f}"
        return f"{sign}{symbol}{figure}" if symbol else f"{sign}{currency} {figure}"
    return f"{sign}{amount(float(size))} {currency}"


def money_cell(value: Decimal | None, currency: str) -> str:
    """Return an amount for a column whose head names the currency; empty where nothing was paid."""
    if not value:
        return ""
    return money(value, currency) if _is_code(currency) else whole(float(value))


def money_compact(value: Decimal | None, currency: str) -> str:
    """Return an amount for a crowded table, with the sign of its currency where it has one."""
    if value is None:
        return NO_VALUE
    if _is_code(currency):
        symbol = _SYMBOLS.get(currency, f"{currency} ")
        return f"{symbol}{compact(float(value))}" if abs(value) >= 1000 else money(value, currency)  # noqa: PLR2004
    return compact(float(value))


def _is_code(currency: str) -> bool:
    return currency.isalpha() and currency.isupper()


def multiplier(value: float | None) -> str:
    """Return a cost multiplier, e.g. ``x0.43``."""
    return NO_VALUE if value is None else f"\N{MULTIPLICATION SIGN}{value:.2f}"


def duration(seconds: float | None) -> str:
    """Return a length of time with at most two units."""
    if seconds is None:
        return NO_VALUE
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.3g} s"
    left, parts = round(seconds), []
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def size(count: float) -> str:
    """Return a number of bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _KIB:
            return f"{count:,.0f} {unit}" if count >= 999.5 else f"{count:.3g} {unit}"  # noqa: PLR2004  # 1e+03
        count /= _KIB
    return f"{count:,.3g} TiB"


def moment(at_us: int | None, window: Window, *, seconds: bool = False) -> str:
    """Return a time in the zone of the report, or the offset from the start where the clock is relative."""
    if at_us is None:
        return NO_VALUE
    if window.relative:
        minutes, second = divmod(at_us // 1_000_000, 60)
        hours, minute = divmod(minutes, 60)
        day, hour = divmod(hours, 24)
        days = f"{day} d " if day else ""
        return f"+{days}{hour:02d}:{minute:02d}" + (f":{second:02d}" if seconds else "")
    local = local_time(at_us, window)
    return (
        f"{local:%a} {local.day} {local:%b %Y %H:%M:%S}"
        if seconds
        else f"{local:%a} {local.day} {local:%b %H:%M}"
    )


def span(from_us: int, to_us: int, window: Window) -> str:
    """Return a stretch of time as a sentence has it; the day is said once where both ends fall on it."""
    begin, end = moment(from_us, window), moment(to_us, window)
    if not window.relative:
        (day, begin_hour), (last, end_hour) = begin.rsplit(" ", 1), end.rsplit(" ", 1)
        if day == last:
            return f"on {day} from {begin_hour} to {end_hour}"
    return f"from {begin} to {end}"


def located(field: str, value: str) -> str:
    """Return where something was, e.g. ``at tenant acme``; the field is left out where the value names it."""
    word, shown = field.replace("_", " "), clean(value, 40)
    return f"at {shown}" if shown.lower().startswith(word.lower()) else f"at {word} {shown}"


def local_time(at_us: int, window: Window) -> dt.datetime:
    """Return a time in the zone of the report; UTC where the clock is relative."""
    zone = dt.UTC if window.relative else ZoneInfo(window.zone)
    return (_EPOCH + dt.timedelta(microseconds=at_us)).astimezone(zone)


@overload
def iso(at_us: int) -> str: ...


@overload
def iso(at_us: int | None) -> str | None: ...


def iso(at_us: int | None) -> str | None:
    """Return a time in UTC as ISO 8601 to the microsecond, for the JSON twin and the CSVs."""
    if at_us is None:
        return None
    at = _EPOCH + dt.timedelta(microseconds=at_us)
    return at.isoformat(timespec="microseconds" if at.microsecond else "seconds").replace("+00:00", "Z")


def significant(value: float | Decimal | None) -> float | int | None:
    """Round to 6 significant digits for the JSON twin; what is not finite becomes None."""
    if value is None or not math.isfinite(value):
        return None
    return finite(value)


def finite(value: float | Decimal) -> float | int:
    """Round to 6 significant digits for the JSON twin where null is no answer.

    Raises:
        ValueError: It is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number for a report")
    rounded = float(f"{float(value):.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
