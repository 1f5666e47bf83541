"""Takes one list of ids out of every line that is a JSON object, so that what is left is soon parsed."""

from __future__ import annotations

import numpy as np
from numba import njit

_ID_DIGITS = 19  # what surely fits into 64 bits
_NEWLINE, _RETURN, _TAB, _SPACE, _QUOTE, _COMMA, _COLON = 10, 13, 9, 32, 34, 44, 58
_LIST, _ESCAPE, _END_LIST, _OBJECT, _END_OBJECT = 91, 92, 93, 123, 125
_ZERO = np.uint8(48)


@njit(cache=True, nogil=True)
def take_id_lists(data, name, wrapper, rest, ids, n_ids):  # type: ignore[no-untyped-def]
    """Copy lines, each with an empty list in place of the list of ids that it holds under a name.

    The list is taken where it surely is the value: the line begins with an object, and not as one in which a text holds the
    record; the name is one of its own and stands in it once, no name of it has an escape, and the list holds digits, spaces and commas alone, up to 19 digits an id. A line
    of which some of that is not true is copied as it is. So what a parser makes of the copy, with the list put back, is what
    it makes of the line: it takes the copy for JSON only if it takes the line for it.

    Args:
        data: uint8[b], whole lines; the last one may lack its end.
        name: uint8[c].
        wrapper: uint8[w], how a line begins of which the record is in a text.
        rest: uint8[b], out: the copy.
        ids: uint64[b // 2 + 1], out: the ids taken, line after line.
        n_ids: int64[lines], out: ids taken of each line, -1 where it was copied as it is.

    Returns:
        (int, int): bytes of the copy, and ids. O(b), some 1.5 ns a byte.
    """
    size = data.shape[0]
    length = name.shape[0]
    line = 0
    count = 0
    copied = 0
    at = 0
    while at < size:
        start = at
        before = count
        first = last = -1
        depth = 0
        key = False
        seen = False
        good = data[at] == _OBJECT
        wrapped = at + wrapper.shape[0] <= size
        for place in range(wrapper.shape[0] if good and wrapped else 0):
            if data[at + place] != wrapper[place]:
                wrapped = False
                break
        good = good and not wrapped
        while good and at < size and data[at] != _NEWLINE:
            letter = data[at]
            at += 1
            if letter == _QUOTE:
                begin = at
                escaped = False
                while at < size and data[at] != _QUOTE and data[at] != _NEWLINE:
                    if data[at] == _ESCAPE:
                        escaped = True
                        at += 1
                        if at >= size or data[at] == _NEWLINE:
                            break
                    at += 1
                if at >= size or data[at] == _NEWLINE:
                    good = False
                    break
                end = at
                at += 1
                if not key:
                    continue
                key = False
                if escaped:
                    good = False
                    break
                same = end - begin == length
                for letter_at in range(length if same else 0):
                    if data[begin + letter_at] != name[letter_at]:
                        same = False
                        break
                if not same:
                    continue
                while at < size and (data[at] == _SPACE or data[at] == _TAB):
                    at += 1
                if seen or at >= size or data[at] != _COLON:
                    good = False
                    break
                seen = True
                at += 1
                while at < size and (data[at] == _SPACE or data[at] == _TAB):
                    at += 1
                if at >= size or data[at] != _LIST:
                    continue
                first = at
                at += 1
                closed = False
                while at < size:
                    while at < size and data[at] == _SPACE:
                        at += 1
                    value = np.uint64(0)
                    begin = at
                    while at < size:
                        digit = data[at] - _ZERO
                        if digit > 9:
                            break
                        value = value * np.uint64(10) + np.uint64(digit)
                        at += 1
                    digits = at - begin
                    while at < size and data[at] == _SPACE:
                        at += 1
                    if digits == 0:
                        closed = count == before and at < size and data[at] == _END_LIST
                        break
                    if digits > _ID_DIGITS or (digits > 1 and data[begin] == _ZERO) or at >= size:
                        break
                    ids[count] = value
                    count += 1
                    if data[at] == _COMMA:
                        at += 1
                        continue
                    closed = data[at] == _END_LIST
                    break
                if not closed:
                    good = False
                    break
                at += 1
                last = at
            elif letter in (_OBJECT, _LIST):
                depth += 1
                key = depth == 1
            elif letter in (_END_OBJECT, _END_LIST):
                depth -= 1
            elif letter == _COMMA and depth == 1:
                key = True
        while at < size and data[at] != _NEWLINE:
            at += 1
        if at < size:
            at += 1
        if good and last >= 0:
            n_ids[line] = count - before
            for place in range(start, first + 1):
                rest[copied] = data[place]
                copied += 1
            for place in range(last - 1, at):
                rest[copied] = data[place]
                copied += 1
        else:
            n_ids[line] = -1
            count = before
            for place in range(start, at):
                rest[copied] = data[place]
                copied += 1
        line += 1
    return copied, count
