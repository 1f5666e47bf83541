"""OpenInference spans: one a file, one a line, flat columns, or in OTLP exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.llm_spans import FIELDS, KIND, read_spans
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.spans import is_export, is_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_MARKS: Final = (KIND.encode(), b"llm.token_count.", b'"openinference"')


class OpenInferenceReader:
    """Every span is a record; only those of kind LLM are requests."""

    info = FormatInfo(
        name="openinference",
        title="OpenInference spans (Phoenix, Arize, Envoy AI gateway)",
        shape="json",
        also=("table",),
        keys="text",
        clock="absolute",
        id_scope="global",
        answers=("observed hits", "latency", "sessions", "hits and misses from text or logged token ids"),
        lacks=("keys where inputs are masked", "replicas", "streamed calls without usage"),
        fields=FIELDS | {KIND},
        sample="openinference.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take spans with an attribute of the convention."""
        flat = [
            name for name in head.cells if name.startswith("attributes.llm.") or name == f"attributes.{KIND}"
        ]
        if head.columnar is not None:
            return f"it has a column {flat[0]}" if flat else None
        mark = next((mark for mark in _MARKS if mark in head.text), None)
        spans = sum(1 for value in head.values if is_span(value) or is_export(value))
        long = (
            head.document and not head.values and b'"attributes"' in head.text
        )  # too long to be parsed for a look
        if mark is None or 2 * spans < len(head.values) or not (spans or long):
            return None
        return f"its spans have {mark.decode().strip(chr(34))}"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn each span into a row, or skip it."""
        return read_spans(value)
