"""Pages of the usage and cost interfaces of OpenAI and Anthropic: totals over many calls, which cannot be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import mapping
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_REASON: Final = "total over many calls, which holds no request"


class UsageTotalsReader:
    """Every bucket is a record, and none is a request."""

    info = FormatInfo(
        name="usage-totals",
        title="usage and cost pages (OpenAI, Anthropic)",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=("nothing of single requests: they are counted, and left out",),
        lacks=("requests: read the log of a gateway, or the bodies of the calls",),
        fields=frozenset(
            {
                "object",
                "data",
                "start_time",
                "end_time",
                "starting_at",
                "ending_at",
                "results",
                "has_more",
                "next_page",
            }
        ),
        note="usage pages are sums over many calls and cannot be replayed: give the log of a gateway, or the calls themselves",
        sample="usage_totals.json",
    )

    def recognise(self, head: Head) -> str | None:
        """Take pages and buckets."""
        named = sum(1 for value in head.values if isinstance(value, dict) and _buckets(value))
        if named == 0 or 2 * named < len(head.values):
            return None
        return f"{named} of the first {len(head.values)} records are usage totals over a time"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Skip every bucket."""
        buckets = _buckets(mapping(value))
        if not buckets:
            raise BadRecordError("no usage total: neither a page nor a bucket")
        yield from (Skip(_REASON) for _ in buckets)


def _buckets(value: Mapping[str, Any]) -> list[Any]:
    if value.get("object") == "bucket" or {"starting_at", "ending_at", "results"} <= value.keys():
        return [value]
    data = value.get("data")
    if isinstance(data, list) and ("has_more" in value or value.get("object") == "page"):
        return [item for item in data if isinstance(item, dict) and _buckets(item)]
    return []
