"""The picture of a bad record shows its structure and never its text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from prefixledger.ingest.redact import MAX_EXCERPT, redact

KNOWN = frozenset({"timestamp", "hash_ids", "prompt"})


def test_structure_and_numbers_stay() -> None:
    """Known names, brackets, numbers and literals are shown, strings and unknown names are not."""
    shown = redact(b'{"timestamp": 12.5, "prompt": "my secret", "hash_ids": [1, 2, 3, 4], "ok": true}', KNOWN)
    assert shown == '{"timestamp": 12.5, "prompt": "…", "hash_ids": [1, 2, …], "…": true}'


def test_a_string_without_end_is_hidden() -> None:
    """The text of a record that was cut inside a string does not come out."""
    assert redact(b'{"prompt": "my secret is', KNOWN) == '{"prompt": "…"'
    assert redact(b'{"prompt": "my secret \\', KNOWN) == '{"prompt": "…"'


WORDS = st.text(alphabet="ghjklmwz", min_size=3, max_size=12)


@given(
    st.lists(WORDS, min_size=1, max_size=30),
    st.integers(0, 200),
    st.sampled_from(["json", "text", "csv", "cut"]),
)
def test_no_word_survives(words: list[str], cut: int, form: str) -> None:
    """Whatever the form and wherever it breaks, no word of the text is in the excerpt, and it is short."""
    text = " ".join(words)
    raw = {
        "json": json.dumps({"timestamp": 1, "prompt": text}),
        "text": text,
        "csv": f'1,"{text}",{words[0]}',
        "cut": json.dumps({"prompt": text})[: cut + 1],
    }[form]
    shown = redact(raw.encode(), KNOWN)
    assert len(shown) <= MAX_EXCERPT
    assert not any(word in shown for word in words)
