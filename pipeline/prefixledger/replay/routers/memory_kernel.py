"""What a router remembers of which prefix it sent where: pieces of chains, the latest sender of each piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from prefixledger.kernels.jit import kernel, part

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWNER, CHAIN, LO, HI, ROW, DEEPER, OLDER, NEWER = range(8)
PIECE_COLUMNS = 8
OLDEST, NEWEST, HELD = range(3)
USED, FREE, FREE_COUNT = range(3)
FULL = -1


@njit(cache=True, nogil=True)
def thin_forest(
    parent: NDArray[np.int64], every: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Keep each block whose depth is a multiple of ``every``: a router whose blocks are that much longer.

    Args:
        parent: int64[n], parent of each block, -1 for the first block of a prompt; ``parent[b] < b``.
        every: Blocks of the log in one block of the router.

    Returns:
        ``parent`` int64[r] of the blocks kept; ``node`` int64[n], the deepest of them on the path down to and including
        each block, -1 for none; ``depth`` int64[n], blocks of the log on that path. O(n).
    """
    n = parent.size
    depth = np.empty(n, np.int64)
    node = np.empty(n, np.int64)
    thin = np.empty(n, np.int64)
    kept = 0
    for b in range(n):
        above = parent[b]
        depth[b] = 1 if above < 0 else depth[above] + 1
        node[b] = -1 if above < 0 else node[above]
        if depth[b] % every == 0:
            thin[kept] = node[b]
            node[b] = kept
            kept += 1
    return thin[:kept].copy(), node, depth


@part
def _unlink(pieces: NDArray[np.int64], stores: NDArray[np.int64], store: int, piece: int) -> None:
    older, newer = pieces[piece, OLDER], pieces[piece, NEWER]
    if older >= 0:
        pieces[older, NEWER] = newer
    else:
        stores[store, OLDEST] = newer
    if newer >= 0:
        pieces[newer, OLDER] = older
    else:
        stores[store, NEWEST] = older


@part
def _free(pieces: NDArray[np.int64], use: NDArray[np.int64], piece: int) -> None:
    pieces[piece, DEEPER] = use[FREE]
    use[FREE] = piece
    use[FREE_COUNT] += 1


@part
def _take(pieces: NDArray[np.int64], use: NDArray[np.int64]) -> int:
    piece: int = use[FREE]
    if piece >= 0:
        use[FREE] = pieces[piece, DEEPER]
        use[FREE_COUNT] -= 1
        return piece
    piece = use[USED]
    use[USED] += 1
    return piece


@part
def _cut(
    pieces: NDArray[np.int64],
    first: NDArray[np.int32],
    stores: NDArray[np.int64],
    use: NDArray[np.int64],
    owner: int,
    store: int,
    chain: int,
    lo: int,
    hi: int,
) -> None:
    """Take blocks ``[lo, hi)`` of a chain from an owner."""
    before = -1
    piece = first[owner, chain]
    while piece >= 0 and pieces[piece, LO] < hi:
        deeper = pieces[piece, DEEPER]
        start, end = pieces[piece, LO], pieces[piece, HI]
        if end <= lo:
            before = piece
        elif start < lo and end > hi:
            rest = _take(pieces, use)
            for column in range(PIECE_COLUMNS):
                pieces[rest, column] = pieces[piece, column]
            pieces[rest, LO] = hi
            pieces[rest, OLDER] = piece
            newer = pieces[piece, NEWER]
            pieces[piece, NEWER] = rest
            if newer >= 0:
                pieces[newer, OLDER] = rest
            else:
                stores[store, NEWEST] = rest
            pieces[piece, HI] = lo
            pieces[piece, DEEPER] = rest
            stores[store, HELD] -= hi - lo
            return
        elif start < lo:
            stores[store, HELD] -= end - lo
            pieces[piece, HI] = lo
            before = piece
        elif end > hi:
            stores[store, HELD] -= hi - start
            pieces[piece, LO] = hi
            return
        else:
            stores[store, HELD] -= end - start
            if before >= 0:
                pieces[before, DEEPER] = deeper
            else:
                first[owner, chain] = deeper
            _unlink(pieces, stores, store, piece)
            _free(pieces, use, piece)
        piece = deeper


@kernel
def remember(
    pieces: NDArray[np.int64],
    first: NDArray[np.int32],
    stores: NDArray[np.int64],
    use: NDArray[np.int64],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    path: int,
    blocks: int,
    owner: int,
    store: int,
    row: int,
    head_first: bool,
) -> int:
    """Note that a request went to an owner: its blocks are the owner's latest.

    Args:
        pieces: int64[any, 8], blocks [LO, HI) of CHAIN that OWNER was last sent by request ROW; linked by depth within
            (owner, chain) and by age within a store.
        first: int32[owners, chains], shallowest piece, -1 for none.
        stores: int64[stores, 3], oldest and newest piece, blocks held.
        use: int64[3], pieces ever used, list and number of those that were freed.
        path_offset: int64[k + 1], where the chains of each request begin.
        path_chain: int32[e].
        chain_length: int32[c].
        chain_depth: int32[c], blocks above each chain.
        path: The request, as a position in ``path_offset``.
        blocks: Blocks of it.
        owner: Whom it went to.
        store: Where the owner's blocks are aged and counted.
        row: What is noted as the time.
        head_first: Which end of a prompt counts as older: its head (a list of hashes, added in order) or its tail (a
            tree, whose leaves go first).

    Returns:
        0, or FULL if ``pieces`` has to grow first; nothing has changed then. O(path + pieces that it takes over).
    """
    start, end = path_offset[path], path_offset[path + 1]
    if use[USED] + (end - start) > pieces.shape[0] + use[FREE_COUNT]:
        return FULL
    for step in range(end - start):
        chain = path_chain[start + step] if head_first else path_chain[end - 1 - step]
        n = min(np.int64(chain_length[chain]), blocks - chain_depth[chain])
        if n <= 0:
            continue
        covered = 0
        piece: int = first[owner, chain]
        while piece >= 0 and pieces[piece, HI] <= n:
            covered += pieces[piece, HI] - pieces[piece, LO]
            deeper = pieces[piece, DEEPER]
            _unlink(pieces, stores, store, piece)
            _free(pieces, use, piece)
            piece = deeper
        if piece >= 0 and pieces[piece, LO] < n:
            covered += n - pieces[piece, LO]
            pieces[piece, LO] = n
        made = _take(pieces, use)
        pieces[made, OWNER] = owner
        pieces[made, CHAIN] = chain
        pieces[made, LO] = 0
        pieces[made, HI] = n
        pieces[made, ROW] = row
        pieces[made, DEEPER] = piece
        pieces[made, NEWER] = -1
        older = stores[store, NEWEST]
        pieces[made, OLDER] = older
        if older >= 0:
            pieces[older, NEWER] = made
        else:
            stores[store, OLDEST] = made
        stores[store, NEWEST] = made
        stores[store, HELD] += n - covered
        first[owner, chain] = made
    return 0


@kernel
def forget(
    pieces: NDArray[np.int64],
    first: NDArray[np.int32],
    stores: NDArray[np.int64],
    use: NDArray[np.int64],
    store: int,
    most_blocks: int,
    before_row: int,
    whole: bool,
    head_first: bool,
    dependants: int,
) -> int:
    """Drop what is oldest in a store until it holds at most ``most_blocks`` and nothing noted before ``before_row``.

    Args:
        pieces: See ``remember``; so ``first``, ``stores`` and ``use``.
        first: int32[owners, chains].
        stores: int64[stores, 3].
        use: int64[3].
        store: Which store.
        most_blocks: Blocks that it may hold.
        before_row: Pieces of earlier requests go.
        whole: Whether pieces go whole (leaves of a tree) or block by block.
        head_first: Which end of a piece goes first, see ``remember``.
        dependants: Owners 0 … whose store is their own number lose the same blocks: they hold what this store holds.

    Returns:
        0, or FULL if ``pieces`` has to grow before it goes on. O(pieces dropped x (1 + dependants)).
    """
    while stores[store, OLDEST] >= 0:
        piece = stores[store, OLDEST]
        excess = stores[store, HELD] - most_blocks
        aged = pieces[piece, ROW] < before_row
        if excess <= 0 and not aged:
            break
        if use[USED] + dependants + 1 > pieces.shape[0] + use[FREE_COUNT]:
            return FULL
        lo, hi = pieces[piece, LO], pieces[piece, HI]
        if not (aged or whole) and excess < hi - lo:
            if head_first:
                hi = lo + excess
            else:
                lo = hi - excess
        owner, chain = pieces[piece, OWNER], pieces[piece, CHAIN]
        _cut(pieces, first, stores, use, owner, store, chain, lo, hi)
        for other in range(dependants):
            _cut(pieces, first, stores, use, other, other, chain, lo, hi)
    return 0


@kernel
def match(
    pieces: NDArray[np.int64],
    first: NDArray[np.int32],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_depth: NDArray[np.int32],
    path: int,
    blocks: int,
    holes: bool,
    matched: NDArray[np.int64],
    sender: NDArray[np.int64],
) -> None:
    """Count the blocks of a request that each owner was sent before.

    Args:
        pieces: See ``remember``; so the arrays up to ``path``.
        first: int32[owners, chains].
        path_offset: int64[k + 1].
        path_chain: int32[e].
        chain_length: int32[c].
        chain_depth: int32[c].
        path: The request.
        blocks: Blocks of it.
        holes: False: blocks from the start up to the first that the owner lacks. True: all that the owner has up to the
            first block that nobody has.
        matched: int64[owners], out.
        sender: int64[owners], out without ``holes``: the request that last sent the deepest block counted, -1 for none.
    """
    owners = matched.shape[0]
    start, end = path_offset[path], path_offset[path + 1]
    if not holes:
        for owner in range(owners):
            count = np.int64(0)
            row = np.int64(-1)
            for entry in range(start, end):
                chain = path_chain[entry]
                n = min(np.int64(chain_length[chain]), blocks - chain_depth[chain])
                if n <= 0:
                    break
                at = np.int64(0)
                piece: int = first[owner, chain]
                while piece >= 0 and at < n and pieces[piece, LO] <= at:
                    at = min(pieces[piece, HI], n)
                    row = pieces[piece, ROW]
                    piece = pieces[piece, DEEPER]
                count += at
                if at < n:
                    break
            matched[owner] = count
            sender[owner] = row
        return
    for owner in range(owners):
        matched[owner] = 0
    for entry in range(start, end):
        chain = path_chain[entry]
        n = min(np.int64(chain_length[chain]), blocks - chain_depth[chain])
        if n <= 0:
            break
        known = np.int64(0)
        moved = True
        while moved and known < n:
            moved = False
            for owner in range(owners):
                piece = first[owner, chain]
                while piece >= 0 and pieces[piece, LO] <= known:
                    if pieces[piece, HI] > known:
                        known = min(pieces[piece, HI], n)
                        moved = True
                    piece = pieces[piece, DEEPER]
        for owner in range(owners):
            piece = first[owner, chain]
            while piece >= 0 and pieces[piece, LO] < known:
                matched[owner] += min(pieces[piece, HI], known) - pieces[piece, LO]
                piece = pieces[piece, DEEPER]
        if known < n:
            break
