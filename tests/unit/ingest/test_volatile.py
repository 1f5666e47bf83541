"""What looks as if it changed from call to call is found in text, and parts that are logged beside ids are read."""

from __future__ import annotations

import pytest

from prefixledger.ingest.cells import cell_parts
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.text.volatile import find_marks, masked, written


@pytest.mark.parametrize(
    ("text", "kind", "found", "value"),
    [
        ("now 10:00:05.", "time", "10:00:05", 36_005),
        ("now 9:05 pm", "time", "9:05 pm", 75_900),
        ("at 2026-11-20T10:00:05Z", "time", "10:00:05Z", 36_005),
        ("on 2026-11-20 we", "date", "2026-11-20", 20_777),
        ("on 20 November 2026,", "date", "20 November 2026", 20_777),
        ("on Nov 20, 2026,", "date", "Nov 20, 2026", 20_777),
        ("Friday, November 20th, 2026.", "date", "Friday, November 20th, 2026", 20_777),
        ("on 11/20/2026,", "date", "11/20/2026", 20_777),
        ("am 20.11.2026 um", "date", "20.11.2026", 20_777),
        ("ts=1795168805, ", "time", "1795168805", 36_005),
        ("ts=1795168805123 ", "time", "1795168805123", 36_005),
        ("id 123e4567-e89b-12d3-a456-426614174000.", "uuid", "123e4567-e89b-12d3-a456-426614174000", None),
        ("cch=a8f3e; end", "random", "a8f3e", None),
        ("snapshot 3m old", "number", None, None),
        ("page 65541 of", "number", "65541", 5),
    ],
)
def test_looks_are_told_apart(text: str, kind: str, found: str | None, value: int | None) -> None:
    """With the place, and what tells how it goes on: seconds of the day, days since 1970, low bits of a number."""
    marks = [mark for mark in find_marks(text.encode()) if mark.kind == kind]
    assert len(marks) == 1
    (mark,) = marks
    if found is not None:
        assert text[mark.start : mark.end] == found
    if value is not None:
        assert mark.value == value


def test_masks_of_texts_that_differ_in_marks_alone_are_equal() -> None:
    """Whatever the lengths of what differs; every letter of the mask knows its byte in the text."""
    one, two = b"step 9 at 9:59:59 of x", b"step 10 at 10:00:01 of x"
    masks = [masked(text, find_marks(text)) for text in (one, two)]
    assert masks[0][0].tolist() == masks[1][0].tolist()
    assert [ends[-1] for _, ends in masks] == [len(one), len(two)]
    assert masked(b"", [])[0].size == 0
    assert written(find_marks(one)) == f"number:5:1:9;time:10:7:{9 * 3_600 + 59 * 60 + 59}"


def test_words_and_names_are_no_marks() -> None:
    """Only what holds a digit can be one."""
    assert find_marks(b"Now is the time: may the second date be random. tool_a, v-next") == []


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"tokens": 3}, "wrong type"),
        ([{"tokens": 3}], "wrong type"),
        ([{"tokens": 3, "text": "a", "digest": "b"}], "wrong type"),
        ([{"tokens": 3, "text": "a", "kind": "weather"}], "unknown value"),
        ([{"tokens": 30, "text": "a"}], "token count"),
        ("[{", "broken JSON"),
    ],
)
def test_parts_that_cannot_be_are_refused(parts: object, why: str) -> None:
    """The reason names the field."""
    with pytest.raises(BadRecordError, match=why):
        cell_parts(parts, "parts", 20)


def test_parts_may_be_names_or_texts() -> None:
    """A digest stands for its text; a mark behind a part and its order-free digest are kept."""
    row = [
        {"tokens": 3, "text": "a"},
        {"tokens": 4, "digest": "d", "kind": "tools", "canonical": "c", "breakpoint": "ephemeral"},
    ]
    text, tools = cell_parts(row, "parts", 20)
    assert (text.kind, text.text, text.n_tokens, text.fingerprint) == ("message", b"a", 3, False)
    assert (tools.kind, tools.canonical, tools.breakpoint, tools.fingerprint) == (
        "tools",
        b"c",
        "ephemeral",
        True,
    )
