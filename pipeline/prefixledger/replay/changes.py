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
from prefixledger.replay.contents import KINDS, Contents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

LEAST_TOKENS = 48
"""Tokens that must have been served before to prove anything: three blocks of 16, and pieces of 8 to 64."""
_EDIT_TOKENS = 64
"""New tokens of a change up to which the blocks that it lies in count as lost by it: it has a piece or two on either side,
within which nothing tells the changed tokens from those around them."""
_FINEST = ("time", "uuid", "random", "number", "date")
"""Of several marks that differ the first of these names the change: a time changes with every call, its date does not."""


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
    node, session, tenant, namespace = (
        read_only(column[arrival], np.int64)
        for column in (contents.node, contents.session, contents.tenant, contents.namespace)
    )
    forest = (
        read_only(contents.parent, np.int64),
        read_only(contents.end, np.int64),
        read_only(contents.piece, np.int64),
    )
    new_from = first * size
    reference, continued = kernel.find_references(
        *forest, contents.n_pieces, node, new_from, new, session, tenant, namespace, LEAST_TOKENS
    )
    proven = np.flatnonzero(reference >= 0)
    counts, layers = kernel.align(
        *forest, contents.n_pieces, node[proven], node[reference[proven]], LEAST_TOKENS
    )
    fresh = _fresh(session, new_from, lookup_facts["prompt_tokens"].to_numpy())
    told = _Teller(contents, arrival, reference, continued, new_from, cap, size, fresh)
    rows = [
        row
        for at, number in enumerate(proven.tolist())
        for row in told.of_lookup(number, layers[at, : counts[at]].tolist())
    ]
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


class _Teller:
    """Turns layers of pairs of prompts into rows."""

    def __init__(
        self,
        contents: Contents,
        arrival: NDArray[np.int64],
        reference: NDArray[np.int64],
        continued: NDArray[np.int64],
        new_from: NDArray[np.int64],
        cap: NDArray[np.int64],
        size: NDArray[np.int64],
        fresh: NDArray[np.int64],
    ) -> None:
        self.contents = contents
        self.arrival, self.reference, self.continued = arrival, reference, continued
        self.new_from, self.cap, self.size, self.fresh = new_from, cap, size, fresh

    def of_lookup(self, lookup: int, layers: Sequence[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Yield the changes that cost blocks of one lookup, in order of the prompt."""
        contents, other = self.contents, int(self.reference[lookup])
        here, there = int(self.arrival[lookup]), int(self.arrival[other])
        differs = contents.differs(int(contents.namespace[here]), int(contents.namespace[there]))
        size, floor = int(self.size[lookup]), int(self.new_from[lookup])
        reordered = bool(contents.tools[here] != contents.tools[there]) and bool(
            contents.same_tools[here] == contents.same_tools[there] >= 0
        )
        same_session = bool(contents.session[here] == contents.session[there] >= 0)
        told = 0
        end_before = floor // size
        begins = [layer for number, layer in enumerate(layers) if number or differs is not None]
        if reordered:
            begins = self._tools_as_one(begins)
        for layer in begins:  # without the common beginning, which has one key unless the namespaces differ
            kind = self._kind(layer)
            if layer[kernel.ZONE_END] <= floor or (differs is None and self._at_tail(lookup, layer)):
                continue
            history = (
                kind in ("message", None)
                and same_session
                and (kind == "message" or layer[kernel.AT] >= self.fresh[lookup])
            )
            if history and self._before_trailer(here, layer):
                continue
            tools = reordered and kind == "tools"
            whole = layer[kernel.GAP] <= _EDIT_TOKENS or tools or layer[kernel.MOVED]
            begin = layer[kernel.AT] if whole else layer[kernel.AT] + layer[kernel.GAP]
            begin = floor if begin - floor < size else begin
            first = max(_rounded(begin, size), end_before)
            end = min(_rounded(layer[kernel.ZONE_END], size), int(self.cap[lookup]))
            if first >= end:
                continue
            end_before = end
            yield {
                "lookup": lookup,
                "layer": told,
                "previous": other,
                "part": kind if layer[kernel.GAP] or layer[kernel.GAP_BEFORE] else None,
                "at_token": layer[kernel.AT],
                "new_tokens": layer[kernel.GAP],
                "old_tokens": layer[kernel.GAP_BEFORE],
                "old_prompt_tokens": int(contents.end[contents.node[there]]),
                "differs": None if told else differs,
                "tools_reordered": tools,
                "moved": bool(layer[kernel.MOVED]),
                "in_history": history,
                "first_block": first,
                "end_block": end,
                **self._mark(layer),
            }
            told += 1

    def _at_tail(self, lookup: int, layer: Sequence[int]) -> bool:
        """Return whether all that is known again is new at the tail of a prompt that goes on from one of its session."""
        return 0 < int(self.continued[lookup]) <= layer[kernel.AT] + layer[kernel.GAP]

    def _before_trailer(self, here: int, layer: Sequence[int]) -> bool:
        """Return whether new turns came in front of words that every prompt of the conversation ends in."""
        at_end = layer[kernel.ZONE_END] >= self.contents.end[self.contents.node[here]]
        return (
            bool(at_end)
            and not layer[kernel.MOVED]
            and layer[kernel.GAP] >= max(1, 4 * layer[kernel.GAP_BEFORE])
        )

    def _tools_as_one(self, layers: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """Return the changes with all those in tools that are the same in another order as one."""
        out: list[list[int]] = []
        for layer in layers:
            if out and self._kind(layer) == self._kind(out[-1]) == "tools":
                for field in (kernel.GAP, kernel.GAP_BEFORE, kernel.KEPT):
                    out[-1][field] += layer[field]
                out[-1][kernel.ZONE_END] = layer[kernel.ZONE_END]
                out[-1][kernel.PIECES] = 0
            else:
                out.append(list(layer))
        return list(out)

    def _kind(self, layer: Sequence[int]) -> str | None:
        for field in (kernel.FIRST_NEW, kernel.FIRST_OLD, kernel.NEXT):
            if layer[field] >= 0:
                kind = int(self.contents.kind[layer[field]])
                return KINDS[kind] if kind >= 0 else None
        return None

    def _mark(self, layer: Sequence[int]) -> dict[str, Any]:
        """Return what may change from call to call and did, where the pieces differ in nothing else."""
        contents = self.contents
        nodes = layer[kernel.FIRST_NEW], layer[kernel.FIRST_OLD]
        if layer[kernel.PIECES] != 1 or min(nodes) < 0:
            return self._one_sided(layer)
        new, old = (int(contents.piece[node]) for node in nodes)
        if contents.mask[nodes[0]] != contents.mask[nodes[1]]:
            return {}
        ours, theirs = (_parsed(contents.marks.get(piece, "")) for piece in (new, old))
        pairs = [(one, two) for one, two in zip(ours, theirs, strict=False) if one[3] != two[3]]
        if not pairs:
            return {}
        one, two = min(pairs, key=lambda pair: _FINEST.index(pair[0][0]))
        node = nodes[0]
        begin = layer[kernel.AT]
        tokens, length = int(contents.end[node]) - begin, int(contents.length[node])
        found: dict[str, Any] = {
            "mark": one[0],
            "mark_value": one[3],
            "old_mark_value": two[3],
            "slot": int(contents.mask[node]),
        }
        if length > tokens > 0:  # text: of the piece only what differs was changed
            first, last = pairs[0][0], pairs[-1][0]
            span = last[1] + last[2] - first[1]
            old_span = pairs[-1][1][1] + pairs[-1][1][2] - pairs[0][1][1]
            found["at_token"] = begin + first[1] * tokens // length
            found["new_tokens"] = max(1, round(span * tokens / length))
            found["old_tokens"] = max(1, round(old_span * tokens / length))
        return found

    def _one_sided(self, layer: Sequence[int]) -> dict[str, Any]:
        """Return the same of one piece that came or went as a whole."""
        contents = self.contents
        for ours, theirs, node in (
            (kernel.GAP, kernel.GAP_BEFORE, layer[kernel.FIRST_NEW]),
            (kernel.GAP_BEFORE, kernel.GAP, layer[kernel.FIRST_OLD]),
        ):
            if layer[theirs] or node < 0 or layer[kernel.MOVED]:
                continue
            above = int(contents.parent[node])
            length = int(contents.end[node]) - (int(contents.end[above]) if above >= 0 else 0)
            marks = _parsed(contents.marks.get(int(contents.piece[node]), ""))
            if length == layer[ours] and marks:
                mark = min(marks, key=lambda one: _FINEST.index(one[0]))
                value = "mark_value" if ours == kernel.GAP else "old_mark_value"
                return {"mark": mark[0], value: mark[3], "slot": int(contents.mask[node])}
        return {}


def _parsed(marks: str) -> list[tuple[str, int, int, int]]:
    fields = [mark.split(":") for mark in marks.split(";") if mark]
    return [(kind, int(start), int(length), int(value)) for kind, start, length, value in fields]


def _rounded(token: int, size: int) -> int:
    """Return the first block of which at least half lies behind a token."""
    return (2 * token + size - 1) // (2 * size)
