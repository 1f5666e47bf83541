"""Tells conversations apart that run under one session id."""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_OPEN = 256
"""An id that an application gives to all its calls is no session; without a bound 1 M of them would take hours."""


@njit(cache=True, nogil=True)
def preorder(parent):  # type: ignore[no-untyped-def]
    """Number a forest so that everything below a block lies in one range.

    Args:
        parent: int64[n], smaller than its own index, or negative.

    Returns:
        (int64[n], int64[n]): number of each block, and how many blocks lie in it and below it. O(n).
    """
    n = parent.shape[0]
    size = np.ones(n, np.int64)
    for block in range(n - 1, -1, -1):
        if parent[block] >= 0:
            size[parent[block]] += size[block]
    number = np.empty(n, np.int64)
    free = np.empty(n, np.int64)
    roots = np.int64(0)
    for block in range(n):
        above = parent[block]
        if above < 0:
            number[block] = roots
            roots += size[block]
        else:
            number[block] = free[above]
            free[above] += size[block]
        free[block] = number[block] + 1
    return number, size


@njit(cache=True, nogil=True)
def conversation_numbers(parent, number, size, session, last_block, head):  # type: ignore[no-untyped-def]
    """Number the conversations of requests in order of arrival.

    A request goes on with the conversation of its session whose first prompt it contains but for its last full block;
    of several with the one whose first prompt is longest; else it begins one. Only the last ``MOST_OPEN`` that a session
    began are looked at.

    Args:
        parent: int64[n], parent of each block, negative for the first of a prompt.
        number: int64[n], see ``preorder``.
        size: int64[n].
        session: int64[m], session of each request, -1 for none.
        last_block: int64[m], last full block, -1 for none.
        head: int64[sessions], filled with -1; scratch: latest conversation of each session.

    Returns:
        int64[m]: number of the conversation, in order of their first requests; -1 without session or blocks.
        O(n + m * min(conversations of a session, MOST_OPEN)).
    """
    m = session.shape[0]
    found = np.full(m, -1, np.int64)
    anchor = np.empty(m, np.int64)
    before = np.empty(m, np.int64)
    count = np.int64(0)
    for row in range(m):
        last = last_block[row]
        if last < 0 or session[row] < 0:
            continue
        best = np.int64(-1)
        one = head[session[row]]
        looked = 0
        while one >= 0 and looked < MOST_OPEN:
            looked += 1
            top = anchor[one]
            inside = number[top] <= number[last] < number[top] + size[top]
            if inside and (best < 0 or number[top] > number[anchor[best]]):
                best = one
            one = before[one]
        if best < 0:
            best = count
            anchor[best] = parent[last] if parent[last] >= 0 else last
            before[best] = head[session[row]]
            head[session[row]] = best
            count += 1
        found[row] = best
    return found
