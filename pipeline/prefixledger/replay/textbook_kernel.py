"""The naive block-level cache that many people write first: head-first recency, no partial slot, no copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefixledger.kernels.jit import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of `blocks`: neighbours in order of recency, and the last row to use it; valid while STAMP is the present epoch.
BEFORE, AFTER, STAMP, USER = range(4)
BLOCK_COLUMNS = 4
# Columns of `removals`.
R_LOOKUP, R_REPLICA, R_BLOCK, R_EXPIRED = range(4)
REMOVAL_COLUMNS = 4
REMOVALS_FULL = -1

_NEVER = 1 << 62


@kernel
def replay_textbook(
    rows: NDArray[np.int32],
    row_start: NDArray[np.int64],
    arrival_us: NDArray[np.int64],
    full_blocks: NDArray[np.int64],
    last_block: NDArray[np.int64],
    nameless_start: NDArray[np.int64],
    parent: NDArray[np.int64],
    reset_start: NDArray[np.int64],
    reset_at_us: NDArray[np.int64],
    capacity: int,
    ttl_us: int,
    log: bool,
    blocks: NDArray[np.int32],
    path: NDArray[np.int32],
    removals: NDArray[np.int32],
    removal_at_us: NDArray[np.int64],
    hit_blocks: NDArray[np.int32],
    first_eviction_us: NDArray[np.int64],
) -> int:
    """Replay the lookups of one pool, one at a time, replica after replica.

    A lookup walks its full blocks from the head and moves each one found to the recent end, up to the first that is
    missing. What follows is inserted one by one, each insertion evicting the least recent block where there is one too
    many; a block that is still there is left where it stands. With a TTL a block goes once ``arrival - last use > ttl``;
    every lookup whose path has the block counts as a use. At equal times resets go before lookups.

    Time O(blocks on all paths), twice that with a TTL; memory by distinct blocks.

    Args:
        rows: int32[n], rows grouped by replica, in order of arrival.
        row_start: int64[replicas + 1], where each replica's rows start in ``rows``.
        arrival_us: int64[n], not falling within a replica.
        full_blocks: int64[n], blocks that are looked up; further ones on the path are output, inserted after the lookup.
        last_block: int64[n], deepest block on the row's path, -1 for none.
        nameless_start: int64[n + 1], numbers of blocks whose key is not in the log, from ``len(parent)`` up; inserted last.
        parent: int64[blocks], -1 at the root.
        reset_start: int64[replicas + 1], where each replica's resets start.
        reset_at_us: int64[resets], not falling within a replica.
        capacity: Blocks per replica.
        ttl_us: -1 for none.
        log: Whether to fill ``removals``.
        blocks: int32[last nameless number + 1, 4], zeros; scratch, the last row closes the order of recency to a ring.
        path: int32[deepest path + 1]; scratch.
        removals: int32[any, 4], out, by replica and time: lookup (-1 expired), replica, block, expired.
        removal_at_us: int64[any], out; for expired blocks the last moment at which they were valid.
        hit_blocks: int32[n], out.
        first_eviction_us: int64[replicas], out, filled with -1.

    Returns:
        The number of removals, or ``REMOVALS_FULL``.
    """
    ring = blocks.shape[0] - 1
    named = parent.shape[0]
    n_removals = 0
    epoch = 0
    for replica in range(row_start.shape[0] - 1):
        reset = reset_start[replica]
        to_expire = row_start[replica]
        epoch += 1
        size = 0
        blocks[ring, BEFORE] = blocks[ring, AFTER] = ring
        for i in range(row_start[replica], row_start[replica + 1] + 1):
            over = i == row_start[replica + 1]  # after the last lookup, what is left expires
            row = -1 if over else rows[i]
            now = _NEVER if over else arrival_us[row]
            while True:
                reset_due = reset < reset_start[replica + 1] and reset_at_us[reset] <= now
                until = reset_at_us[reset] if reset_due else now
                while ttl_us >= 0 and to_expire < i:
                    user = rows[to_expire]
                    expired_us = arrival_us[user] + ttl_us
                    if expired_us >= until:
                        break
                    to_expire += 1
                    block = last_block[user]
                    nameless = nameless_start[user + 1]
                    while block >= 0 or nameless > nameless_start[user]:
                        if nameless > nameless_start[user]:
                            nameless -= 1
                            gone = nameless
                        else:
                            gone = block
                            block = parent[block]
                        if blocks[gone, STAMP] == epoch and blocks[gone, USER] == user:
                            before, after = blocks[gone, BEFORE], blocks[gone, AFTER]
                            blocks[before, AFTER] = after
                            blocks[after, BEFORE] = before
                            blocks[gone, STAMP] = 0
                            size -= 1
                            if log and gone < named:
                                if n_removals == removals.shape[0]:
                                    return REMOVALS_FULL
                                removals[n_removals, R_LOOKUP] = -1
                                removals[n_removals, R_REPLICA] = replica
                                removals[n_removals, R_BLOCK] = gone
                                removals[n_removals, R_EXPIRED] = 1
                                removal_at_us[n_removals] = expired_us
                                n_removals += 1
                if not reset_due:
                    break
                reset += 1
                epoch += 1
                size = 0
                blocks[ring, BEFORE] = blocks[ring, AFTER] = ring
                to_expire = i
            if over:
                break
            depth = 0
            block = last_block[row]
            while block >= 0:
                path[depth] = block
                depth += 1
                block = parent[block]
            hits = 0
            while hits < full_blocks[row]:
                block = path[depth - 1 - hits]
                if blocks[block, STAMP] != epoch:
                    break
                before, after = blocks[block, BEFORE], blocks[block, AFTER]
                blocks[before, AFTER] = after
                blocks[after, BEFORE] = before
                last = blocks[ring, BEFORE]
                blocks[block, BEFORE] = last
                blocks[block, AFTER] = ring
                blocks[last, AFTER] = block
                blocks[ring, BEFORE] = block
                blocks[block, USER] = row
                hits += 1
            hit_blocks[row] = hits
            for k in range(hits, depth + nameless_start[row + 1] - nameless_start[row]):
                block = path[depth - 1 - k] if k < depth else nameless_start[row] + k - depth
                blocks[block, USER] = row
                if blocks[block, STAMP] == epoch:
                    continue
                blocks[block, STAMP] = epoch
                last = blocks[ring, BEFORE]
                blocks[block, BEFORE] = last
                blocks[block, AFTER] = ring
                blocks[last, AFTER] = block
                blocks[ring, BEFORE] = block
                size += 1
                if size > capacity:
                    size -= 1
                    gone = blocks[ring, AFTER]
                    after = blocks[gone, AFTER]
                    blocks[ring, AFTER] = after
                    blocks[after, BEFORE] = ring
                    blocks[gone, STAMP] = 0
                    if first_eviction_us[replica] < 0:
                        first_eviction_us[replica] = now
                    if log and gone < named:
                        if n_removals == removals.shape[0]:
                            return REMOVALS_FULL
                        removals[n_removals, R_LOOKUP] = row
                        removals[n_removals, R_REPLICA] = replica
                        removals[n_removals, R_BLOCK] = gone
                        removals[n_removals, R_EXPIRED] = 0
                        removal_at_us[n_removals] = now
                        n_removals += 1
    return n_removals
