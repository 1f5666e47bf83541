"""A log with lookups that nobody made: calls that keep a prefix alive, and the sessions of a larger traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.replay.lookups import NO_TIME, Log, Lookups, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prefixledger.index.load import Forest
    from prefixledger.replay.contents import Contents

_TIMES = ("admitted_us", "first_token_us", "finished_us")
_CONTENTS = ("session", "tenant", "namespace", "tools", "same_tools")


@dataclass(frozen=True, slots=True)
class Added:
    """Lookups to be added, each like one of the log.

    Attributes:
        like: int64[k], lookup that each is like: who asks, which model, which cache.
        shift_us: int64[k], how much later it comes.
        last_block: int64[k], last full block.
        n_blocks: int64[k], blocks down to it.
        prompt_tokens: int64[k].
        names: What stands behind the ids of request and session.
        calls: Whether they are calls without output that nobody waits for; else they run as long as what they are like.
    """

    like: NDArray[np.int64]
    shift_us: NDArray[np.int64]
    last_block: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    names: Sequence[str]
    calls: bool


@dataclass(frozen=True, slots=True)
class LongerLog:
    """A log with added lookups.

    Attributes:
        log: All of them.
        logged: int64[m], place of each lookup that was logged.
        added: int64[k], place of each that was not.
    """

    log: Log
    logged: NDArray[np.int64]
    added: NDArray[np.int64]


def with_lookups(log: Log, added: Added, forest: Forest | None = None) -> LongerLog:
    """Return a log with more lookups, all in order of arrival; a logged one stands before an added one of the same time.

    Args:
        log: The log.
        added: What is added.
        forest: With the blocks of what is added; None: that of the log has them.
    """
    known, count = log.lookups, len(log.rows.started_us)
    m, k = len(known), added.like.size
    row_order = np.argsort(np.concatenate([log.rows.started_us, _started(log, added)]), kind="stable")
    row_place = np.empty(row_order.size, np.int64)
    row_place[row_order] = np.arange(row_order.size)
    columns = _lookup_columns(known, added)
    columns["request_row"] = row_place[np.concatenate([known.request_row, count + np.arange(k)])]
    order = np.argsort(columns["request_row"], kind="stable")
    place = np.empty(m + k, np.int64)
    place[order] = np.arange(m + k)
    rows = Rows(
        table=pa.concat_tables([log.rows.table, _rows(log, added)]).take(pa.array(row_order)),
        started_us=np.concatenate([log.rows.started_us, _started(log, added)])[row_order],
        is_lookup=np.concatenate([log.rows.is_lookup, np.ones(k, np.bool_)])[row_order],
    )
    longer = replace(
        log,
        rows=rows,
        lookups=Lookups(**{name: column[order] for name, column in columns.items()}),
        forest=log.forest if forest is None else forest,
        conversation=None if log.conversation is None else _conversations(log, added)[row_order],
        contents=_contents(log, added, order),
    )
    return LongerLog(longer, place[:m], place[m:])


def _started(log: Log, added: Added) -> NDArray[np.int64]:
    return log.lookups.started_us[added.like] + added.shift_us


def _lookup_columns(known: Lookups, added: Added) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in Lookups.__dataclass_fields__:
        more = getattr(known, name)[added.like]
        if name == "started_us":
            more = more + added.shift_us
        elif name in _TIMES:
            more = np.where((more == NO_TIME) | added.calls, NO_TIME, more + added.shift_us)
        elif name in ("last_block", "n_blocks", "prompt_tokens"):
            more = getattr(added, name)
        elif name == "output_tokens" and added.calls:
            more = np.zeros_like(more)
        columns[name] = np.concatenate([getattr(known, name), more])
    return columns


def _rows(log: Log, added: Added) -> pa.Table:
    """Return the rows of what is added; their lines are none of the log, so that no part of a prompt is theirs."""
    table = log.rows.table.take(pa.array(log.lookups.request_row[added.like]))
    k = added.like.size
    tail = pa.array(added.names, pa.string())
    values = {
        "request_id": pc.binary_join_element_wise(table["request_id"], tail, " "),
        "session_id": pc.binary_join_element_wise(table["session_id"], tail, " "),
        "source_line": pa.array(np.arange(k) + (1 << 40), pa.int64()),
        "started_at": _started(log, added),
        "n_blocks": added.n_blocks,
        "last_block": np.where(added.n_blocks > 0, added.last_block, 0),
        "prompt_tokens": added.prompt_tokens,
        "usage_state": pa.repeat("absent", k),  # no service answered them
    }
    if added.calls:
        values["output_tokens"] = np.zeros(k, np.int64)
    for name in table.column_names:
        given = values.get(name)
        if name.endswith("_observed") or (name in ("admitted_at", "first_token_at", "finished_at")):
            given = pa.nulls(k, table.schema.field(name).type)
        if given is not None:
            column = pa.array(given) if isinstance(given, np.ndarray) else given
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), column.cast(table.schema.field(at).type))
    return table


def _conversations(log: Log, added: Added) -> NDArray[np.int64]:
    assert log.conversation is not None
    more = log.conversation[log.lookups.request_row[added.like]]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(added.names), start=1)}
    copy = np.asarray([numbers[name] for name in added.names], np.int64)
    several = int(log.conversation.max(initial=-1)) + 1
    return np.concatenate([log.conversation, np.where(more < 0, -1, more + several * copy)])


def _contents(log: Log, added: Added, order: NDArray[np.int64]) -> Contents | None:
    """Return what prompts are made of; of what is added it is not said, so that nothing is taken for changed."""
    known = log.contents
    if known is None:
        return None
    node = np.concatenate([known.node, np.full(added.like.size, -1)])[order]
    rest: dict[str, Any] = {
        name: np.concatenate([column, column[added.like]])[order]
        for name in _CONTENTS
        for column in (getattr(known, name),)
    }
    return replace(known, node=node, **rest)
