"""Random small logs for the laws of the replay stage, and the rules of causes in words."""

from __future__ import annotations

from hypothesis import strategies as st

from stage_support import SECOND

RUNGS = ("pooled", "per_replica", "resets", "ttl", "capacity")


@st.composite
def logs(draw, *, ends: bool = False, skips: bool = False):
    """A small log with shared prefixes, ties, aligned prompts, several replicas; block size 2."""
    rows = []
    at = 0
    for _ in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 3))
        head = draw(st.sampled_from([[], [1], [1, 2], [1, 2, 3], [1, 4], [5, 6]]))
        ids = head + [7] * draw(st.integers(0, 2))
        tail = draw(st.integers(0, 1)) if ids else 1
        row = {
            "at_us": at * SECOND,
            "ids": ids,
            "block_size": 2,
            "prompt_tokens": 2 * len(ids) + tail,
            "replica": draw(st.sampled_from(["a", "b", "c"])),
            "output_tokens": draw(st.integers(0, 5)),
        }
        if skips:
            row["bypassed"] = draw(st.sampled_from([False, False, True]))
        if ends:
            row["finished_at"] = (at + draw(st.integers(0, 6))) * SECOND
            row["admitted_at"] = draw(st.none() | st.just((at + draw(st.integers(0, 4))) * SECOND))
            row["first_token_at"] = draw(st.none() | st.just((at + draw(st.integers(0, 5))) * SECOND))
        rows.append(row)
    return rows


def rows_of(files, name):
    """Return the rows of one table of a replay in memory; times as microseconds."""
    table = files[f"{name}.parquet"]
    columns = [
        column.cast("int64") if str(column.type).startswith("timestamp") else column
        for column in table.columns
    ]
    return [
        dict(zip(table.column_names, values, strict=True))
        for values in zip(*(c.to_pylist() for c in columns), strict=True)
    ]


def cause_of(segment, facts, ttl_us):
    """Product rules 2 to 4, in words: cause and whether it was elsewhere."""
    own, other = segment["own_previous"], segment["else_previous"]
    if own is None and other is None:
        return "cold"
    if own is None and segment["resident_replica"] is not None:
        return "elsewhere"
    previous = other if own is None else own
    gap = facts[segment["lookup"]]["admitted_at"] - facts[previous]["admitted_at"]
    if own is None:
        return "elsewhere"
    if segment["own_reset"] is not None:
        return "invalidated"
    return "expired" if ttl_us is not None and gap > ttl_us else "evicted"
