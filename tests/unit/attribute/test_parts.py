"""A replay is attributed part by part: the same bytes however it is cut, and nothing lost at a cut."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import NAME, Facts, at
from prefixledger import attribute, workspace
from prefixledger.attribute import inputs, parts
from prefixledger.attribute.run import OUTPUTS
from prefixledger.errors import InternalError

FILES = [f"{table.name}.parquet" for table in OUTPUTS]
TIME = pa.timestamp("us", tz="UTC")


def _log() -> Facts:
    """Forty lookups, rows with usage alone among them, two at one moment, and some that waited past their neighbours."""
    log = Facts(replicas=("r0", "r1"))
    lookups: list[int] = []
    for n in range(40):
        usage = {"usage_state": "present", "cached_tokens_observed": 10 * (n % 3)} if n % 4 == 0 else {}
        lookup = log.lookup(10 * n, 45, replica=n % 2, **usage)
        if len(lookups) > 1:
            log.piece(lookup, 0, 2, hit=True, own_previous=lookups[-2])
            log.piece(
                lookup, 2, 2, own_previous=lookups[0], removed_by=lookups[-1], removed_at=at(10 * n - 5)
            )
        else:
            log.piece(lookup, 0, 4)
        lookups.append(lookup)
        if n % 3 == 0:
            late = {"admitted_at": at(10 * n + 75)} if n % 9 == 3 else {}
            log.request(
                10 * n + (0 if n % 6 else 3), 100, keyed=False, block_size=0, usage_state="present",
                cached_tokens_observed=40, session_id="s", provider="p", model="m", client="c", **late,
            )  # fmt: skip
        if n % 10 == 9:
            log.request(10 * n + 4, 100, status="failed")
    return log


def _written(root: Path, log: Facts, monkeypatch: pytest.MonkeyPatch, number: int | None) -> dict[str, bytes]:
    monkeypatch.setattr(inputs, "load", log.load)
    place = log.write(root)
    attribute.run(place, NAME, parts=number)
    return {file: (place.replay(NAME) / file).read_bytes() for file in FILES}


def test_the_same_bytes_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part, two and seven; groups of rows end where they would have ended."""
    monkeypatch.setattr(workspace, "_GROUP_ROWS", 11)
    found = [_written(tmp_path / str(n), _log(), monkeypatch, n) for n in (1, 2, 7)]
    assert all(each == found[0] for each in found)
    groups = pq.ParquetFile(tmp_path / "7" / "replays" / NAME / "segments.parquet").metadata
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups - 1)] == [11] * (
        groups.num_row_groups - 1
    )
    lookups = pq.read_table(tmp_path / "7" / "replays" / NAME / "lookups.parquet").to_pylist()
    assert {row["conversation"] for row in lookups if row["lookup"] is None} == {"q1"}


def test_a_part_that_is_lost_or_there_twice_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums over the parts are held against the log, and no book is written."""
    cut, run = parts.parts_of, sys.modules[attribute.run.__module__]
    for number, change in enumerate((lambda found: found[:1], lambda found: [found[0], found[0]])):
        monkeypatch.setattr(
            run, "parts_of", lambda whole, found, change=change: iter(change(list(cut(whole, found))))
        )
        with pytest.raises(InternalError, match="parts_close"):
            _written(tmp_path / str(number), _log(), monkeypatch, 2)
        left = {path.name for path in (tmp_path / str(number) / "replays" / NAME).iterdir()}
        assert not left & set(FILES)
        assert not any(name.startswith(".") for name in left)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 9), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 9),
)
def test_parts_in_a_row_are_in_the_order_of_every_file(
    rows: list[tuple[int, int, bool]], number: int
) -> None:
    """Of lookups, of the observed book and of segments, whatever waited how long."""
    started = np.cumsum([step for step, _, _ in rows])
    keyed = np.flatnonzero([has for _, _, has in rows])
    at_us = started + [max(0, wait) for _, wait, _ in rows]
    request_row = keyed[np.lexsort((-keyed, at_us[keyed]))]
    logged = pa.array(at_us, mask=np.asarray([has or wait < 0 for _, wait, has in rows]))
    whole = parts.Whole(
        folder=Path(),
        requests=pa.table({"started_at": pa.array(started).cast(TIME), "admitted_at": logged.cast(TIME)}),
        lookups=pa.table(
            {"request_row": request_row, "admitted_at": pa.array(at_us[request_row]).cast(TIME)}
        ),
        pieces=np.ones(keyed.size, np.int64),
        changed=pa.table({}),
        turns=pa.table({}),
        opener_row=np.empty(0, np.int64),
        key=np.empty((0, 2), np.uint64),
        small={},
    )
    lookup = {int(row): n for n, row in enumerate(request_row)}
    found = parts.cuts(whole, number)
    assert len(found) <= number
    orders = (
        lambda row: (at_us[row], lookup.get(row, len(rows)), row),
        lambda row: (at_us[row], row),
        lambda row: (lookup.get(row, len(rows)), row),
    )
    for order, of in zip(orders, (lambda _: True, lambda _: True, lookup.__contains__), strict=True):
        mine = [[row for row in cut.rows.tolist() if of(row)] for cut in found]
        assert [row for each in mine for row in sorted(each, key=order)] == sorted(chain(*mine), key=order)
    alone = [row for cut in found for row in cut.rows.tolist() if row not in lookup]
    assert alone == [row for row in range(len(rows)) if row not in lookup]
    ends = [0, *(cut.end_lookup for cut in found)]
    for first, end, cut in zip(ends, ends[1:], found, strict=False):
        assert sorted(lookup[row] for row in cut.rows.tolist() if row in lookup) == list(range(first, end))
