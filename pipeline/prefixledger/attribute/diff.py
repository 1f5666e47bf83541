"""Finds where two prompts part: by the text of their parts, by the pieces of their contents, and by their keys."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger.attribute.find import find_request
from prefixledger.attribute.prompt_parts import Part, common_bytes, read_parts, read_text, segment_name
from prefixledger.attribute.session import Session
from prefixledger.errors import UsageError
from prefixledger.ids import short_id
from prefixledger.index.load import load
from prefixledger.ingest.text.batch import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.index.load import Index
    from prefixledger.workspace import Workspace

_COLUMNS = (
    "request_id", "started_at", "source_file", "source_line", "source", "namespace", "block_size", "prompt_tokens",
    "content_node", "prompt_complete",
)  # fmt: skip
_SHOWN_BYTES = 160
"""Bytes of each text that are shown behind the place where they part."""
_BEFORE_BYTES = 40


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """Where two prompts part.

    Attributes:
        first_id: The one request; ids are shortened unless they are asked for whole.
        second_id: The other.
        first_tokens: Tokens of the one prompt.
        second_tokens: Tokens of the other.
        basis: What was compared: parts, pieces (of contents) or blocks.
        relation: ``equal``, ``continues`` (the second goes on where the first ends), ``begins`` (the first goes on where the
            second ends) or ``diverges``.
        namespace_fields: Fields of the namespace that differ: keys then differ from the first token on, whatever the text.
        equal_tokens: Tokens from the start that are equal for sure.
        within_tokens: The first difference lies within so many tokens from there; 0 where nothing differs.
        equal_bytes: Bytes of content from the start that are equal for sure; None where the log has no text.
        within_bytes: The first difference lies within so many bytes from there: those of the part that differs, 1 where
            the workspace keeps text, 0 where nothing differs; None where the log has no text.
        segment: Where the difference lies: tool n, system or message n and, if it has several, its content block, all from
            1; None where the log does not say.
        block_size: Tokens per block, 0 where the second request has no keys.
        shared_blocks: Leading blocks that have the same key.
        behind_tokens: Tokens of the second prompt behind ``equal_tokens``.
        lost_tokens: Of these, tokens whose content the first prompt holds too: a stable prefix would have let them hit.
            None where the log has block ids only.
        first_text: Text of the first prompt there; None unless asked for and kept.
        second_text: The same of the second.
        closing: The same in one sentence.
    """

    first_id: str
    second_id: str
    first_tokens: int
    second_tokens: int
    basis: str
    relation: str
    namespace_fields: tuple[str, ...]
    equal_tokens: int
    within_tokens: int
    equal_bytes: int | None
    within_bytes: int | None
    segment: str | None
    block_size: int
    shared_blocks: int
    behind_tokens: int
    lost_tokens: int | None
    first_text: str | None
    second_text: str | None
    closing: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A first difference: everything before ``equal`` is equal, and it lies in the ``within`` tokens behind."""

    basis: str
    relation: str
    equal: int
    within: int
    lost: int | None


def diff(
    workspace: Workspace,
    first_id: str,
    second_id: str,
    *,
    show_text: bool = False,
    show_ids: bool = False,
) -> PromptDiff:
    """Find where two prompts part.

    Args:
        workspace: Holds an index of what was ingested.
        first_id: Id of the earlier request, its beginning or short form, or ``source_file:source_line``.
        second_id: Id of the later one.
        show_text: Whether the texts are told, which the workspace must have kept.
        show_ids: Whether ids are told whole.

    Raises:
        UsageError: There is no index, an id names no request or several, a prompt is not known, or texts were not kept.
    """
    index = load(workspace, columns=list(_COLUMNS), keys=False)
    requests = index.requests.append_column("request_row", pa.array(range(len(index.requests)), pa.int64()))
    with Session() as session:
        session.bind({"requests": requests})
        rows = tuple(
            find_request(session, asked, show_ids=show_ids, name=name)
            for asked, name in ((first_id, "the first ID"), (second_id, "the second ID"))
        )
    one, two = (requests.slice(row, 1).to_pylist()[0] for row in rows)
    shared_blocks = _shared_blocks(index, *rows)
    place = _by_pieces(workspace, one, two) or _by_blocks(one, two, shared_blocks)
    parts = tuple(read_parts(workspace, each) for each in (one, two))
    at_part, place = _by_parts(parts[0], parts[1], place)
    texts, in_bytes = (None, None), _in_bytes(parts, at_part)
    if at_part is not None:
        found = [read_text(workspace, each[at_part]) if at_part < len(each) else b"" for each in parts]
        if None not in found:
            here = common_bytes(found[0] or b"", found[1] or b"")
            in_bytes = None if in_bytes is None else (in_bytes[0] + here, min(1, in_bytes[1]))
            texts = tuple(_excerpt(each or b"", here) for each in found)  # type: ignore[assignment]
    if show_text and place.relation == "diverges" and texts[0] is None:
        raise UsageError(
            "the workspace keeps no text of these prompts",
            hint="read the logs again with --keep-text; without --show-text the place is told",
        )
    return _told(one, two, place, parts, at_part, shared_blocks, in_bytes, texts if show_text else (None, None), show_ids)  # fmt: skip


def _told(
    one: Mapping[str, Any],
    two: Mapping[str, Any],
    place: _Place,
    parts: Sequence[Sequence[Part]],
    at_part: int | None,
    shared_blocks: int,
    in_bytes: tuple[int, int] | None,
    texts: tuple[str | None, str | None],
    show_ids: bool,
) -> PromptDiff:
    fields = _namespace_fields(one["namespace"], two["namespace"])
    behind = max(0, two["prompt_tokens"] - place.equal)
    longer = parts[1] if at_part is not None and at_part < len(parts[1]) else parts[0]
    segment = None if at_part is None else segment_name(longer, at_part)
    return PromptDiff(
        first_id=short_id(one["request_id"], show_ids=show_ids),
        second_id=short_id(two["request_id"], show_ids=show_ids),
        first_tokens=one["prompt_tokens"],
        second_tokens=two["prompt_tokens"],
        basis=place.basis,
        relation=place.relation,
        namespace_fields=fields,
        equal_tokens=place.equal,
        within_tokens=place.within,
        equal_bytes=None if in_bytes is None else in_bytes[0],
        within_bytes=None if in_bytes is None else in_bytes[1],
        segment=segment,
        block_size=two["block_size"],
        shared_blocks=shared_blocks,
        behind_tokens=behind,
        lost_tokens=place.lost,
        first_text=texts[0],
        second_text=texts[1],
        closing=_closing(place, behind, fields, segment),
    )


def _closing(place: _Place, behind: int, fields: tuple[str, ...], segment: str | None) -> str:
    keys = f"; their keys differ from the first token on, because of {', '.join(fields)}" if fields else ""
    if place.relation == "equal":
        return f"the prompts are equal{keys}"
    if place.relation in ("continues", "begins"):
        longer, shorter = ("second", "first") if place.relation == "continues" else ("first", "second")
        return f"the {longer} prompt goes on where the {shorter} ends, at token {place.equal:,}: new text at the tail breaks nothing{keys}"
    where = "" if segment is None else f" in {segment}"
    lost = (
        "how many of them are the first prompt's, too, cannot be told from block ids"
        if place.lost is None
        else f"{place.lost:,} of them stand in the first prompt, too, and would hit behind a stable prefix"
    )
    return (
        f"they part{where} between tokens {place.equal:,} and {place.equal + place.within:,}; {behind:,} tokens of the "
        f"second lie behind, and {lost}{keys}"
    )


def _namespace_fields(one: str, two: str) -> tuple[str, ...]:
    if one == two:
        return ()
    here, there = json.loads(one), json.loads(two)
    return tuple(sorted(name for name in {*here, *there} if here.get(name) != there.get(name)))


def _shared_blocks(index: Index, one: int, two: int) -> int:
    """Return how many leading blocks have one key."""
    last = index.last_block()
    paths = []
    for row in (one, two):
        path, block = [], int(last[row])
        while block >= 0:
            path.append(block)
            block = int(index.forest.parent[block])
        paths.append(path[::-1])
    return _common(*paths)


def _common(one: Sequence[Any], two: Sequence[Any]) -> int:
    return next((n for n, (here, there) in enumerate(zip(one, two, strict=False)) if here != there), min(len(one), len(two)))  # fmt: skip


def _relation(shared: int, first: int, second: int) -> str:
    """Say how two sequences lie to each other of which so many leading members are equal."""
    if shared < min(first, second):
        return "diverges"
    return "equal" if first == second else "continues" if first < second else "begins"


def _by_pieces(workspace: Workspace, one: Mapping[str, Any], two: Mapping[str, Any]) -> _Place | None:
    """Compare the contents piece by piece; None where the log of one does not hold them."""
    paths = [_pieces(workspace, each) for each in (one, two)]
    if not paths[0] or not paths[1]:
        return None
    labels = [[label for label, _ in path] for path in paths]
    shared = _common(*labels)
    ends = [[0, *(end for _, end in path)] for path in paths]
    equal = ends[1][shared]
    relation = _relation(shared, len(labels[0]), len(labels[1]))
    within = ends[1][shared + 1] - equal if shared < len(labels[1]) and relation == "diverges" else 0
    there = Counter(labels[0][shared:])
    lost = 0
    for label, (begin, end) in zip(labels[1][shared:], pairwise(ends[1][shared:]), strict=True):
        if there[label] > 0:
            there[label] -= 1
            lost += end - begin
    return _Place("pieces", relation, equal, within, lost)


def _pieces(workspace: Workspace, request: Mapping[str, Any]) -> list[tuple[tuple[int, int], int]]:
    """Return name and end of every piece of a prompt, from its first to its last."""
    path = workspace.contents / f"{request['source']}.parquet"
    if request["content_node"] is None or not path.is_file():
        return []
    table = pq.read_table(path, columns=["parent", "label_hi", "label_lo", "end_token"])
    parent, node, found = table["parent"].to_numpy(), int(request["content_node"]), []
    while node >= 0:
        found.append(node)
        node = int(parent[node])
    mine = table.take(pa.array(found[::-1], pa.int64()))
    names = zip(mine["label_hi"].to_pylist(), mine["label_lo"].to_pylist(), strict=True)
    return list(zip(names, mine["end_token"].to_pylist(), strict=True))


def _by_blocks(one: Mapping[str, Any], two: Mapping[str, Any], shared: int) -> _Place:
    """Compare keys: all that block ids allow."""
    size = two["block_size"]
    if not size or not one["block_size"]:
        raise UsageError(
            "the log has no keys of one of these prompts, so they cannot be compared",
            hint="usage alone does not say what a prompt was; prefixledger formats --how says which logs do",
        )
    relation = _relation(shared, *(each["prompt_tokens"] // size for each in (one, two)))
    return _Place("blocks", relation, shared * size, size if relation == "diverges" else 0, None)


def _by_parts(one: Sequence[Part], two: Sequence[Part], place: _Place) -> tuple[int | None, _Place]:
    """Name the part in which two prompts differ first; parts say more of where it begins than pieces do."""
    if not one or not two:
        return None, place
    names = [[part.raw_hash for part in each] for each in (one, two)]
    shared = _common(*names)
    relation = _relation(shared, len(one), len(two))
    if relation != "diverges":
        return (None if relation == "equal" else shared), place
    first = two[shared].first_token
    if place.basis == "pieces" and first is not None and first > place.equal:
        within = max(1, place.equal + place.within - first)
        return shared, _Place("parts", "diverges", first, within, place.lost)
    return shared, place


def _in_bytes(parts: Sequence[Sequence[Part]], at_part: int | None) -> tuple[int, int] | None:
    """Return how many bytes are equal before the part that differs, and within how many from there they part.

    None where the log has no text of one of them, or a name in place of a text: that has no length.
    """
    at = len(parts[1]) if at_part is None else at_part
    compared = [part for each in parts for part in each[: at + 1]]
    if not all(parts) or any(not part.n_bytes and part.raw_hash != digest(b"") for part in compared):
        return None
    here = [each[at].n_bytes for each in parts if at < len(each)]
    return sum(part.n_bytes for part in parts[1][:at]), max(here) if len(here) > 1 else 0


def _excerpt(text: bytes, at: int) -> str:
    return text[max(0, at - _BEFORE_BYTES) : at + _SHOWN_BYTES].decode("utf-8", "replace")
