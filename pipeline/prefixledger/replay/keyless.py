"""The replay of a log without any key: nobody asks a simulated cache, and the books rest on what was observed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger import schema, schema_contents, schema_curves
from prefixledger.replay.notes import count_others, unreplayed_notes
from prefixledger.replay.summary import ReplaySummary

if TYPE_CHECKING:
    import pyarrow as pa

    from prefixledger.replay.lookups import Log

_FILES = {
    "lookup_facts": schema.LOOKUP_FACTS,
    "facts": schema.SEGMENT_FACTS,
    "changes": schema_contents.CHANGES,
    "removals": schema.REMOVALS,
    "events": schema.EVENTS,
    "replicas": schema.REPLICAS,
    "held": schema_curves.HELD,
    "draws": schema_curves.DRAWS,
    "warmups": schema.WARMUPS,
    "ladder": schema_curves.LADDER,
    "shared": schema.SHARED,
    "lookup_shared": schema.LOOKUP_SHARED,
    "capacity_curve": schema_curves.CAPACITY_CURVE,
    "capacity_marks": schema_curves.CAPACITY_MARKS,
    "curve_surface": schema_curves.CURVE_SURFACE,
    "curve_parts": schema_curves.CURVE_PARTS,
    "reuse": schema_curves.REUSE,
    "gaps": schema_curves.GAPS,
    "ttl_curve": schema_curves.TTL_CURVE,
}
NOTE = (
    "no row carries block hashes, token ids or text: nothing was replayed, hits are those that the log reports, and what "
    "it did not hit has a cause only where usage and time prove one"
)


def keyless(name: str, log: Log) -> tuple[dict[str, pa.Table], ReplaySummary]:
    """Return the files of a replay that nobody took part in, and its summary.

    Args:
        name: Name of the scenario.
        log: Rows of which some carry usage and none a key.
    """
    failed, unkeyed = count_others(log)
    notes = [*unreplayed_notes(log)] or [NOTE]
    if failed:
        notes.append(f"{failed} failed calls never reached a cache and are no lookups")
    found = ReplaySummary(
        name=name,
        folder=Path(),
        digest="",
        reused=False,
        lookups=0,
        failed=failed,
        unkeyed=unkeyed,
        prompt_tokens=0,
        hit_tokens=0,
        ideal_hit_tokens=0,
        pools=(),
        notes=tuple(notes),
    )
    return {f"{file}.parquet": table.arrow().empty_table() for file, table in _FILES.items()}, found
