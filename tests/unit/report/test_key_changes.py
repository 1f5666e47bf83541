"""Changes of prompts in words: how, what varies, where, and what each cost."""

from __future__ import annotations

from dataclasses import replace

from prefixledger.report.key_changes import KeyChange, advice, described, key_changes

CLOCK = KeyChange("prefix_edited", "system", "time of day", 0, 4_322, 45_000_000, 0, 12, 12)


def test_a_stamp_is_described_by_what_it_is_and_where_it_stands() -> None:
    """And by what stands behind it; the advice is to move it."""
    assert described([CLOCK]) == (
        ": the prompt was edited by a time of day at token 0 in the system prompt, 12 tokens long (prefix edited), "
        "45 million tokens behind it in 4,322 requests"
    )
    assert advice([CLOCK]) == "move a time of day behind what stays the same, or into the last message"


def test_layers_are_named_in_order_of_their_cost_and_trifles_are_not() -> None:
    """A second change says that it stands behind a first; under 2 % of the tokens it is left out."""
    second = KeyChange("tools_reordered", "tools", "reordering", 1, 1, 2_000_000, 400, 9, 9)
    third = KeyChange("prefix_edited", None, None, 2, 5, 400_000, 900, 1, 0)
    text = described([CLOCK, second, third])
    assert "; behind that, the same tools came in another order" in text
    assert "2 million tokens behind it in 1 request" in text
    assert "token 900" not in text


def test_what_the_log_does_not_tell_is_not_told() -> None:
    """Token ids have no parts and no looks, and other text is no edit; without changes there is nothing to say."""
    unknown = KeyChange("prefix_edited", None, None, 0, 2, 100, 3, 0, 5)
    assert described([unknown]) == (
        ": the same content came behind something else at token 3 (prefix edited), 100 tokens behind it in 2 requests"
    )
    assert described([replace(unknown, varies="free text")]) == described([unknown])
    assert described([replace(unknown, varies="reordering")]) == (
        ": the same content came in another order from token 3 on (prefix edited), 100 tokens behind it in 2 requests"
    )
    assert (described([]), advice([])) == ("", None)


def test_rows_of_the_mart_become_changes() -> None:
    """Columns that the sentence does not need are left out."""
    row = {name: getattr(CLOCK, name) for name in KeyChange.__dataclass_fields__}
    assert key_changes([{**row, "n_places": 1, "first_at": None}]) == (CLOCK,)
