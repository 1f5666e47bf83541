"""Finds the fields of the envelope that split a log into a few groups."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import MAX_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MIN_VALUES: Final = 2
MAX_VALUES: Final = 50
_MAX_NAMES: Final = 200
"""Candidates that are followed at all; an object with generated keys must not fill the memory."""
_CONFIDENTIAL: Final = re.compile(
    r"""(?:\w+[_.-])?(?:end[_.-]?)?user(?:[_.-]?(?:id|name|key|hash|login))?   # who called
    | (?:\w+[_.-])?(?:uid|e-?mail(?:[_.-]?address)?|phone(?:[_.-]?number)?|login|ssn|ip(?:[_.-]?address)?)
    | .*(?:api[_.-]?key|authorization|passw(?:or)?d|secret|credential|cookie|bearer|(?:access|auth|session|id)[_.-]?token).*
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Names of fields that say who called or open a door: equal values stay equal, and none is shown."""
_PERSON: Final = b"prefixledger uid"


class LabelTally:
    """Counts the values of candidate fields, of each up to one more than a label may take."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}

    def add(self, rows: Iterable[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
        """Count rows and return what of them may become a label, as pairs in order of name."""
        return [self._pairs(extras) if extras else [] for extras in rows]

    def keep(self) -> frozenset[str]:
        """Return the names that took 2 to 50 values."""
        return frozenset(n for n, values in self._values.items() if MIN_VALUES <= len(values) <= MAX_VALUES)

    def _pairs(self, extras: Mapping[str, Any]) -> list[tuple[str, str]]:
        pairs = []
        for name, value in sorted(extras.items()):
            values = self._values.get(name)
            if values is None:
                if len(self._values) == _MAX_NAMES or len(name) > MAX_LABEL:
                    continue
                values = self._values[name] = set()
            if len(values) <= MAX_VALUES:
                text = _label_text(name, value)
                values.add(text)
                pairs.append((name, text))
        return pairs


def user_key(value: str) -> str:
    """Return what stands for a user id: equal for equal ids, and not the id."""
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8, person=_PERSON).hexdigest()


def _label_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return user_key(str(value)) if _CONFIDENTIAL.fullmatch(name) else str(value)
