"""Azure LLM inference traces: time and lengths of each request, and nothing that says what was shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import mapping
from prefixledger.ingest.plan import FieldPlan, MapPlan
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.readers.mapped import mapped_row

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Row

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_PLAN: Final = MapPlan(
    times=(("started_at", FieldPlan("TIMESTAMP")),),
    texts=(),
    counts=(("prompt_tokens", FieldPlan("ContextTokens")), ("output_tokens", FieldPlan("GeneratedTokens"))),
)


class AzureLengthsReader:
    """One request a CSV row; the 2025 files also count images."""

    info = FormatInfo(
        name="azure-lengths",
        title="Azure LLM inference trace CSV",
        shape="csv",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=("arrivals and lengths",),
        lacks=(
            "hits and misses: without ids or text nothing says what was shared",
            "observed hits",
            "latency",
        ),
        fields=frozenset({*_COLUMNS, "NumImages"}),
        sample="azure_lengths.csv",
    )

    def recognise(self, head: Head) -> str | None:
        """Take files under the published header."""
        if not set(_COLUMNS) <= set(head.cells):
            return None
        return f"its header has {', '.join(_COLUMNS)}"

    def read(self, value: Any, context: Context) -> Row:  # noqa: ARG002
        """Turn one CSV row into one row without keys."""
        return mapped_row(mapping(value), _PLAN)
