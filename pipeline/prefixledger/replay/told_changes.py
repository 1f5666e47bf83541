"""Turns what was found between two prompts into changes that cost blocks; what is innocent is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefixledger.replay import changes_kernel as kernel
from prefixledger.replay.contents import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from prefixledger.replay.contents import Contents

LEAST_TOKENS = 48
"""Tokens that must have been served before to prove anything: three blocks of 16, and pieces of 8 to 64."""
LEAST_OWN_TOKENS = 32
"""The same between turns of one session, which have most in common anyway: a short question behind what was rewritten."""
_FINEST = ("time", "uuid", "random", "number", "date")
"""Of several marks that differ the first of these names the change: a time changes with every call, its date does not."""


class Teller:
    """Turns layers of pairs of prompts into rows."""

    def __init__(
        self,
        contents: Contents,
        arrival: NDArray[np.int64],
        continued: NDArray[np.int64],
        new_from: NDArray[np.int64],
        cap: NDArray[np.int64],
        size: NDArray[np.int64],
        fresh: NDArray[np.int64],
        prompt: NDArray[np.int64],
    ) -> None:
        self.contents = contents
        self.arrival, self.continued = arrival, continued
        self.new_from, self.cap, self.size, self.fresh, self.prompt = new_from, cap, size, fresh, prompt

    def of_lookup(self, lookup: int, other: int, layers: Sequence[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Yield the changes that cost blocks of one lookup, set beside another, in order of the prompt."""
        contents = self.contents
        here, there = int(self.arrival[lookup]), int(self.arrival[other])
        differs = contents.differs(int(contents.namespace[here]), int(contents.namespace[there]))
        size, floor = int(self.size[lookup]), int(self.new_from[lookup])
        reordered = bool(contents.tools[here] != contents.tools[there]) and bool(
            contents.same_tools[here] == contents.same_tools[there] >= 0
        )
        same_session = bool(contents.session[here] == contents.session[there] >= 0)
        end_before = floor // size
        if differs is None and self._rendered_anew(lookup, layers[0]):
            differs = "template"
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
                and (kind == "message" or self._behind_first_turn(lookup, layer))
            )
            if history and self._before_trailer(here, layer):
                continue
            tools = reordered and kind == "tools"
            exact = layer[kernel.NEXT] >= contents.blocks_from
            whole = (layer[kernel.LEAD] <= kernel.EDIT_TOKENS and not exact) or tools
            begin = layer[kernel.AT] if whole else layer[kernel.AT] + layer[kernel.LEAD]
            begin = floor if begin - floor < size else begin
            first = max(_rounded(begin, size), end_before)
            end = min(_rounded(layer[kernel.ZONE_END], size), int(self.cap[lookup]))
            if first >= end:
                continue
            end_before = end
            yield {
                "lookup": lookup,
                "previous": other,
                "part": kind if layer[kernel.GAP] or layer[kernel.GAP_BEFORE] else None,
                "at_token": layer[kernel.AT],
                "new_tokens": layer[kernel.GAP],
                "old_tokens": layer[kernel.GAP_BEFORE],
                "old_prompt_tokens": int(contents.end[contents.node[there]]),
                "differs": differs,
                "tools_reordered": tools,
                "moved": bool(layer[kernel.MOVED]),
                "in_history": history,
                "first_block": first,
                "end_block": end,
                **self._mark(layer),
            }

    def _rendered_anew(self, lookup: int, layer: Sequence[int]) -> bool:
        """Return whether parts that were logged beside the keys begin as they did before, and the keys do not.

        Of text and token ids the keys are made of, so that equal ones have equal keys. Parts that do not add up to the prompt
        leave out what may have changed.
        """
        contents, node, floor = self.contents, layer[kernel.NEXT], int(self.new_from[lookup])
        if (
            node < 0
            or contents.kind[node] < 0
            or layer[kernel.ZONE_END] - floor < max(LEAST_TOKENS, 2 * int(self.size[lookup]))
        ):
            return False
        above = int(contents.parent[node])
        length = int(contents.end[node]) - (int(contents.end[above]) if above >= 0 else 0)
        whole = int(contents.end[contents.node[int(self.arrival[lookup])]])
        return int(contents.length[node]) == length and 10 * whole >= 9 * int(self.prompt[lookup])

    def _behind_first_turn(self, lookup: int, layer: Sequence[int]) -> bool:
        """Return whether a change reaches into what later turns of its session brought; where the log names no parts."""
        reach = 0 if layer[kernel.MOVED] else max(layer[kernel.GAP_BEFORE] - 1, 0)
        return bool(layer[kernel.AT] + reach >= self.fresh[lookup] >= 0)

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
            return self._one_sided(layer)
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
        """Return the same of one piece that came or went as a whole, or that stands where nothing looks as if it may change."""
        contents = self.contents
        if layer[kernel.GAP] and layer[kernel.GAP_BEFORE]:
            return self._first_shown(layer)
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

    def _first_shown(self, layer: Sequence[int]) -> dict[str, Any]:
        """Return the same of the first prompt with a stamp beside the last one without, or the other way round."""
        contents, begin, last = self.contents, layer[kernel.FIRST_NEW], layer[kernel.FIRST_OLD]
        if min(begin, last) < 0 or layer[kernel.GAP] > kernel.EDIT_TOKENS or layer[kernel.MOVED]:
            return {}
        nodes, node = [], int(contents.parent[layer[kernel.NEXT]])
        while node >= begin:  # a piece lies behind all before it
            nodes.append(node)
            node = int(contents.parent[node])
        new, old = (
            [(mark, at) for at in side for mark in _parsed(contents.marks.get(int(contents.piece[at]), ""))]
            for side in (nodes, [last])
        )
        if bool(new) == bool(old):
            return {}
        mark, at = min(new or old, key=lambda one: _FINEST.index(one[0][0]))
        name = "mark_value" if new else "old_mark_value"
        return {"mark": mark[0], name: mark[3], "slot": int(contents.mask[at])}


def in_order(near: Iterable[dict[str, Any]], far: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the changes of a prompt beside one of its own namespace, and beside one of another, in one order.

    What its own namespace had would have been there but for the change. Of the rest no cache of the namespace had anything,
    whatever else was changed in it: the first of that is charged to the namespace.
    """
    known, rest = _first_differs(near), []
    for row in far:
        begins = [row["first_block"], *(taken["end_block"] for taken in known)]
        ends = [*(taken["first_block"] for taken in known), row["end_block"]]
        rest += [
            {**row, "first_block": max(begin, begins[0]), "end_block": min(end, ends[-1])}
            for begin, end in zip(begins, ends, strict=True)
            if max(begin, begins[0]) < min(end, ends[-1])
        ]
    told = sorted([*known, *_first_differs(rest)], key=lambda row: row["first_block"])
    return [{**row, "layer": layer} for layer, row in enumerate(told)]


def _first_differs(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes of which the first is charged to what differs between both prompts as a whole, if anything does."""
    return [{**row, "differs": None if at else row["differs"]} for at, row in enumerate(rows)]


def _parsed(marks: str) -> list[tuple[str, int, int, int]]:
    fields = [mark.split(":") for mark in marks.split(";") if mark]
    return [(kind, int(start), int(length), int(value)) for kind, start, length, value in fields]


def _rounded(token: int, size: int) -> int:
    """Return the first block of which at least half lies behind a token."""
    return (2 * token + size - 1) // (2 * size)
