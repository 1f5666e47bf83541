"""Decides, once an input is read to its end, which rows are kept: pairs, clocks, duplicates and ids with two parents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prefixledger.ingest.answers import earliest_of_each, place_untimed, vain_attempts
from prefixledger.ingest.batch import REJECT, ROW, SKIP
from prefixledger.ingest.calendar import date_rows
from prefixledger.ingest.contradictions import contradictions
from prefixledger.ingest.conventions import convention_notes
from prefixledger.ingest.duplicates import count_identical, first_of_each, id_pairs
from prefixledger.ingest.skew import skew_note
from prefixledger.ingest.two_parents import check_parents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.ingest.calendar import Calendar, Dated
    from prefixledger.ingest.clock import ClockReading
    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.duplicates import Seen

KEPT, REJECTED, DUPLICATE, JOINED, SKIPPED = ROW, REJECT, 2, 3, 4
"""Final fate of a record; the first two are what parsing said."""
_ID_SCOPES: Final = ("file", "global")


@dataclass(slots=True)
class Settled:
    """What is to be written of an input.

    Attributes:
        alive: bool[rows], rows that become requests.
        started_us: int64[rows], starts on the axis of the workspace, less the zero of a relative clock.
        node: int64[rows], last full block, -1 for none; of both parts where there are two.
        leader: int64[rows], first row of the request that each row is a piece of; itself where alone.
        fate: uint8[records].
        content_ids: True where ids turned out to name content.
        identical_lines: Kept rows without id whose line equals an earlier one.
        shift_us: int64[rows], what brings every time of a row there.
        dated: Zone, years and facts.
        id_hashes: (hi, lo)[k], ids to remember.
        id_started_us: int64[k], starts of those requests, as ``started_us``.
        prompt_add: int64[rows], what the prompt count of each row lacks: cached tokens that are not part of it.
        notes: Sentences for the report.
        content_node: int64[rows], last piece in ``contents/<source>.parquet``, -1 for none.
    """

    alive: NDArray[np.bool_]
    started_us: NDArray[np.int64]
    shift_us: NDArray[np.int64]
    node: NDArray[np.int64]
    leader: NDArray[np.int64]
    fate: NDArray[np.uint8]
    content_ids: bool
    identical_lines: int
    dated: Dated
    id_hashes: NDArray[np.void]
    id_started_us: NDArray[np.int64]
    prompt_add: NDArray[np.int64]
    notes: list[str]
    content_node: NDArray[np.int64]


_IMPOSSIBLE: Final = "usage that breaks 0 <= cached <= prompt"


class Settling:
    """The arrays of one input, and one method for each decision, in the order in which they must be taken."""

    def __init__(self, collected: Collected, calendar: Calendar) -> None:
        """Take an input that is read to its end.

        Args:
            collected: The input.
            calendar: What is known of its years and zones.

        Raises:
            ValueError: It has times without a year, and neither is known.
        """
        rows = collected.rows
        self.collected = collected
        self.leader = collected.links.leaders()
        self.record = np.array(rows.record, np.int64)
        self.partner = np.array(rows.partner, np.int64)
        is_answer = np.frombuffer(bytes(rows.is_answer), np.bool_)
        self.primary = ~(is_answer & (self.partner >= 0)) & (self.leader == np.arange(self.record.size))
        self.alive = self.primary.copy()
        self.answer = np.where(self.partner >= 0, self.partner, np.arange(self.record.size))
        self.fate = np.array(np.frombuffer(bytes(collected.records.fate), np.uint8))
        self.fate[self.fate >= SKIP] = SKIPPED
        self.fate[self.record[~self.primary]] = JOINED
        ids = id_pairs(rows.id_hash)
        self.has_id = (ids["hi"] | ids["lo"]) != 0
        node = np.array(rows.node, np.int64)
        self.node = np.where(node[self.answer] >= 0, node[self.answer], node)
        with_path = np.flatnonzero(node >= 0)
        self.node[self.leader[with_path]] = self.node[with_path]  # of several pieces the last one is heard
        self.notes: list[str] = []
        self.prompt_add, self._impossible, self._verdicts = collected.conventions.settle()
        self.dated = date_rows(collected, calendar)
        self.shift_us = self.dated.shift_us
        self.started_us = self._starts()
        lines = np.array(collected.records.line, np.int64)
        self.by_record = bool((lines[1:] == lines[:-1]).any())

    def reject(self, row: int, reason: str, excerpt: str) -> None:
        """Reject a row that was taken so far."""
        self.alive[row] = False
        self.fate[self.record[row]] = REJECTED
        self.collected.reject(int(self.record[row]), reason, excerpt)

    def has_length(self) -> NDArray[np.bool_]:
        """Return bool[rows], whether some part of each request says how long its prompt is."""
        known = ~np.frombuffer(bytes(self.collected.rows.no_length), np.bool_)
        known = known | known[self.answer]
        of_request = np.zeros_like(known)
        np.logical_or.at(of_request, self.leader, known)
        return of_request[self.leader]

    def drop_calls_told_twice(self) -> None:
        """Leave out calls around other calls, and what a second integration told of the same call."""
        links = self.collected.links
        outer, inner = links.outer_and_inner(np.flatnonzero(self.alive))
        for rows, reason in (
            (outer, "wrapper of a call that was logged too"),
            (inner, "step inside a logged call"),
        ):
            for row in rows:
                self.alive[row] = False
                self.fate[self.record[row]] = SKIPPED
                self.collected.skip(int(self.record[row]), reason)
        for row in links.twins(self.started_us, self.alive):
            self.alive[row] = False
            self.fate[self.record[row]] = DUPLICATE

    def reject_unreadable(self, reading: ClockReading) -> None:
        """Reject rows without a prompt length, and rows whose time has another unit or zero than the rest."""
        for row in np.flatnonzero(self.alive & ~self.has_length()).tolist():
            self.reject(row, "missing field: prompt tokens", "a request whose end was not logged")
        for row in np.flatnonzero(self.alive & reading.odd).tolist():
            seconds = self.started_us[row] / 1_000_000
            reason = (
                f"mixed time units: the start reads as {seconds:.6g} s since 1970, unlike most of the file"
            )
            self.reject(row, reason, f"a row that starts at {seconds:.6g} s")

    def drop_known_lines(self, seen: Seen) -> None:
        """Mark records of stretches that were read before, whatever else they are."""
        digest = np.array(self.collected.records.digest, np.uint64)
        begins = digest != 0
        if not begins.any():
            return
        known_line = seen.known_lines(digest[begins])
        known = known_line[np.maximum(np.cumsum(begins) - 1, 0)]
        if not known.any():
            return
        dead = self.alive & known[self.record]
        self.alive &= ~dead
        answers = self.partner[self.alive & (self.partner >= 0)]
        known[self.record[answers]] = False  # the second half of a kept row stays one
        self.fate[known] = DUPLICATE
        self.notes.append(
            f"{int(known.sum()):,} records repeat lines that were read before, 1,000 or more in a row"
        )

    def drop_known_ids(
        self, seen: Seen, *, local: bool, fullest: bool, dated: bool = True
    ) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Mark requests whose id was read before; of several in this input the earliest or the fullest stays.

        Returns:
            (hi, lo)[k], ids to remember, none where ids are local to the file; and int64[k], their starts.
        """
        rows = np.flatnonzero(self.alive & self.has_id)
        ids = id_pairs(self.collected.rows.id_hash)[rows]
        if fullest:
            output = np.array(self.collected.rows.output_tokens, np.int64)
            duplicate = ~first_of_each(
                ids, self.started_us[rows], np.maximum(output, output[self.answer])[rows]
            )
            self.started_us[rows] = earliest_of_each(ids, self.started_us[rows])
        else:
            duplicate = ~first_of_each(ids, self.started_us[rows])
        if not local:
            known, there_us = seen.known_calls(ids)
            once = known & ~duplicate
            note = skew_note(self.started_us[rows][once], there_us[once]) if dated else None
            self.notes += [] if note is None else [note]
            duplicate |= known
        for row in rows[duplicate].tolist():
            self.alive[row] = False
            self.fate[self.record[row]] = DUPLICATE
            if self.partner[row] >= 0:
                self.fate[self.record[self.partner[row]]] = DUPLICATE
        pieces = np.flatnonzero(np.isin(self.leader, rows[duplicate]))
        self.fate[self.record[pieces]] = DUPLICATE
        kept = np.flatnonzero(~duplicate) if not local else np.zeros(0, np.int64)
        return ids[kept], self.started_us[rows][kept]

    def drop_attempts(self) -> None:
        """Mark attempts that brought no answer, where another attempt at the same request did."""
        again = vain_attempts(self.collected, self.alive)
        self.alive[again] = False
        self.fate[self.record[again]] = DUPLICATE
        if again.size:
            self.notes.append(
                f"{again.size:,} attempts without an answer were tried again: the answered one counts"
            )

    def settle_prompts(self) -> None:
        """Reject rows whose usage no meaning of the prompt count makes possible; all others get the decided one."""
        for row, reason in self._impossible.items():
            half = not self.primary[row] and self.leader[row] == row
            owner = int(self.partner[row]) if half else int(self.leader[row])
            if self.alive[owner]:
                self.reject(owner, reason, _IMPOSSIBLE)
        self._reject_contradictions()
        self.notes += convention_notes(
            self._verdicts, self.collected.conventions.assumed_ttl, self.collected.conventions.shrunk
        )

    def _reject_contradictions(self) -> None:
        """Reject requests whose records and text together say that more was cached than asked."""
        for row, prompt, cached in contradictions(self.collected, self.leader, self.answer, self.prompt_add):
            if self.alive[row]:
                reason = f"impossible usage: {cached} cached of {prompt} prompt tokens, put together"
                self.reject(row, reason, _IMPOSSIBLE)

    def check_parents(self) -> bool:
        """Reject rows in which an id follows another than elsewhere; return True where ids name content instead."""
        kinds = [namespace.scope in _ID_SCOPES for namespace in self.collected.namespaces.listed()]
        rows = np.flatnonzero(self.alive & (self.node >= 0))
        check = check_parents(self.collected.forest, kinds, rows, self.node[rows])
        what = "record" if self.by_record else "line"
        for conflict in check.conflicts:
            here, there = self._where(conflict.row), self._where(conflict.other_row)
            reason = f"two parents: id {conflict.block_id} follows another id in {what} {here} than in {what} {there}"
            self.reject(conflict.row, reason, "a row whose block ids contradict another row")
        if check.content:
            self.notes.append(
                f"block ids have several parents in {check.n_rows:,} of {rows.size:,} rows: taken as hashes of content"
            )
        return check.content

    def _where(self, row: int) -> int:
        record = int(self.record[row])
        return record + 1 if self.by_record else self.collected.records.line[record]

    def result(
        self, content_ids: bool, id_hashes: NDArray[np.void], id_started_us: NDArray[np.int64]
    ) -> Settled:
        """Return what is to be written."""
        without_id = self.alive & ~self.has_id
        digest = np.array(self.collected.records.digest, np.uint64)[self.record[without_id]]
        return Settled(
            alive=self.alive,
            started_us=self.started_us,
            shift_us=self.shift_us,
            node=self.node,
            leader=self.leader,
            fate=self.fate,
            content_ids=content_ids,
            identical_lines=count_identical(digest[digest != 0]),
            dated=self.dated,
            id_hashes=id_hashes,
            id_started_us=id_started_us,
            prompt_add=self.prompt_add,
            notes=self.notes,
            content_node=np.full(self.record.size, -1, np.int64),
        )

    def _starts(self) -> NDArray[np.int64]:
        """Return the better start of both parts, the earliest of all pieces."""
        started = (
            self.collected.links.begins(np.array(self.collected.rows.started_us, np.int64)) + self.shift_us
        )
        place, note = place_untimed(started, self.collected)
        self.shift_us += place
        started = started + place
        self.notes += [] if note is None else [note]
        rough = np.frombuffer(bytes(self.collected.rows.rough), np.bool_)
        started = started[np.where(rough[self.answer], np.arange(started.size), self.answer)]
        np.minimum.at(started, self.leader, started.copy())
        return started


def settle(
    settling: Settling, reading: ClockReading, seen: Seen, *, local_ids: bool, fullest: bool = False
) -> Settled:
    """Take every decision that needs the whole input.

    Args:
        settling: The input.
        reading: How its times are read.
        seen: What earlier inputs held.
        local_ids: True where request ids mean nothing outside the file.
        fullest: True where of several rows with one id the one with the most output counts.
    """
    settling.drop_calls_told_twice()
    settling.reject_unreadable(reading)
    settling.drop_known_lines(seen)
    dated = reading.clock == "absolute"
    ids, id_starts = settling.drop_known_ids(seen, local=local_ids, fullest=fullest, dated=dated)
    settling.drop_attempts()
    settling.settle_prompts()
    return settling.result(settling.check_parents(), ids, id_starts)
