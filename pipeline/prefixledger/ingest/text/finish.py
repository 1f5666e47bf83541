"""Gives keys to the rows of an input whose prompt is text, once the whole input is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.ingest.forest_kernel import roots_of, sums_down
from prefixledger.ingest.text.cutters import ByteCutter, TokenCutter
from prefixledger.ingest.text.keys import UnitKeys, add_blocks
from prefixledger.ingest.text.scale import APPROXIMATE, Scale, choose_scale
from prefixledger.kernels.paths import climb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.collect import Collected
    from prefixledger.ingest.namespaces import Namespace
    from prefixledger.ingest.text.tools import TextTools

SCOPE: Final = "text"
"""Scope of a namespace whose rows are text, until it is known how they are cut."""
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class TextKeys:
    """What text said of the rows of an input.

    Attributes:
        n_blocks: int64[rows], full blocks with a key, -1 where the keys are not made of text.
        estimate: int64[rows], prompt tokens where no part of the request tells them, else -1.
        unit_tokens: int64[units of the forest of units], tokens from the start of the prompt.
        unit_root: int64[units of the forest of units], namespace.
        scales: Sizes of blocks in bytes; none with a tokenizer.
        aligned: Whether the pieces that were hashed are the parts of prompts; not so where a template made them.
        notes: Sentences for the report.
    """

    n_blocks: NDArray[np.int64]
    estimate: NDArray[np.int64]
    unit_tokens: NDArray[np.int64]
    unit_root: NDArray[np.int64]
    scales: tuple[Scale, ...]
    aligned: bool
    notes: tuple[str, ...]

    def set_on(self, columns: dict[str, pa.Array], rows: NDArray[np.int64]) -> None:
        """Put in what rows that were put aside before it was known lack.

        Args:
            columns: Some rows, by column; changed in place.
            rows: int64[k], their numbers.
        """
        found, estimate = self.n_blocks[rows], self.estimate[rows]
        own = pa.array(found >= 0)
        columns["n_blocks"] = pc.if_else(own, pa.array(found, pa.int32()), columns["n_blocks"])
        columns["prompt_tokens"] = pc.coalesce(
            columns["prompt_tokens"], pa.array(estimate, mask=estimate < 0)
        )


def make_keys(
    collected: Collected, tools: TextTools, earlier: Sequence[Mapping[str, Any]]
) -> TextKeys | None:
    """Cut all text of an input, and set the last block of each row.

    Args:
        collected: The input, read to its end; its forest, namespaces and rows are changed.
        tools: How text is cut.
        earlier: Scales of the inputs that the workspace holds.

    Returns:
        What is known now; None where no row is text.
    """
    store = collected.text
    if not store.rows:
        return None
    rows = np.array(store.rows, np.int64)
    unit_node = np.array(store.unit_node, np.int64)
    logged = logged_lengths(collected)
    scales = _scales(collected, tools, earlier, logged)
    sizes = {number: scale.block_size for number, scale in scales.items()}
    tokens = None if tools.tokenizer is None else TokenCutter(store, tools.tokenizer, sizes)
    units = add_blocks(store, tokens or ByteCutter(store, scales), collected.forest)
    for number, scale in scales.items():
        collected.namespaces.rename(number, tools.scope(scale.bytes_per_block))
    keyed = np.flatnonzero(np.frombuffer(bytes(store.hashed), np.bool_))
    keys = _of_rows(collected, rows[keyed], unit_node[keyed], units, logged)
    distinct = sorted(set(scales.values()), key=lambda scale: (scale.model or "", scale.block_size))
    used = tuple(distinct) if tokens is None else ()
    total = int(_row_bytes(collected)[unit_node[keyed][unit_node[keyed] >= 0]].sum())
    told = _byte_notes(used) if tokens is None else _token_notes(tools, tokens.tokenised_bytes, total)
    aligned = tools.plan.template is None
    return TextKeys(*keys, units.tokens, units.root, used, aligned, tuple(told) if keyed.size else ())


def logged_lengths(collected: Collected) -> NDArray[np.int64]:
    """Return int64[rows], the prompt length that some part of each request logs, -1 where none does."""
    length = np.array(collected.rows.prompt_tokens, np.int64)
    add = collected.conventions.settle()[0]
    length = np.where(length >= 0, length + add, -1)
    leader = request_of(collected)
    of_request = np.full_like(length, -1)
    np.maximum.at(of_request, leader, length)
    return of_request[leader]


def request_of(collected: Collected) -> NDArray[np.int64]:
    """Return int64[rows], the row that stands for the request each row is a part of."""
    leader = collected.links.leaders()
    partner = np.array(collected.rows.partner, np.int64)
    is_answer = np.frombuffer(bytes(collected.rows.is_answer), np.bool_)
    return leader[np.where(is_answer & (partner >= 0), partner, np.arange(partner.size))]


def _scales(
    collected: Collected,
    tools: TextTools,
    earlier: Sequence[Mapping[str, Any]],
    logged: NDArray[np.int64],
) -> dict[int, Scale]:
    """Return the scale of each namespace whose rows are text; where there is a tokenizer only its block size counts."""
    store = collected.text
    rows, node = np.array(store.rows, np.int64), np.array(store.unit_node, np.int64)
    listed = collected.namespaces.listed()
    texts = {number: space for number, space in enumerate(listed) if space.scope == SCOPE}
    # A length of which only a part was logged as text, or of several prompts together, measures nothing.
    whole = collected.row_spill.table()["prompt_complete"].to_numpy()
    known = (node >= 0) & (logged[rows] > 0) & whole[rows]
    roots = roots_of(store.unit_forest.parent)
    root = roots[np.maximum(node, 0)] if roots.size else np.zeros_like(node)
    n_bytes = np.bincount(root[known], _row_bytes(collected)[node[known]], len(listed))
    n_tokens = np.bincount(root[known], logged[rows[known]], len(listed))
    sums: dict[str | None, list[int]] = {}
    for number, space in texts.items():
        held = sums.setdefault(space.model, [0, 0])
        held[0] += int(n_bytes[number])
        held[1] += int(n_tokens[number])
    return {
        number: choose_scale(
            space.model, space.block_size, *_sum(sums, space), () if tools.tokenizer else earlier
        )
        for number, space in texts.items()
    }


def _sum(sums: Mapping[str | None, Sequence[int]], space: Namespace) -> tuple[int, int]:
    n_bytes, n_tokens = sums[space.model]
    return n_bytes, n_tokens


def _row_bytes(collected: Collected) -> NDArray[np.int64]:
    """Return int64[units of the forest of units], bytes from the start of the prompt."""
    forest = collected.text.unit_forest
    return np.asarray(
        sums_down(forest.parent, collected.text.unit_lengths()[forest.label_lo.astype(np.int64)])
    )


def _of_rows(
    collected: Collected,
    rows: NDArray[np.int64],
    unit_node: NDArray[np.int64],
    units: UnitKeys,
    logged: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Set the last block of rows, and return their blocks and estimated lengths.

    A prompt never has more keys than its logged length has full blocks: what text says beyond it is left out.
    """
    facts = collected.rows
    has_units = unit_node >= 0
    at = np.maximum(unit_node, 0)
    empty = not units.node.size
    node = np.full(rows.size, -1) if empty else np.where(has_units, units.node[at], -1)
    n_blocks = np.zeros(rows.size, np.int64) if empty else np.where(has_units, units.n_blocks[at], 0)
    tokens = np.zeros(rows.size, np.int64) if empty else np.where(has_units, units.tokens[at], 0)
    tokens = np.where(has_units, np.maximum(tokens, 1), 0)  # a prompt of one letter is one token
    sizes = np.array([space.block_size for space in collected.namespaces.listed()], np.int64)
    size = np.ones(rows.size, np.int64) if empty else np.where(has_units, sizes[units.root[at]], 1)
    most = np.where(logged[rows] >= 0, logged[rows] // size, n_blocks)
    node = climb(np.asarray(collected.forest.parent), node, np.maximum(n_blocks - most, 0))
    n_blocks = np.minimum(n_blocks, most)
    total = np.full((2, len(facts.record)), -1, np.int64)
    total[0, rows] = n_blocks
    total[1, rows] = np.where(logged[rows] < 0, tokens, -1)
    for row, last in zip(rows.tolist(), node.tolist(), strict=True):
        facts.node[row] = last
        facts.no_length[row] = 0
    return total[0], total[1]


def _byte_notes(scales: Sequence[Scale]) -> Iterator[str]:
    """Say how text was cut by bytes."""
    sizes = sorted({(scale.block_size, scale.bytes_per_block) for scale in scales})
    shown = ", ".join(f"{size} tokens as {width} bytes" for size, width in sizes[:_NAMED])
    more = f" and {len(sizes) - _NAMED} more sizes" if len(sizes) > _NAMED else ""
    origins = {scale.origin for scale in scales}
    why = {
        "measured": "measured on the logged prompt tokens of each model",
        "earlier": "as measured on an earlier input",
        "default": "4 bytes a token where too few prompt tokens are logged to measure",
    }
    reasons = "; ".join(text for origin, text in why.items() if origin in origins)
    yield (
        f"{APPROXIMATE}: text without token ids or a tokenizer is cut by bytes, {shown}{more} ({reasons}); "
        "lengths and hits in tokens are estimates, equal beginnings of text are not"
    )


def _token_notes(tools: TextTools, tokenised: int, total: int) -> Iterator[str]:
    """Say how text was cut by tokens."""
    assert tools.tokenizer is not None
    share = (
        f", {tokenised / total:.1%} of {total / 1e6:,.1f} MB of prompts after de-duplication" if total else ""
    )
    yield f"text tokenised by {tools.tokenizer.name}{share}"
    if tools.plan.template is None:
        yield (
            f"{APPROXIMATE}: without a chat template (--template) the tokens between messages are not known, "
            "so lengths and block borders are estimates"
        )
