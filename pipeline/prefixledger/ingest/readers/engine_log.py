"""Logs and metrics of an engine that hold no request: the size of its cache, and when it started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.engine_lines import engine_fact
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Skip
from prefixledger.ingest.text_lines import nominal_us, plain_line
from prefixledger.ingest.times import iso_us

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head

_REASON: Final = "line of an engine's log"
_YEARLESS: Final = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<at>\d\d-\d\d \d\d:\d\d:\d\d) ")
_DATED: Final = re.compile(r"\[?(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)?)")


class EngineLogReader:
    """Every line is a record, and none is a request."""

    info = FormatInfo(
        name="engine-log",
        title="log or metrics of an engine (vLLM, SGLang) without requests",
        shape="text",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=('the size of the cache, for capacity = "from-log"', "starts of the engine"),
        lacks=("requests: give their log as well", "replicas, but for the file name"),
        fields=frozenset(
            {"num_gpu_blocks", "block_size", "max_total_num_tokens", "page_size", "INFO", "version"}
        ),
        sample="engine.log",
    )

    def recognise(self, head: Head) -> str | None:
        """Take text in which some line says how large the cache is, or that the engine started."""
        if head.values:
            return None
        lines = [line for line in head.text.split(b"\n") if line.strip()]
        found = sum(1 for line in lines if engine_fact(plain_line(line).text) is not None)
        if found == 0:
            return None
        return f"{found} of its first {len(lines)} lines tell of the engine's cache or start"

    def read(self, value: Any, context: Context) -> Skip:  # noqa: ARG002
        """Keep what a line says of the engine."""
        held = plain_line(value)
        fact = engine_fact(held.text)
        if fact is None:
            return Skip(_REASON)
        return engine_skip(held.text, held.at_us, fact, _REASON)


def engine_skip(text: str, taken_us: int | None, fact: dict[str, Any], reason: str) -> Skip:
    """Return a line about the engine with its time: its own, else that of the container runtime, else none."""
    yearless, dated = _YEARLESS.search(text), _DATED.match(text)
    try:
        if yearless is not None:
            return Skip(reason, at_us=nominal_us(yearless["at"]), fact=fact, yearless=True)
        if dated is not None:
            at_us, known = iso_us(dated["at"].replace(",", "."), "the time of the line")
            return Skip(reason, at_us=at_us, fact=fact, local_clock=not known)
    except BadRecordError:
        pass  # it looks like a time and is none; what the line says of the engine still holds
    return Skip(reason, at_us=taken_us, fact=fact)
