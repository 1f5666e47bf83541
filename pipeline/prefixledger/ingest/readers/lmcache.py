"""LMCache agent traces: the flattened text of every prompt, one session a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import mapping, maybe_text, required, wrong_type
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Row, Skip
from prefixledger.ingest.time_units import stamp_us

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_FIELDS: Final = frozenset({"timestamp", "input", "output", "session_id"})


class LMCacheReader:
    """One request a line; times are microseconds in some traces and seconds in others, the same in all of a file."""

    info = FormatInfo(
        name="lmcache",
        title="LMCache agent trace",
        shape="json",
        keys="text",
        clock="absolute",
        id_scope="global",
        time_field="timestamp",
        answers=("hits and misses of any simulated cache, from text", "sessions"),
        lacks=(
            "token counts: without a tokenizer they are estimated",
            "observed hits",
            "models",
            "replicas",
            "latency",
        ),
        fields=_FIELDS,
        sample="lmcache.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take records with exactly these four fields."""
        fit = sum(
            1
            for v in head.values
            if isinstance(v, dict) and v.keys() == _FIELDS and isinstance(v["input"], str)
        )
        if fit == 0 or 2 * fit < len(head.values):
            return None
        return f"{fit} of the first {head.lines} records have exactly timestamp, input, output, session_id"

    def read(self, value: Any, context: Context) -> Outcome:
        """Turn one line into one row."""
        record = mapping(value)
        prompt, answer = required(record, "input"), record.get("output")
        if not isinstance(prompt, str):
            raise wrong_type("input", prompt, "text")
        if answer is not None and not isinstance(answer, str):
            raise wrong_type("output", answer, "text")
        started_us = _time(required(record, "timestamp"), context)
        if not prompt:
            return Skip("call whose prompt was not logged")
        return Row(
            started_us=started_us,
            prompt_tokens=None,
            session_id=maybe_text(record, "session_id"),
            text_parts=text_parts({"prompt": prompt}),
        )


def _time(value: Any, context: Context) -> int:
    """Return a start; a number that is a date in another unit than most of the file is a fault, and no other unit."""
    if isinstance(value, str):
        raise BadRecordError("wrong type: timestamp is text, not a number")
    return stamp_us(value, "timestamp", context.time_unit)[0]
