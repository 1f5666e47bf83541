"""Reads lines that are flat JSON objects of whole numbers, short plain texts and lists of ids, and leaves all others alone."""

from __future__ import annotations

import numpy as np
from numba import njit

NUMBER, TEXT, IDS = 0, 1, 2
"""Kinds of field."""
_NUMBER_DIGITS, _ID_DIGITS = 18, 19  # what surely fits into 63 and 64 bits
_NEWLINE, _RETURN, _SPACE, _QUOTE, _COMMA, _COLON = 10, 13, 32, 34, 44, 58
_LIST, _ESCAPE, _END_LIST, _OBJECT, _END_OBJECT, _LAST_PLAIN = 91, 92, 93, 123, 125, 126
_ZERO = np.uint8(48)
_WORD_BYTES = 8
_ASCII_ZEROS, _SIXES, _HIGH_NIBBLES = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x06, 0xF0))
_COMMA_THEN = np.uint64(_COMMA ^ 0x30)
_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _100, _10_000 = (
    np.uint64(number) for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 10_000)
)
_16, _24, _32, _40, _48, _56, _64, _255 = (np.uint64(number) for number in (16, 24, 32, 40, 48, 56, 64, 255))


@njit(cache=True, nogil=True, forceinline=True)
def _alike(data, at, digits, ids, count):  # type: ignore[no-untyped-def]
    """Read ids of as many digits as the one before, each in one word with its comma, until one is not like that.

    Args:
        data: uint8[b].
        at: int, just behind a comma.
        digits: int, 1 to 7.
        ids: uint64[m], out.
        count: int, ids so far.

    Returns:
        (int, int): just behind the last comma that was read, and ids.
    """
    here = np.uint64(at)
    width = np.uint64(digits)
    behind = _8 * width
    before = _64 - behind
    size = np.uint64(data.shape[0])
    while here + _9 <= size:
        if data[here] == _SPACE:
            here += _1
        word = _ASCII_ZEROS ^ (
            np.uint64(data[here])
            | (np.uint64(data[here + _1]) << _8)
            | (np.uint64(data[here + _2]) << _16)
            | (np.uint64(data[here + _3]) << _24)
            | (np.uint64(data[here + _4]) << _32)
            | (np.uint64(data[here + _5]) << _40)
            | (np.uint64(data[here + _6]) << _48)
            | (np.uint64(data[here + _7]) << _56)
        )
        # A byte is a digit where neither it nor it and 6 more reaches 16; only bytes behind another could be carried into.
        if (((word + _SIXES) | word) & _HIGH_NIBBLES) << before != 0:
            break
        if (word >> behind) & _255 != _COMMA_THEN:
            break
        if word & _255 == 0 and digits > 1:
            break
        word = word << before
        word = (word * _10 + (word >> _8)) & np.uint64(0x00FF00FF00FF00FF)
        word = (word * _100 + (word >> _16)) & np.uint64(0x0000FFFF0000FFFF)
        ids[count] = (word * _10_000 + (word >> _32)) & np.uint64(0xFFFFFFFF)
        count += 1
        here += width + _1
    return np.int64(here), count


@njit(cache=True, nogil=True)
def read_plain_lines(  # type: ignore[no-untyped-def]
    data, at, stop, names, name_ends, kinds, counted, block_size, start, close, plain, values, ids, n_ids, line, count
):  # fmt: skip
    r"""Read every line that begins before some byte and is an object of the named fields only, each at most once, in any order.

    Numbers are digits without sign, fraction or exponent; texts are printable ASCII without escapes, or a number; between
    tokens there is nothing but spaces; the object begins the line, and at most ``\r`` follows it. Whatever else is legal
    JSON, or is none, makes a line that is not plain: what it says is for a real parser.

    Args:
        data: uint8[b], whole lines; the last one may lack its end.
        at: int, where the first line begins that is to be read.
        stop: int, where the last begins at most; each call goes on where the last ended, so that what else a line needs can be
            done while it is in the cache.
        names: uint8[c], names of the fields, one behind the other; those that lines mostly have first, in their order.
        name_ends: int64[f].
        kinds: uint8[f], ``NUMBER``, ``TEXT`` or ``IDS``; at most one is ``IDS``.
        counted: int, which of them is the number of tokens that the ids stand for.
        block_size: int, tokens an id.
        start: int64[lines], out: where each line begins.
        close: int64[lines], out: just behind the object of a plain line; where any other begins.
        plain: bool[lines], out.
        values: int64[lines, 2 * f], out for plain lines: number and -1, or begin and end of the text; -1 where absent.
        ids: uint64[b // 2 + 1], out: ids of all plain lines, without the last one of those whose last block is not full but
            has an id all the same.
        n_ids: int64[lines], out: ids of each plain line, -1 where it has no list; of other lines 0.
        line: int, lines before the first.
        count: int, ids kept before it.

    Returns:
        (int, int, int): where the next line begins, lines and kept ids so far. O(b), some 0.6 ns a byte.
    """
    size = data.shape[0]
    fields = kinds.shape[0]
    while at < stop:
        start[line] = at
        plain[line] = False
        n_ids[line] = -1
        for column in range(2 * fields):
            values[line, column] = -1
        before = count
        field = -1
        inside = data[at] == _OBJECT
        at += 1
        while inside:
            inside = False
            while at < size and data[at] == _SPACE:
                at += 1
            if at >= size or data[at] != _QUOTE:
                break
            at += 1
            found = -1
            for step in range(1, fields + 1):  # mostly the one behind the last
                other = field + step if field + step < fields else field + step - fields
                first = name_ends[other - 1] if other else 0
                length = name_ends[other] - first
                if at + length >= size or data[at + length] != _QUOTE:
                    continue
                same = True
                for letter in range(length):
                    if data[at + letter] != names[first + letter]:
                        same = False
                        break
                if same:
                    found = other
                    at += length + 1
                    break
            if found < 0:
                break
            field = found
            while at < size and data[at] == _SPACE:
                at += 1
            if at >= size or data[at] != _COLON:
                break
            at += 1
            while at < size and data[at] == _SPACE:
                at += 1
            if at >= size:
                break
            if kinds[field] == IDS:
                if n_ids[line] >= 0 or data[at] != _LIST:
                    break
                at += 1
                closed = False
                while at < size:
                    while at < size and data[at] == _SPACE:
                        at += 1
                    value = np.uint64(0)
                    first = at
                    while at < size:
                        digit = data[at] - _ZERO
                        if digit > 9:
                            break
                        value = value * np.uint64(10) + np.uint64(digit)
                        at += 1
                    digits = at - first
                    while at < size and data[at] == _SPACE:
                        at += 1
                    if digits == 0:
                        closed = count == before and at < size and data[at] == _END_LIST
                        break
                    if digits > _ID_DIGITS or (digits > 1 and data[first] == _ZERO) or at >= size:
                        break
                    ids[count] = value
                    count += 1
                    if data[at] == _COMMA:
                        at += 1
                        if digits < _WORD_BYTES:
                            at, count = _alike(data, at, digits, ids, count)
                        continue
                    closed = data[at] == _END_LIST
                    break
                if not closed:
                    break
                at += 1
                n_ids[line] = count - before
            else:
                if values[line, 2 * field] >= 0:
                    break
                quoted = kinds[field] == TEXT and data[at] == _QUOTE
                first = at + 1 if quoted else at
                if quoted:
                    at += 1
                    while (
                        at < size
                        and _SPACE <= data[at] <= _LAST_PLAIN
                        and data[at] != _QUOTE
                        and data[at] != _ESCAPE
                    ):
                        at += 1
                    if at >= size or data[at] != _QUOTE:
                        break
                    values[line, 2 * field] = first
                    values[line, 2 * field + 1] = at
                    at += 1
                else:
                    number = np.int64(0)
                    while at < size:
                        digit = data[at] - _ZERO
                        if digit > 9:
                            break
                        number = number * 10 + np.int64(digit)
                        at += 1
                    digits = at - first
                    if digits == 0 or digits > _NUMBER_DIGITS or (digits > 1 and data[first] == _ZERO):
                        break
                    if kinds[field] == TEXT:
                        values[line, 2 * field] = first
                        values[line, 2 * field + 1] = at
                    else:
                        values[line, 2 * field] = number
            while at < size and data[at] == _SPACE:
                at += 1
            if at < size and data[at] == _COMMA:
                at += 1
                inside = True
            elif at < size and data[at] == _END_OBJECT:
                at += 1
                close[line] = at
                while at < size and data[at] == _RETURN:
                    at += 1
                plain[line] = at == size or data[at] == _NEWLINE
        if plain[line]:
            tokens = values[line, 2 * counted]
            if tokens >= 0 and tokens % block_size > 0 and n_ids[line] == tokens // block_size + 1:
                count -= 1
        else:
            count = before
            n_ids[line] = 0
            close[line] = start[line]
            at = start[line]
            while at < size and data[at] != _NEWLINE:
                at += 1
        at += 1
        line += 1
    return at, line, count
