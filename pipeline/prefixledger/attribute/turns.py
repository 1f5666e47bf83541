"""Facts for rows with usage and no keys: what the same conversation had stored before, and for how long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.attribute.threads import Thread, Threads, Turn, tolerance
from prefixledger.attribute.usage_rules import UsageRules, usage_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.config.scenario import Scenario

SCHEMA = pa.schema(
    [
        ("request_row", pa.int64()),
        ("thread", pa.int64()),
        ("opening", pa.string()),
        ("previous_row", pa.int64()),
        ("last_used_at", pa.timestamp("us", tz="UTC")),
        ("gap_us", pa.int64()),
        ("stored_tokens", pa.int64()),
        ("alive_tokens", pa.int64()),
        ("asked_tokens", pa.int64()),
        ("tolerance_tokens", pa.int64()),
        ("minimum_tokens", pa.int64()),
        ("longest_ttl_us", pa.int64()),
        ("counts_writes", pa.bool_()),
        ("warming_up", pa.bool_()),
    ]
)
"""One row for each row that has usage and asks no cache in the replay, in order of arrival.

thread: number of its conversation. opening: null where it goes on with one; ``first`` of its session or caller, ``branch``
beside a conversation that goes on afterwards, ``doubt`` where an earlier one might have been meant. previous_row: the
request it goes on from; of an opening that read something the latest known to hold as much. gap_us: start to start, since
what was stored was last used. stored_tokens: the longest prefix that the conversation had stored, alive_tokens: the
longest whose lifetime may not have been over. asked_tokens: the prompt before. minimum_tokens, and longest_ttl_us, the
longest lifetime that can be had: null where not known.
"""

_5M_US, _1H_US = 300_000_000, 3_600_000_000
_MOST_WARM_UP = 5
_LATEST = 64
_BATCH_ROWS = 50_000
_COLUMNS = (
    "request_row", "started_at", "finished_at", "provider", "model", "client", "tenant", "session_id", "pool",
    "prompt_tokens", "cached_tokens_observed", "cache_write_5m_tokens_observed", "cache_write_1h_tokens_observed",
    "cache_write_other_tokens_observed", "usage_state",
)  # fmt: skip


def turns(requests: pa.Table, lookup_facts: pa.Table, scenario: Scenario) -> pa.Table:
    """Find the conversations of rows with usage again, and say what each had stored before each request.

    Args:
        requests: All rows in order of arrival, as ``inputs.with_pools`` gives them, with session_id and finished_at.
        lookup_facts: Column request_row: the rows that are replayed need no such facts.
        scenario: Its pools may give lifetimes and minimums.
    """
    replayed = pc.is_in(requests["request_row"], value_set=lookup_facts["request_row"].combine_chunks())
    served = pc.not_equal(requests["status"], "failed")
    alone = pc.and_(pc.and_(pc.equal(requests["usage_state"], "present"), served), pc.invert(replayed))
    if not pc.any(alone).as_py():
        return SCHEMA.empty_table()
    table = requests.select(_COLUMNS).append_column("alone", alone).filter(served)
    for name in ("started_at", "finished_at"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    return _Reader(scenario, table).read()


@dataclass(slots=True)
class _Reader:
    scenario: Scenario
    table: pa.Table
    groups: dict[tuple[Any, ...], Threads] = field(default_factory=dict)
    n_threads: int = 0
    latest: dict[tuple[Any, ...], deque[Thread]] = field(default_factory=dict)
    rules: dict[tuple[Any, ...], UsageRules] = field(default_factory=dict)

    def read(self) -> pa.Table:
        longest = self._longest_written()
        ends = pc.min_max(self.table["started_at"]).as_py()
        warm_us = ends["min"] + min(_1H_US, (ends["max"] - ends["min"]) // _MOST_WARM_UP)
        # Facts leave as Arrow, batch by batch; how each began can change to the end, and is kept apart.
        done: list[pa.RecordBatch] = []
        openings: list[str | None] = []
        beside: list[tuple[int, int, list[Thread]]] = []
        for batch in self._batches():
            facts: list[dict[str, Any]] = []
            for row in batch:
                group = self._group(row)
                if row["usage_state"] != "present":
                    group.touch(row["started_at"])
                    continue
                turn = self._turn(row, longest)
                chosen, doubtful = group.choose(turn)
                fact, opening = self._fact(row, turn, chosen), None
                if chosen is None:
                    older = list(group.open)
                    # Whoever reads what nobody in the log has stored may have begun before it.
                    doubtful |= (
                        row["session_id"] is None and turn.read_tokens > 0 and "previous_row" not in fact
                    )
                    opening = "doubt" if doubtful else "branch" if older else "first"
                    chosen = group.begin(turn, self.n_threads)
                    self.n_threads += 1
                    if opening == "branch" and row["alone"]:
                        beside.append((len(openings), turn.at_us, older))
                chosen.take(turn)
                self._remember(row, chosen)
                if row["alone"]:
                    openings.append(opening)
                    facts.append({**fact, "thread": chosen.number, "warming_up": turn.at_us < warm_us})
            done.append(pa.RecordBatch.from_pylist(facts, schema=SCHEMA))
        # Where none of the others goes on, the new one may be one of them, rewritten: that is no proof of a beginning.
        for at, began_us, older in beside:
            if not any(thread.last_us > began_us for thread in older):
                openings[at] = "doubt"
        found = pa.Table.from_batches(done, schema=SCHEMA)
        at = SCHEMA.get_field_index("opening")
        return found.set_column(at, SCHEMA.field(at), pa.array(openings, pa.string()))

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield rows in order of arrival, so many at a time that a long log does not stand in memory as objects."""
        for batch in self.table.to_batches(max_chunksize=_BATCH_ROWS):
            yield batch.to_pylist()

    def _group(self, row: dict[str, Any]) -> Threads:
        caller = (row["session_id"],) if row["session_id"] is not None else (None, row["client"])
        key = (row["provider"], row["model"], row["tenant"], *caller)
        if key not in self.groups:
            self.groups[key] = Threads(named=row["session_id"] is not None)
        return self.groups[key]

    def _longest_written(self) -> dict[tuple[Any, ...], int]:
        """Return the longest lifetime that each caller is seen to write with: its reads are of such entries."""
        found: dict[tuple[Any, ...], int] = {}
        for batch in self._batches():
            for row in batch:
                for tokens, ttl_us in _written(row, None):
                    if tokens and ttl_us is not None:
                        caller = _caller(row)
                        found[caller] = max(ttl_us, found.get(caller, 0))
        return found

    def _turn(self, row: dict[str, Any], longest: dict[tuple[Any, ...], int]) -> Turn:
        rules = self._rules(row)
        written = tuple(_written(row, rules.other_ttl_us))
        return Turn(
            row=row["request_row"],
            at_us=row["started_at"],
            finished_us=row["finished_at"],
            prompt_tokens=row["prompt_tokens"],
            read_tokens=row["cached_tokens_observed"],
            written=written,
            counted=_counts(row),
            unknown_ttl_us=longest.get(_caller(row), rules.longest_ttl_us),
        )

    def _rules(self, row: dict[str, Any]) -> UsageRules:
        key = (row["pool"], row["provider"], row["model"], row["started_at"] // 86_400_000_000)
        if key not in self.rules:
            self.rules[key] = usage_rules(self.scenario, *key[:3], row["started_at"])
        return self.rules[key]

    def _fact(self, row: dict[str, Any], turn: Turn, thread: Thread | None) -> dict[str, Any]:
        fact: dict[str, Any] = {
            "request_row": turn.row,
            "stored_tokens": 0,
            "alive_tokens": 0,
            "asked_tokens": 0,
            "tolerance_tokens": tolerance(turn.read_tokens),
            "minimum_tokens": self._rules(row).minimum_tokens,
            "longest_ttl_us": self._rules(row).longest_ttl_us,
            "counts_writes": turn.counted,
        }
        if thread is None:
            held = self._holder(row, turn)
            return fact if held is None else {**fact, "previous_row": held}
        alive = [entry.end for entry in thread.entries if entry.may_live(turn.at_us)]
        used_us = thread.entries[-1].used_us if thread.entries else thread.last_us
        return {
            **fact,
            "previous_row": thread.row,
            "last_used_at": used_us,
            "gap_us": turn.at_us - used_us,
            "stored_tokens": thread.stored_tokens,
            "alive_tokens": max(alive, default=0),
            "asked_tokens": thread.prompt_tokens,
            "tolerance_tokens": tolerance(thread.stored_tokens),
        }

    def _holder(self, row: dict[str, Any], turn: Turn) -> int | None:
        """Return the latest request of the model that had stored as much as an opening read."""
        if not turn.read_tokens:
            return None
        least = turn.read_tokens - tolerance(turn.read_tokens)
        known = self.latest.get((row["provider"], row["model"], row["tenant"]), ())
        return next((thread.row for thread in reversed(known) if thread.stored_tokens >= least), None)

    def _remember(self, row: dict[str, Any], thread: Thread) -> None:
        key = (row["provider"], row["model"], row["tenant"])
        known = self.latest.setdefault(key, deque(maxlen=_LATEST))
        if thread not in known:
            known.append(thread)


def _caller(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["provider"], row["model"], row["tenant"], row["client"])


def _counts(row: dict[str, Any]) -> bool:
    return any(row[f"cache_write_{ttl}_tokens_observed"] is not None for ttl in ("5m", "1h", "other"))


def _written(row: dict[str, Any], other_ttl_us: int | None) -> Iterator[tuple[int, int | None]]:
    """Yield written tokens and their lifetime in the order in which they lie in a prompt: the longest first."""
    yield row["cache_write_1h_tokens_observed"] or 0, _1H_US
    yield row["cache_write_other_tokens_observed"] or 0, other_ttl_us
    yield row["cache_write_5m_tokens_observed"] or 0, _5M_US
