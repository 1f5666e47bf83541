"""A log with its prompts laid out anew: what varies at their end, or one namespace in place of several; keys follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.kernels.arrays import read_only
from prefixledger.replay.contents import KINDS
from prefixledger.replay.layout_kernel import mark_above, name_pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.replay.contents import Contents
    from prefixledger.replay.lookups import Log

_HEADS = (KINDS.index("tools"), KINDS.index("system"))
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Layout:
    """The pieces of all prompts if late ones stood behind all others.

    Attributes:
        name: uint64[n], name of the pieces before and up to each that are not late.
        end: int64[n], tokens of these.
        late_name: uint64[n], name of the late ones up to each.
        late_tokens: int64[n], tokens of these.
    """

    name: NDArray[np.uint64]
    end: NDArray[np.int64]
    late_name: NDArray[np.uint64]
    late_tokens: NDArray[np.int64]


def varying(contents: Contents) -> NDArray[np.bool_]:
    """Return bool[n]: pieces of tools and system prompts that are the same but for what changes from call to call."""
    pairs = np.unique(np.stack([contents.mask, contents.piece]), axis=1)
    mask, count = np.unique(pairs[0], return_counts=True)
    several = np.isin(contents.mask, mask[count > 1])
    found: NDArray[np.bool_] = several & (contents.mask != contents.piece) & np.isin(contents.kind, _HEADS)
    return found


def lay_out(contents: Contents, late: NDArray[np.bool_]) -> Layout:
    """Name the pieces of all prompts anew.

    Args:
        contents: What prompts are made of.
        late: bool[n], pieces that are to stand at the end.
    """
    n = contents.parent.size
    layout = Layout(
        np.empty(n, np.uint64), np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.int64)
    )
    name_pieces(
        read_only(contents.parent, np.int64),
        read_only(contents.end, np.int64),
        read_only(contents.piece, np.int64),
        read_only(late, np.bool_),
        layout.name,
        layout.end,
        layout.late_name,
        layout.late_tokens,
    )
    return layout


def laid_out(log: Log, layout: Layout, namespace: NDArray[np.int64], mine: NDArray[np.bool_]) -> Log | None:
    """Return a log in which keys follow from the contents of prompts.

    All that is late in a prompt counts as one piece: prompts that share a part of it are not taken to share its blocks.

    Args:
        log: A log that says what its prompts are made of.
        layout: Where their pieces stand.
        namespace: int64[m], prompts share keys within one number of these alone.
        mine: bool[m], lookups that are laid out, all with known contents; others keep their keys.

    Returns:
        None where contents are longer than prompts, so that their tokens were counted in another way.
    """
    contents, lookups = log.contents, log.lookups
    assert contents is not None
    last, blocks = lookups.last_block.copy(), lookups.n_blocks.copy()
    parts, base = [log.forest.parent], len(log.forest.parent)
    groups = np.unique(np.stack([namespace[mine], lookups.block_size[mine]]), axis=1).T.tolist()
    for number, block_size in groups:
        own = np.flatnonzero(mine & (namespace == number) & (lookups.block_size == block_size))
        parent, last[own], blocks[own] = _planted(contents, layout, contents.node[own], block_size, base)
        parts.append(parent)
        base += parent.size
    if (blocks * lookups.block_size > lookups.prompt_tokens).any():
        return None
    forest, added = log.forest, base - len(log.forest.parent)
    key = np.zeros((added, 2), np.uint64)
    key[:, 0] = np.arange(1, added + 1, dtype=np.uint64) * _ODD
    key[:, 1] = (key[:, 0] ^ (key[:, 0] >> np.uint64(29))) * _ODD
    return replace(
        log,
        forest=replace(
            forest,
            parent=np.concatenate(parts),
            key=np.concatenate([forest.key, key]),
            namespace=np.concatenate([forest.namespace, np.zeros(added, np.int32)]),
            first_seen_us=np.concatenate([forest.first_seen_us, np.zeros(added, np.int64)]),
        ),
        lookups=replace(lookups, last_block=last, n_blocks=blocks),
    )


def _planted(
    contents: Contents, layout: Layout, node: NDArray[np.int64], block_size: int, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the parents of the blocks of some prompts, and the last block and the number of blocks of each prompt.

    A block belongs to the piece that its last token lies in.

    Args:
        contents: What prompts are made of.
        layout: Where pieces stand.
        node: int64[k], last piece of each prompt.
        block_size: Tokens per block.
        base: Number of the first of these blocks.
    """
    used = np.zeros(contents.parent.size, np.bool_)
    used[node] = True
    mark_above(read_only(contents.parent, np.int64), used)
    some = np.flatnonzero(used)
    above = contents.parent[some]
    tails = np.unique(node[layout.late_tokens[node] > 0])
    tail_name = _tail_name(layout, tails)
    name = np.concatenate([layout.name[some], tail_name])
    up = np.concatenate([np.where(above >= 0, layout.name[above], 0), layout.name[tails]]).astype(np.uint64)
    start = np.concatenate([np.where(above >= 0, layout.end[above], 0), layout.end[tails]])
    end = np.concatenate([layout.end[some], layout.end[tails] + layout.late_tokens[tails]])
    keep = np.flatnonzero(end > start)
    _, first = np.unique(name[keep], return_index=True)
    keep = keep[first]
    keep = keep[np.lexsort((name[keep], end[keep]))]  # what stands before a piece ends before it does
    name, up, start, end = name[keep], up[keep], start[keep], end[keep]
    by_name = np.argsort(name)

    def place(names: NDArray[np.uint64]) -> NDArray[np.int64]:
        if not name.size:
            return np.full(names.size, -1, np.int64)
        at = by_name[np.minimum(np.searchsorted(name[by_name], names), name.size - 1)]
        return np.where(name[at] == names, at, -1).astype(np.int64)

    count = end // block_size - start // block_size
    begin = np.cumsum(count) - count
    parent = place(up)
    last = _last_blocks(parent, begin, count)
    blocks = np.arange(int(count.sum())) - 1
    some = np.flatnonzero(count > 0)
    blocks[begin[some]] = np.append(last, -1)[parent[some]]
    of = place(np.where(layout.late_tokens[node] > 0, _tail_name(layout, node), layout.name[node]))
    ends = np.append(last, -1)[of]
    deep = np.append(end, 0)[of] // block_size
    return np.where(blocks >= 0, blocks + base, -1), np.where(ends >= 0, ends + base, -1), deep


def _tail_name(layout: Layout, node: NDArray[np.int64]) -> NDArray[np.uint64]:
    name: NDArray[np.uint64] = layout.late_name[node] * _ODD + layout.name[node]
    return name


def _last_blocks(
    parent: NDArray[np.int64], begin: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the last block down to the end of each piece, -1 for none."""
    at = np.arange(parent.size)
    while (short := np.flatnonzero((at >= 0) & (np.append(count, 1)[at] == 0))).size:
        at[short] = parent[at[short]]
    return np.where(at >= 0, np.append(begin + count - 1, -1)[at], -1)
