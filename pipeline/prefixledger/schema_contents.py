"""The table contract of contents: what prompts are made of, and what was changed between two of them."""

from __future__ import annotations

from prefixledger.schema import Column, Table

PARTS = Table(
    "parts",
    (
        Column("source", "text", "digest that names the source"),
        Column("source_line", "int", "line of the request in its source"),
        Column("part", "small", "0-based position in the prompt: tools, system, messages"),
        Column("kind", "text", "tools, system or message"),
        Column("role", "text", "who speaks, as sent", nullable=True),
        Column("raw_hash", "key", "digest of its text as sent, without what is no content"),
        Column("canonical_hash", "key", "the same with what senders write differently made equal"),
        Column("n_bytes", "int", "bytes of its text"),
        Column(
            "first_token",
            "int",
            "0-based position of its first token, on the scale of the keys; null where those are not made of parts",
            nullable=True,
        ),
        Column("n_tokens", "int", "tokens on the same scale", nullable=True),
        Column(
            "breakpoint",
            "text",
            "cache mark behind it, as sent; server_tool/5m: set by the service; off: none at the end of the prompt",
            nullable=True,
        ),
        Column("content_blocks", "small", "tools or content blocks in it"),
        Column("goes_on", "bool", "whether it is a content block of the same message as the part before it"),
    ),
)

TEXTS = Table(
    "texts",
    (
        Column("raw_hash", "key", "digest of the text"),
        Column("text", "bytes", "the text, kept only where that was asked for"),
    ),
)

CONTENTS = Table(
    "contents",
    (
        Column(
            "parent", "int", "row number of the piece before it; negative for the first piece of a prompt"
        ),
        Column("label_hi", "uint", "high half of the piece's name: a hash of its content alone"),
        Column("label_lo", "uint", "low half: 40 bits of the hash, then 24 of its length in tokens or bytes"),
        Column(
            "end_token", "int", "tokens from the start of the prompt to its end, on the scale of the keys"
        ),
        Column("kind", "text", "tools, system or message; null where that is not known", nullable=True),
    ),
)
"""Prompts as paths over pieces that are cut where their content says so, so that what an insertion shifts keeps its
names: token ids into pieces of 16 on average (8 to 64), text of 64 bytes (32 to 256), parts that were logged with
their lengths as they are. Written only where token ids, text or such parts are logged; block ids leave nothing here.
Names are equal for equal content, whatever namespace, source or parent."""

PIECES = Table(
    "pieces",
    (
        Column("label_hi", "uint", "high half of the name in contents"),
        Column("label_lo", "uint", "low half"),
        Column("mask_hi", "uint", "high half of the name of its mask: the piece without its marks"),
        Column("mask_lo", "uint", "low half"),
        Column(
            "marks",
            "text",
            "what may change from call to call: class:start:length:value by ';', start and length in bytes; a value is a "
            "second of the day, a day since 1970, 16 low bits of a number, or a hash",
        ),
    ),
)
"""Pieces of text that have marks; any other is its own mask. Pieces of one mask and two names differ in marks alone."""

CHANGES = Table(
    "changes",
    (
        Column("change", "int", "number of the change, in order of lookup and position"),
        Column("lookup", "int", "number of the lookup whose prompt was changed"),
        Column(
            "layer",
            "small",
            "0 for the first change of the prompt; each costs what stands between it and the next",
        ),
        Column("previous", "int", "lookup that served the same content before, and that it is told against"),
        Column("part", "text", "tools, system or message; null where the log does not say", nullable=True),
        Column("at_token", "int", "0-based position in the prompt of the first changed token"),
        Column("new_tokens", "int", "tokens that are new there"),
        Column("old_tokens", "int", "tokens of the earlier prompt that they stand for"),
        Column("old_prompt_tokens", "int", "known length of the earlier prompt"),
        Column(
            "differs",
            "text",
            "first field of the namespace that differs: model, adapter, cache_salt, namespace or template; null if none",
            nullable=True,
        ),
        Column(
            "tools_reordered",
            "bool",
            "both prompts have the same tools in another order, or with keys in another",
        ),
        Column("moved", "bool", "what is missing there stands elsewhere in the prompt"),
        Column("in_history", "bool", "it lies in what an earlier turn of the same session had brought"),
        Column(
            "slot",
            "int",
            "number of the text around it: equal for one place in several prompts",
            nullable=True,
        ),
        Column(
            "mark", "text", "class of what differs by its looks, where nothing else differs", nullable=True
        ),
        Column("mark_value", "int", "its value, see pieces", nullable=True),
        Column("old_mark_value", "int", "its value in the earlier prompt", nullable=True),
    ),
)
"""Places where a prompt departs from an earlier one whose content it has. A change is told only where behind it at
least 48 tokens, and no fewer than it brought new, were served before; new text at the tail is none. The changes of one
prompt follow each other: with the first undone its prompt would have hit up to the second, and so on, so each is charged
with the missed blocks up to the next. Two prompts are compared from their first piece to their last, so `previous` and
`at_token` are also where a comparison of both begins to differ."""
