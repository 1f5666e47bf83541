"""SGLang's classic radix tree replayed one request at a time: exact hits and removals, one replica after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel
from prefixledger.replay.sglang_lists_kernel import (
    ABOVE,
    FIRST,
    LAST,
    NEXT,
    RESIDENT,
    STAMP,
    TAIL,
    join,
    new_extent,
    write_starts,
)
from prefixledger.replay.sglang_tree_kernel import (
    EXTENTS_FULL,
    REMOVED,
    REPLICA,
    SIZE,
    cut,
    evict,
    expire,
    forget_all,
    lift,
    put_back,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NEVER = 1 << 62


@kernel
def replay_radix(
    rows: NDArray[np.int32],
    row_start: NDArray[np.int64],
    arrival_us: NDArray[np.int64],
    prompt_tokens: NDArray[np.int64],
    keyed_blocks: NDArray[np.int64],
    reach_blocks: NDArray[np.int64],
    path_offset: NDArray[np.int64],
    path_chain: NDArray[np.int32],
    chain_parent: NDArray[np.int32],
    chain_length: NDArray[np.int32],
    chain_word: NDArray[np.int64],
    reset_start: NDArray[np.int64],
    reset_at_us: NDArray[np.int64],
    block_size: int,
    capacity: int,
    ttl_us: int,
    log: bool,
    chains: NDArray[np.int32],
    extents: NDArray[np.int32],
    starts: NDArray[np.uint32],
    nameless: NDArray[np.int32],
    pool: NDArray[np.int64],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    refused: NDArray[np.bool_],
    first_eviction_us: NDArray[np.int64],
    peak_blocks: NDArray[np.int64],
) -> int:
    """Replay the lookups of one pool.

    Rules: SGLang 0.5.23 (``RadixCache``), a page being one block. A node is what one insert added, until an access ends
    inside it and splits it. A request is two accesses: it matches its blocks but the one of the last token, and locks
    them; whole leaves go, the one accessed longest ago first, for the shortage of ``ceil(tokens / block) - hits``
    only; then it inserts all its full blocks. Both halves of a split node carry the time of the access.

    What an access touches lies at the recent end, deep before shallow, behind the lower half of a node that it split. So
    an extent may hold many nodes; a bit per block says where the next one begins. Locked blocks lie in no list.

    A prompt larger than the cache is refused and changes nothing. With a TTL a block goes once no lookup whose path has it
    came for more than ``ttl_us``; to have been split off is no use. At equal times resets go before lookups.

    Time O(path entries + extents moved + blocks inserted / 32), amortised; memory by live extents and a bit per block.

    Args:
        rows: int32[n], rows grouped by replica, in order of arrival.
        row_start: int64[replicas + 1], where each replica's rows start in ``rows``.
        arrival_us: int64[n], not falling within a replica.
        prompt_tokens: int64[n], at least 1.
        keyed_blocks: int64[n], full blocks of the prompt with a known key; further full blocks are inserted, but nobody
            can match them.
        reach_blocks: int64[n], blocks that are matched at all.
        path_offset: int64[n + 1], row i walks ``path_chain[path_offset[i]:path_offset[i + 1]]`` from the root; its path
            ends with its last keyed block.
        path_chain: int32[entries].
        chain_parent: int32[c], -1 at the root.
        chain_length: int32[c], blocks of each chain.
        chain_word: int64[c], first word of each chain in ``starts``.
        reset_start: int64[replicas + 1], where each replica's resets start.
        reset_at_us: int64[resets], not falling within a replica.
        block_size: Tokens per block.
        capacity: Blocks per replica.
        ttl_us: -1 for none.
        log: Whether to fill ``removals``.
        chains: int32[c, 6], zeros; scratch.
        extents: int32[any, 8]; scratch.
        starts: uint32[words]; scratch, 32 blocks of one chain a word: bit set where a node begins, not at block 0.
        nameless: int32[n], zeros; scratch: extent of a row's blocks without a known key.
        pool: int64[3]; scratch.
        removals: int32[any, 8], out, by replica and time: lookup (-1 expired), replica, chain, lo, hi, expired, by an admission, row
            admitted last.
        removal_at_us: int64[any], out; for expired blocks the last moment at which they were valid.
        hit_blocks: int32[n], out, zeros.
        refused: bool[n], out, zeros.
        first_eviction_us: int64[replicas], out, filled with -1.
        peak_blocks: int64[replicas], out, zeros: the most that was in the tree or asked for at once.

    Returns:
        The number of removals, or which scratch array was too small.
    """
    pool[REMOVED] = 0
    epoch = 0
    for replica in range(row_start.shape[0] - 1):
        first_row, end_row = row_start[replica], row_start[replica + 1]
        reset = reset_start[replica]
        to_expire = first_row
        pool[REPLICA] = replica
        epoch += 1
        forget_all(extents, pool)
        for i in range(first_row, end_row + 1):
            over = i == end_row  # after the last lookup, what is left expires
            row = -1 if over else rows[i]
            now = _NEVER if over else arrival_us[row]
            while True:
                reset_due = reset < reset_start[replica + 1] and reset_at_us[reset] <= now
                until = reset_at_us[reset] if reset_due else now
                while ttl_us >= 0 and to_expire < i and arrival_us[rows[to_expire]] + ttl_us < until:
                    user = rows[to_expire]
                    status = expire(
                        path_offset,
                        path_chain,
                        chain_parent,
                        chains,
                        extents,
                        nameless,
                        removals,
                        removal_at_us,
                        pool,
                        user,
                        arrival_us[user] + ttl_us,
                        epoch,
                        log,
                    )
                    if status < 0:
                        return status
                    to_expire += 1
                if not reset_due:
                    break
                reset += 1
                epoch += 1
                forget_all(extents, pool)
                while to_expire < i:
                    nameless[rows[to_expire]] = 0
                    to_expire += 1
            if over:
                break
            slots = (prompt_tokens[row] + block_size - 1) // block_size
            if slots > capacity:
                refused[row] = True
                continue
            keyed = keyed_blocks[row]
            root = path_offset[row]
            e = root  # the place behind the blocks reached: path entry, position in its chain
            at = reached = hits = 0
            for access in range(2):
                before = reached
                limit = keyed
                if access == 0:
                    limit = min((prompt_tokens[row] - 1) // block_size, keyed, reach_blocks[row])
                while reached < limit:
                    c = path_chain[e]
                    if chains[c, STAMP] != epoch:
                        break
                    stop = min(chains[c, RESIDENT], at + limit - reached)
                    if stop <= at:
                        break
                    lift(chains, extents, c, stop)
                    reached += stop - at
                    at = stop
                    if at < chain_length[c]:
                        break
                    e += 1
                    at = 0
                if reached > before:
                    c = path_chain[e] if at > 0 else path_chain[e - 1]
                    behind = at if at > 0 else chain_length[c]
                    status = cut(chain_parent, chain_word, chains, extents, starts, c, behind)
                    if status < 0:
                        return status
                if access == 0:
                    hits = reached
                    wanted = pool[SIZE] + slots - hits
                    peak_blocks[replica] = max(peak_blocks[replica], wanted)
                    if wanted > capacity:
                        if first_eviction_us[replica] < 0:
                            first_eviction_us[replica] = now
                        status = evict(
                            chain_parent,
                            chain_word,
                            chains,
                            extents,
                            starts,
                            nameless,
                            removals,
                            removal_at_us,
                            pool,
                            capacity - slots + hits,
                            row,
                            now,
                            log,
                        )
                        if status < 0:
                            return status
            hit_blocks[row] = hits

            # What nobody had becomes one node: on from the place that was reached, then the blocks without a key.
            unknown = prompt_tokens[row] // block_size - keyed
            pool[SIZE] += keyed - reached + unknown
            host = -1
            while reached < keyed:
                c = path_chain[e]
                if chains[c, STAMP] != epoch:
                    chains[c, STAMP] = epoch
                    chains[c, FIRST] = chains[c, LAST] = chains[c, NEXT] = chains[c, TAIL] = 0
                stop = min(chain_length[c], at + keyed - reached)
                write_starts(starts, chain_word[c], at, stop)
                if host >= 0:
                    chains[host, NEXT] = c
                host = c
                chains[c, RESIDENT] = stop
                reached += stop - at
                at = stop
                if at == chain_length[c]:
                    e += 1
                    at = 0
            if unknown > 0:
                x = new_extent(extents, -1, 0, unknown, row)
                if x == 0:
                    return EXTENTS_FULL
                extents[x, ABOVE] = host
                if host >= 0:
                    chains[host, TAIL] = x
                nameless[row] = x
                join(extents, x)
            while at > 0 or e > root:
                if at == 0:
                    e -= 1
                    at = chain_length[path_chain[e]]
                if put_back(chains, extents, path_chain[e], at, row) == 0:
                    return EXTENTS_FULL
                at = 0
    listed: int = pool[REMOVED]
    return listed
