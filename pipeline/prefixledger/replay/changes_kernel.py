"""Finds, for prompts whose keys are new, the earlier prompt that had the same content, and what stands between them."""

from __future__ import annotations

import numpy as np
from numba import njit

LAYERS = 8
"""Changes told of one prompt; the last one keeps whatever is found behind it."""
FIELDS = 11
AT, GAP, GAP_BEFORE, KEPT, ZONE_END, FIRST_NEW, FIRST_OLD, MOVED, PIECES, NEXT, LEAD = range(FIELDS)
"""Columns of a layer, see ``align``."""
THREADS = 4
"""Lookups of a session that are looked back at for the one that a prompt goes on from: agents take turns in a session."""
EDIT_TOKENS = 64
"""New text of a change up to which the blocks that it lies in count as lost by it, and what stands behind it as moved with
what stands before: it has a piece or two on either side, within which nothing tells new tokens from those around them."""
TRIES = 8
"""Places of one content in an earlier prompt that are looked at for one that was not passed yet."""


@njit(cache=True, nogil=True)
def _climb_to(parent, end, node, floor, path):  # type: ignore[no-untyped-def]
    """Write the nodes of a path that end behind a token, last one first; return how many."""
    count = 0
    while node >= 0 and end[node] > floor:
        path[count] = node
        count += 1
        node = parent[node]
    return count


@njit(cache=True, nogil=True, inline="always")
def _length(parent, end, node):  # type: ignore[no-untyped-def]
    above = parent[node]
    return end[node] - (end[above] if above >= 0 else 0)


@njit(cache=True, nogil=True)
def _shared(parent, end, one, other):  # type: ignore[no-untyped-def]
    """Return the last node that two paths have in common, -1 for none."""
    while one >= 0 and other >= 0 and one != other:
        if end[one] >= end[other]:
            one = parent[one]
        else:
            other = parent[other]
    return one if one == other else np.int64(-1)


@njit(cache=True, nogil=True)
def _continued(parent, end, node, heads, first, nodes):  # type: ignore[no-untyped-def]
    """Return the token at which a prompt goes on from the earlier one that it has most in common with, 0 where it does not.

    Of equals the latest counts, so a prompt that rewrites a turn does not go on from the turn before that. The last piece of
    the earlier prompt may be shorter than here, having been cut at its end.
    """
    best, token = -1, 0
    for at in range(first, first + THREADS):
        if heads[at % THREADS] < 0:
            continue
        head = nodes[heads[at % THREADS]]
        common = _shared(parent, end, node, head)
        shared = end[common] if common >= 0 else 0
        if shared >= best:
            best = shared
            token = shared if common >= 0 and (common == head or common == parent[head]) else 0
    return token


@njit(cache=True, nogil=True)
def _score(parent, end, piece, node, floor, other, place, stamp, version, path):  # type: ignore[no-untyped-def]
    """Return how many tokens of a path behind a floor are in another path as well."""
    count = _climb_to(parent, end, other, -1, path)
    for at in range(count):
        place[piece[path[at]]] = count - 1 - at
        stamp[piece[path[at]]] = version
    total = 0
    while node >= 0 and end[node] > floor:
        if stamp[piece[node]] == version:
            total += _length(parent, end, node)
        node = parent[node]
    return total


@njit(cache=True, nogil=True)
def find_references(  # type: ignore[no-untyped-def]
    parent, end, piece, n_pieces, node, new_from, new, session, tenant, namespace, least, least_own
):
    """Name for each lookup the earlier one that served most of what its key is new for.

    Asked are the last lookup of its session, of its tenant, and those that last brought its first and its last known
    piece; of equals the first of them, and one of its own namespace where that served nearly as much.

    Args:
        parent: int64[n], forest of pieces, negative for the first of a prompt.
        end: int64[n], tokens up to the end of each piece.
        piece: int64[n], number of its content.
        n_pieces: Distinct pieces.
        node: int64[m], last piece of each lookup, in order of admission; -1 where its content is not known.
        new_from: int64[m], first token behind which nobody had asked for its keys.
        new: bool[m], whether there is such a token below its cap.
        session: int64[m], -1 for none.
        tenant: int64[m], -1 for none.
        namespace: int64[m].
        least: Tokens that must have been served before.
        least_own: The same by a lookup of the same session and namespace.

    Returns:
        (int64[m], int64[m], int64[m]): number of that lookup, -1 for none; the tokens that it had served; and the token at
        which the prompt goes on from an earlier one of its session and namespace, 0 where it does not. O(pieces behind
        ``new_from``), and for each lookup whose content was served before O(pieces of eight prompts).
    """
    rows = node.shape[0]
    found = np.full(rows, -1, np.int64)
    last_of = np.full(n_pieces, -1, np.int64)
    of_session = np.full((session.max() + 2 if rows else 1, THREADS), -1, np.int64)
    asked = np.zeros(of_session.shape[0], np.int64)
    continued, served = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    of_tenant = np.full(tenant.max() + 2 if rows else 1, -1, np.int64)
    place, stamp = np.zeros(n_pieces, np.int64), np.full(n_pieces, -1, np.int64)
    path = np.empty(parent.shape[0] + 1, np.int64)
    version = 0
    for row in range(rows):
        if node[row] < 0:
            continue
        known, first, last = 0, -1, -1
        count = _climb_to(parent, end, node[row], new_from[row], path)
        for at in range(count):
            seen = last_of[piece[path[at]]]
            if seen >= 0:
                known += _length(parent, end, path[at])
                first = seen
                if last < 0:
                    last = seen
        for at in range(count):
            last_of[piece[path[at]]] = row
        if new[row] and known >= (least_own if session[row] >= 0 else least):
            best, best_near = 0, 0
            near = -1
            heads = of_session[session[row]]
            latest = heads[(asked[session[row]] - 1) % THREADS] if session[row] >= 0 else -1
            if session[row] >= 0:
                own = heads.copy()
                for at in range(THREADS):
                    if own[at] >= 0 and namespace[own[at]] != namespace[row]:
                        own[at] = -1
                continued[row] = _continued(parent, end, node[row], own, asked[session[row]] % THREADS, node)
            for choice in (latest, of_tenant[tenant[row]], first, last):
                if choice < 0:
                    continue
                version += 1
                total = _score(
                    parent, end, piece, node[row], new_from[row], node[choice], place, stamp, version, path
                )
                if total > best:
                    best, found[row] = total, choice
                if namespace[choice] == namespace[row] and total > best_near:
                    best_near, near = total, choice
            served[row] = best
            if near >= 0 and 10 * best_near >= 9 * best:
                found[row], served[row] = near, best_near
            if best < least and not (
                best >= least_own
                and session[row] >= 0
                and session[found[row]] == session[row]
                and namespace[found[row]] == namespace[row]
            ):
                found[row] = -1
        if session[row] >= 0:
            of_session[session[row], asked[session[row]] % THREADS] = row
            asked[session[row]] += 1
        if tenant[row] >= 0:
            of_tenant[tenant[row]] = row
    return found, served, continued


@njit(cache=True, nogil=True, inline="always")
def _place(place, again, taken, row, here, after):  # type: ignore[no-untyped-def]
    """Return where a content stands in the old prompt: behind what is known already, else before it; -1 if all are taken."""
    where = place[here]
    while where >= 0 and taken[where] == row:
        where = again[where]
    place[here] = where
    ahead, tries = where, 0
    while ahead >= 0 and tries < TRIES and (ahead < after or taken[ahead] == row):
        ahead, tries = again[ahead], tries + 1
    return ahead if ahead >= after and taken[ahead] != row else where


@njit(cache=True, nogil=True)
def align(parent, end, piece, kind, n_pieces, new_node, old_node, least, blocks_from):  # type: ignore[no-untyped-def]
    """Set prompts beside earlier ones, piece by piece, and tell what was changed between them.

    A change is a place where the pieces of the new prompt stop following each other as they did in the old one, and
    behind which at least as many tokens are known again as it brought new ones, and no fewer than ``least``; what was taken
    from its old place may have more new text before it. What stands behind the last change is new text at the tail. Every piece of the old prompt is known again once: what the new one says
    twice is new the second time.

    Args:
        parent: int64[n], see ``find_references``.
        end: int64[n].
        piece: int64[n].
        kind: int8[n], part of the prompt that each piece is in: what was moved in one has moved nothing in the next.
        n_pieces: Distinct pieces.
        new_node: int64[k], last piece of each prompt.
        old_node: int64[k], last piece of the prompt beside it.
        least: int64[k], tokens.
        blocks_from: First piece that is a block known by its id: between such nothing is new that is not told.

    Returns:
        (int64[k], int64[k, LAYERS, FIELDS]): changes of each prompt, the common beginning being the first of them; and
        for each: token at which it begins, new tokens, old tokens in their place, tokens known again behind it, token
        at which those end, first new and first old node (-1 for none), whether most of what is missing there stands
        elsewhere, how many pieces were replaced by as many, 0 where the numbers differ, the first node known
        again, of the common beginning the last, and the new tokens before that. O(pieces of both prompts).
    """
    counts = np.zeros(new_node.shape[0], np.int64)
    out = np.zeros((new_node.shape[0], LAYERS, FIELDS), np.int64)
    place, stamp = np.zeros(n_pieces, np.int64), np.full(n_pieces, -1, np.int64)
    uses = np.full(n_pieces, -1, np.int64)
    again, taken = np.empty(parent.shape[0] + 1, np.int64), np.full(parent.shape[0] + 1, -1, np.int64)
    old_path, new_path = np.empty(parent.shape[0] + 1, np.int64), np.empty(parent.shape[0] + 1, np.int64)
    for row in range(new_node.shape[0]):
        n_old = _climb_to(parent, end, old_node[row], -1, old_path)
        n_new = _climb_to(parent, end, new_node[row], -1, new_path)
        for at in range(n_old):  # from the last one on, so that of equal pieces the first is found
            content = piece[old_path[at]]
            again[n_old - 1 - at] = place[content] if stamp[content] == row else -1
            place[content] = n_old - 1 - at
            stamp[content] = row
        for at in range(n_new):
            uses[piece[new_path[at]]] = row
        layers, after = 0, 0
        out[row, 0, FIRST_NEW], out[row, 0, FIRST_OLD], out[row, 0, NEXT] = -1, -1, -1
        gap_from, gap_tokens, gap_pieces, gap_node = 0, 0, 0, np.int64(-1)
        for at in range(n_new):
            node = new_path[n_new - 1 - at]
            here = piece[node]
            length = _length(parent, end, node)
            where = -1
            if after < n_old and piece[old_path[n_old - 1 - after]] == here and taken[after] != row:
                where = after
            elif stamp[here] == row:
                where = _place(place, again, taken, row, here, after)
            if where < 0:
                above = parent[node]
                if gap_pieces > 0 and out[row, layers, MOVED] == 1 and kind[node] != kind[above]:
                    out[row, layers, GAP] += gap_tokens
                    if gap_tokens <= EDIT_TOKENS:
                        out[row, layers, ZONE_END] = end[above]
                    gap_from, gap_tokens, gap_pieces = end[above], 0, 0
                if gap_pieces == 0:
                    gap_node = node
                gap_tokens += length
                gap_pieces += 1
                continue
            if gap_pieces > 0 or where != after:
                behind_moved = layers > 0 and out[row, layers, MOVED] == 1
                crossed = behind_moved and kind[node] != kind[out[row, layers, NEXT]]
                skipped, gone, old_pieces = 0, 0, 0
                first_old = np.int64(-1)
                for other in range(after, where):
                    old = old_path[n_old - 1 - other]
                    lost = uses[piece[old]] != row
                    if crossed and (not lost or kind[old] != kind[node]):
                        continue
                    if first_old < 0:
                        first_old = old
                    old_pieces += 1
                    skipped += _length(parent, end, old)
                    if lost:
                        gone += _length(parent, end, old)
                moved = where < after or (skipped > 0 and 2 * gone <= skipped)
                near = gap_tokens <= (EDIT_TOKENS if node < blocks_from else 0)
                merge = moved and near and behind_moved and not crossed
                # Where the next part goes on as it did, behind all that was moved, nothing more was changed.
                merge = merge or (crossed and not moved and gap_pieces == 0 and old_pieces == 0)
                if not merge and layers + 1 < LAYERS:
                    layers += 1
                    out[row, layers, AT] = gap_from
                    out[row, layers, FIRST_NEW] = gap_node
                    out[row, layers, FIRST_OLD] = first_old
                    out[row, layers, NEXT] = node
                    out[row, layers, MOVED] = moved
                    out[row, layers, PIECES] = gap_pieces if gap_pieces == old_pieces else 0
                    out[row, layers, GAP] = gap_tokens
                    out[row, layers, LEAD] = gap_tokens
                    out[row, layers, GAP_BEFORE] = skipped
                else:
                    out[row, layers, GAP] += gap_tokens
                    out[row, layers, GAP_BEFORE] += skipped
            taken[where] = row
            if layers == 0:
                out[row, 0, NEXT] = node
            out[row, layers, KEPT] += length
            out[row, layers, ZONE_END] = end[node]
            gap_from, gap_tokens, gap_pieces, gap_node = end[node], 0, 0, np.int64(-1)
            after = where + 1
        behind = 0
        kept = layers
        for layer in range(layers, 0, -1):
            behind += out[row, layer, KEPT]
            grown = out[row, layer, MOVED] == 0 and behind < out[row, layer, GAP]
            if behind < least[row] or grown:
                kept = layer - 1
                behind = 0
        counts[row] = kept + 1
    return counts, out
