"""Books an input that was read: settles it, writes it, and draws up its account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prefixledger.errors import UsageError
from prefixledger.ingest.account import InputAccount
from prefixledger.ingest.batch import SKIP
from prefixledger.ingest.block_size import rule_of
from prefixledger.ingest.calendar import Calendar
from prefixledger.ingest.clock import read_clock
from prefixledger.ingest.finish import Naming
from prefixledger.ingest.record_order import order_note
from prefixledger.ingest.sessions import chain_roots, chains
from prefixledger.ingest.settle import DUPLICATE, JOINED, KEPT, REJECTED, SKIPPED, Settled, Settling, settle
from prefixledger.ingest.silence import silence_notes
from prefixledger.ingest.text.finish import make_keys
from prefixledger.ingest.text.write import write_parts
from prefixledger.ingest.times import FIRST_ABSOLUTE_US
from prefixledger.ingest.write import write_paths, write_rejects, write_requests
from prefixledger.ingest.write_contents import write_contents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from prefixledger.ingest.clock import Axis, ClockReading
    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.duplicates import Seen
    from prefixledger.ingest.one_input import Parsed
    from prefixledger.ingest.options import IngestOptions
    from prefixledger.ingest.reader import Clock
    from prefixledger.ingest.text.tools import TextTools
    from prefixledger.workspace import Workspace


def book_input(
    parsed: Parsed,
    workspace: Workspace,
    axis: Axis,
    seen: Seen,
    clock: Clock | None,
    options: IngestOptions,
    tools: TextTools,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> InputAccount:
    """Settle and write an input, and return its account.

    Args:
        parsed: The input.
        workspace: Where it goes.
        axis: Where relative clocks begin.
        seen: What earlier inputs held; this one is added.
        clock: What a map says of its clock.
        options: Choices of the caller.
        tools: How text is cut.
        earlier: ``text_scales`` of the inputs that the workspace holds.

    Raises:
        UsageError: It has a relative clock and nothing says where it lies.
        InternalError: Its account does not close.
    """
    info, collected, source = parsed.detected.reader.info, parsed.collected, parsed.stream.source
    collected.text_keys = make_keys(collected, tools, earlier)
    settling = Settling(collected, _calendar(parsed, options))
    own: Clock = "relative" if info.keys == "as mapped" else info.clock  # a map leaves it to the first times
    if collected.rows.untimed and all(collected.rows.untimed):
        own = "relative"
    reading = read_clock(settling.started_us, clock or "by value", own)
    conversations = bool(collected.timelines)
    zero = axis.zero(source, conversations=conversations) if reading.clock == "relative" else 0
    settled = settle(
        settling, reading, seen, local_ids=info.local_request_ids, fullest=info.repeats == "fullest"
    )
    listed = collected.namespaces.listed()
    naming = Naming(
        source=parsed.source,
        label=source.label,
        namespaces=tuple(namespace.name(parsed.source) for namespace in listed),
        labels=collected.labels.keep(),
        zero_us=zero,
        by_record=settling.by_record,
        sessions=_sessions(collected, chained=info.chained),
    )
    write_paths(workspace, naming, collected, settled)
    collected.contents.add_parts(collected.text)
    if collected.text_keys is not None:
        collected.contents.add_text(collected.text, collected.text_keys)
    write_contents(workspace, naming, collected, settled)
    write_requests(workspace, naming, collected, settled)
    if collected.text_keys is not None:
        write_parts(workspace, naming, collected, settled, collected.text_keys)
    collected.beside.write(workspace, parsed.source, collected.records.line, by_record=settling.by_record)
    rejects = write_rejects(workspace, naming, collected, settled)
    digests = np.array(collected.records.digest, np.uint64)
    seen.add(parsed.source, settled.id_hashes, digests[digests != 0], settled.id_started_us + zero)
    return _account(parsed, settled, naming, reading, rejects)


def _calendar(parsed: Parsed, options: IngestOptions) -> Calendar:
    """Return what is known of years and zones that the log does not write.

    Raises:
        UsageError: Its times have no year, and neither has the input.
    """
    source = parsed.stream.source
    modified_us = parsed.stream.modified_us
    facts = parsed.collected.links.facts
    yearless = any(parsed.collected.rows.yearless) or any(fact.yearless for fact in facts)
    if modified_us is None and options.year is None and yearless:
        raise UsageError(
            "its times have no year, and neither has what comes through a pipe",
            place=source.place,
            hint="say when it begins: --year 2026",
        )
    return Calendar(modified_us, options.year, options.zone)


def _sessions(collected: Collected, *, chained: bool) -> list[str | None] | None:
    """Return sessions by chain: of every row where chains are the sessions of a format, else of rows that have one."""
    if chained:
        return chain_roots(_links(collected))
    return chains(_links(collected)) if collected.parents else None


def _links(collected: Collected) -> list[tuple[str | None, str | None]]:
    n_rows = len(collected.rows.record)
    return collected.parents + [(None, None)] * (n_rows - len(collected.parents))


def _account(
    parsed: Parsed, settled: Settled, naming: Naming, reading: ClockReading, rejects: dict[str, int]
) -> InputAccount:
    collected, stream = parsed.collected, parsed.stream
    by_fate = np.bincount(settled.fate, minlength=5).tolist()
    starts = settled.started_us[settled.alive] + naming.zero_us
    listed = collected.namespaces.listed()
    sizes = {namespace.block_size for namespace in listed} - {0}
    scopes = {namespace.scope for namespace in listed} & {"file", "global"}
    truncated = collected.truncated_at
    if truncated is None and stream.state.fault is not None:
        truncated = stream.bytes
    account = InputAccount(
        path=naming.label,
        source=parsed.source,
        format=parsed.detected.reader.info.name,
        why=parsed.detected.why,
        bytes=stream.bytes,
        records=len(collected.records.fate),
        kept=by_fate[KEPT],
        rejected=by_fate[REJECTED],
        duplicates=by_fate[DUPLICATE],
        joined=by_fate[JOINED],
        skipped=by_fate[SKIPPED],
        reasons=_reasons(collected, settled, rejects),
        truncated_at=truncated,
        identical_lines=settled.identical_lines,
        block_size=sizes.pop() if len(sizes) == 1 else None,
        block_ids=rule_of(collected.fit),
        id_scope=scopes.pop() if len(scopes) == 1 else None,
        clock=reading.clock,
        clock_zero_us=naming.zero_us,
        timelines=len(collected.timelines),
        ids=None if rule_of(collected.fit) is None else "content" if settled.content_ids else "prefix",
        first_at_us=int(starts.min()) if starts.size else None,
        last_at_us=int(starts.max()) if starts.size else None,
        namespaces=tuple(
            {"name": name, "block_size": n.block_size}
            for name, n in zip(naming.namespaces, listed, strict=True)
        ),
        text_scales=()
        if collected.text_keys is None
        else tuple(scale.to_json() for scale in collected.text_keys.scales),
        notes=tuple(_notes(parsed, settled, reading)),
        facts=tuple(settled.dated.facts),
        beside=collected.beside.names,
    )
    account.check()
    return account


def _reasons(collected: Collected, settled: Settled, rejects: dict[str, int]) -> dict[str, int]:
    fates = np.frombuffer(bytes(collected.records.fate), np.uint8)[settled.fate == SKIPPED]
    skips = np.bincount(fates - SKIP, minlength=len(collected.skip_reasons)).tolist()
    return {**rejects, **{reason: n for reason, n in zip(collected.skip_reasons, skips, strict=True) if n}}


def _order_and_sample(collected: Collected, settled: Settled) -> Iterator[str]:
    """Say that records are out of order, that a replica's are missing, or that they stand for others not logged."""
    alive = settled.alive
    spilled = collected.row_spill.table()
    if not collected.timelines:  # of conversations with clocks of their own the order says nothing
        finished = spilled["finished_us"].filter(pa.array(alive))
        ends = None if finished.null_count else finished.to_numpy() + settled.shift_us[alive]
        note = order_note(settled.started_us[alive], ends)
        if note is not None:
            yield note
    if not collected.timelines:
        yield from silence_notes(spilled["replica"].filter(pa.array(alive)), settled.started_us[alive])
    sampled = int((spilled["weight"].to_numpy()[alive] != 1.0).sum())
    if sampled:
        yield (
            f"{sampled:,} of {int(alive.sum()):,} requests stand for a sample: those between them were not logged, and a "
            "replay lacks what they left in the cache"
        )


def _notes(parsed: Parsed, settled: Settled, reading: ClockReading) -> Iterator[str]:
    collected, fault = parsed.collected, parsed.stream.state.fault
    if parsed.detected.reader.info.note is not None:
        yield parsed.detected.reader.info.note
    if fault is not None:
        yield f"the input ends before its end ({fault}): read to its last whole record"
    elif collected.truncated_at is not None:
        yield "the last line has no end: read to the last whole record"
    if collected.timelines:
        yield "conversations bring no common clock: they start 30 s apart in order of name"
    elif reading.clock == "relative":
        told = settled.alive.any() and int(settled.started_us[settled.alive].min()) >= FIRST_ABSOLUTE_US
        yield "times count from the start of the trace" + (
            "" if told else "; dates are shown from 1970-01-01 unless told otherwise"
        )
    facts = collected.links.facts
    if any(collected.rows.local) or any(fact.local for fact in facts):
        yield f"times carry no zone: read as {settled.dated.zone}"
    yield from _order_and_sample(collected, settled)
    if any(collected.rows.yearless) or any(fact.yearless for fact in facts):
        yield f"times carry no year: read as {settled.dated.years}"
    listed = collected.namespaces.listed()
    if listed and all(n.block_size == 0 for n in listed):
        yield "no ids and no text: nothing says which tokens two prompts share, so they cannot be replayed"
    if collected.text_keys is not None:
        yield from collected.text_keys.notes
    yield from settled.notes
