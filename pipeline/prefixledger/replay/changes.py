"""Proves that what a lookup missed under a new key had been served under another, and tells what was changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from prefixledger import schema_contents
from prefixledger.kernels.arrays import read_only
from prefixledger.kernels.paths import climb
from prefixledger.replay import changes_kernel as kernel
from prefixledger.replay.told_changes import LEAST_OWN_TOKENS, LEAST_TOKENS, Teller, in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.contents import Contents

    _Forest = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

_MOST_NAMESPACES = 64
"""Namespaces, those with most lookups first, of which each is searched for a nearer prompt; a search clears all pieces."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What was found; rows of ``schema_contents.CHANGES``, and the blocks that each change cost.

    Attributes:
        table: The changes.
        lookup: int64[c], as in the table.
        first_block: int64[c], first block of the prompt that it cost.
        end_block: int64[c], first block behind those.
    """

    table: pa.Table
    lookup: NDArray[np.int64]
    first_block: NDArray[np.int64]
    end_block: NDArray[np.int64]


def find_changes(
    contents: Contents, facts: pa.Table, lookup_facts: pa.Table, arrival: NDArray[np.int64]
) -> Changes:
    """Look for the content of every missed block that nobody had asked for before.

    Args:
        contents: What prompts are made of, lookups in order of arrival.
        facts: ``schema.SEGMENT_FACTS`` of all lookups.
        lookup_facts: ``schema.LOOKUP_FACTS``, in order of admission.
        arrival: int64[m], place of each lookup in the order of arrival, in order of admission.
    """
    size = lookup_facts["block_size"].to_numpy().astype(np.int64)
    cap = lookup_facts["cap_blocks"].to_numpy()
    first = np.array(cap)
    unseen = _unseen(facts)
    lookup, block = facts["lookup"].to_numpy()[unseen], facts["first_block"].to_numpy()[unseen]
    np.minimum.at(first, lookup, block)
    new = np.zeros(first.size, np.bool_)
    new[lookup[block < cap[lookup]]] = True
    streams = tuple(
        read_only(column[arrival], np.int64)
        for column in (contents.node, contents.session, contents.tenant, contents.namespace)
    )
    node, session, tenant, namespace = streams
    forest = (
        read_only(contents.parent, np.int64),
        read_only(contents.end, np.int64),
        read_only(contents.piece, np.int64),
    )
    new_from = first * size
    reference, own, continued = _references(
        contents, forest, (node, new_from, read_only(new, np.bool_), session, tenant, namespace)
    )
    prompt = lookup_facts["prompt_tokens"].to_numpy()
    told = Teller(
        contents, arrival, continued, new_from, cap, size, _fresh(session, new_from, prompt), prompt
    )
    near, far = (_told(told, forest, contents, streams, chosen) for chosen in (own, reference))
    return _stored(
        [
            row
            for lookup in sorted({*near, *far})
            for row in in_order(near.get(lookup, ()), far.get(lookup, ()))
        ]
    )


def _told(
    told: Teller,
    forest: _Forest,
    contents: Contents,
    streams: tuple[NDArray[np.int64], ...],
    reference: NDArray[np.int64],
) -> dict[int, list[dict[str, Any]]]:
    """Return the changes that cost blocks, by lookup, each set beside the other that is named for it, -1 for none."""
    proven = np.flatnonzero(reference >= 0)
    others = reference[proven]
    node, session, _, namespace = streams
    least = _least(session, namespace, proven, others)
    kind = read_only(contents.kind, np.int8)
    counts, layers = kernel.align(
        *forest, kind, contents.n_pieces, node[proven], node[others], least, contents.blocks_from
    )
    pairs = zip(proven.tolist(), others.tolist(), layers, counts, strict=True)
    return {
        lookup: list(told.of_lookup(lookup, other, found[:count].tolist()))
        for lookup, other, found, count in pairs
    }


def _stored(rows: list[dict[str, Any]]) -> Changes:
    """Return changes as they are kept, and apart from them the blocks that each cost."""
    contract = schema_contents.CHANGES.arrow()
    blocks = np.array(
        [(row["lookup"], row.pop("first_block"), row.pop("end_block")) for row in rows], np.int64
    )
    table = pa.Table.from_pylist([{"change": at, **row} for at, row in enumerate(rows)], schema=contract)
    blocks = blocks.reshape(-1, 3)
    return Changes(table, blocks[:, 0], blocks[:, 1], blocks[:, 2])


def with_changes(facts: pa.Table, changes: Changes, parent: NDArray[np.int64]) -> pa.Table:
    """Cut the facts of blocks that nobody had asked for where a change begins or ends, and name the change of each.

    Args:
        facts: ``schema.SEGMENT_FACTS``.
        changes: What was found.
        parent: int64[blocks], the forest of blocks.
    """
    if not changes.lookup.size:
        return facts
    lookups, first = facts["lookup"].to_numpy(), facts["first_block"].to_numpy()
    n_blocks, last = facts["n_blocks"].to_numpy(), facts["last_block"].to_numpy()
    touched = np.flatnonzero(_unseen(facts) & np.isin(lookups, changes.lookup))
    bounds = np.searchsorted(changes.lookup, [lookups[touched], lookups[touched] + 1]).tolist()
    row_of, begin, end, change = [], [], [], []
    for row, low, high in zip(touched.tolist(), *bounds, strict=True):
        at, stop = int(first[row]), int(first[row] + n_blocks[row])
        for number in range(low, high):
            own_begin = max(int(changes.first_block[number]), at)
            own_end = min(int(changes.end_block[number]), stop)
            if own_begin >= own_end:
                continue
            for piece in ((at, own_begin, -1), (own_begin, own_end, number)):
                if piece[0] < piece[1]:
                    row_of.append(row)
                    begin.append(piece[0])
                    end.append(piece[1])
                    change.append(piece[2])
            at = own_end
        if at < stop:
            row_of.append(row)
            begin.append(at)
            end.append(stop)
            change.append(-1)
    rest = np.setdiff1d(np.arange(len(facts)), touched)
    source = np.concatenate([rest, np.array(row_of, np.int64)]).astype(np.int64)
    begins = np.concatenate([first[rest], np.array(begin, np.int64)])
    ends = np.concatenate([(first + n_blocks)[rest], np.array(end, np.int64)])
    numbers = np.concatenate([np.full(rest.size, -1), np.array(change, np.int64)]).astype(np.int64)
    order = np.lexsort((begins, lookups[source]))
    source, begins, ends, numbers = source[order], begins[order], ends[order], numbers[order]
    steps = (first + n_blocks)[source] - ends
    table = facts.take(pa.array(source))
    columns = {
        "first_block": begins,
        "n_blocks": ends - begins,
        "last_block": climb(parent, last[source].astype(np.int64), steps.astype(np.int64)),
        "change": pa.array(numbers, mask=numbers < 0),
    }
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values).cast(field.type))
    return table


def _references(
    contents: Contents, forest: _Forest, lookups: tuple[NDArray[Any], ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return both of ``kernel.find_references``, and between them one of the same namespace where the first is of another.

    Only the last that had a piece is known, and that may be one of another model while the same model had it before. Where that
    one served nearly as much it stands for both; else it tells what would have been there, and the first what could not.
    """

    def searched(columns: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.int64], ...]:
        node, new_from, new, session, tenant, namespace = columns
        return kernel.find_references(  # type: ignore[no-any-return]
            *forest,
            contents.n_pieces,
            node,
            new_from,
            new,
            session,
            tenant,
            namespace,
            LEAST_TOKENS,
            LEAST_OWN_TOKENS,
        )

    found, served, continued = searched(lookups)
    beside = np.full(found.size, -1, np.int64)
    namespace = lookups[-1]
    model = contents.model_codes()[namespace]
    for group in (namespace, model):
        asks = np.flatnonzero((found >= 0) & (group != group[np.maximum(found, 0)]))
        numbers, counts = np.unique(group[asks], return_counts=True)
        for number in numbers[np.argsort(-counts, kind="stable")][:_MOST_NAMESPACES].tolist():
            own = np.flatnonzero(group == number)
            alone = tuple(read_only(column[own], column.dtype.type) for column in lookups)
            other, tokens, _ = searched(alone)
            known = (other >= 0) & (group[found[own]] != number)
            better = known & (10 * tokens >= 9 * served[own])
            found[own[better]] = own[other[better]]
            if group is namespace:
                fewer = known & ~better
                beside[own[fewer]] = own[other[fewer]]
    beside[namespace[found] == namespace] = -1
    return found, beside, continued


def _least(
    session: NDArray[np.int64],
    namespace: NDArray[np.int64],
    lookup: NDArray[np.int64],
    reference: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return int64[k], tokens that each lookup must have in common with its reference behind a change."""
    own = (session[lookup] == session[reference]) & (session[lookup] >= 0)
    own &= namespace[lookup] == namespace[reference]
    return read_only(np.where(own, LEAST_OWN_TOKENS, LEAST_TOKENS), np.int64)


def _unseen(facts: pa.Table) -> NDArray[np.bool_]:
    """Return bool[s], missed segments whose key nobody had asked for, and that no rule of the cache forbids to hit."""
    absent = [
        facts[name].is_null().to_numpy()
        for name in ("own_previous", "else_previous", "resident_replica", "rule")
    ]
    return np.asarray(np.logical_and.reduce([~facts["hit"].to_numpy(), *absent]))


def _fresh(
    session: NDArray[np.int64], new_from: NDArray[np.int64], prompt: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64[m], token from which the first prompt of each lookup's session was its own; its end if all of it was."""
    fresh = np.full(session.max(initial=-1) + 2, -1, np.int64)
    known, first = np.unique(session, return_index=True)
    fresh[known] = np.where(new_from[first] > 0, np.minimum(new_from[first], prompt[first]), prompt[first])
    return np.where(session >= 0, fresh[session], -1)
