"""How many bytes of text stand for one block of tokens where no tokenizer is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BYTES_PER_TOKEN: Final = 4.0
"""What English text and code come to under the tokenizers of today, where nothing better is known."""
APPROXIMATE: Final = "approximate keys"
"""Begins every note of an input whose text was not cut as its engine cuts it; reports look for it."""
MIN_TOKENS: Final = 2_048
"""Fewer logged prompt tokens than this measure nothing: a short prompt is half template."""
_LEAST, _MOST = 1.0, 16.0
"""Outside of this it is no text that was measured, but images or a prompt of which a part was not logged."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a block in bytes; the same for every prompt of a model, so that equal beginnings have equal keys.

    Attributes:
        model: Model; None where the log names none.
        block_size: Tokens a block.
        bytes_per_block: Bytes that stand for them.
        origin: ``measured`` on the rows of this input, ``earlier`` input's measure, or the ``default``.
    """

    model: str | None
    block_size: int
    bytes_per_block: int
    origin: str

    @property
    def bytes_per_token(self) -> float:
        """Bytes that stand for one token."""
        return self.bytes_per_block / self.block_size

    def to_json(self) -> dict[str, Any]:
        """Return it as the manifest holds it."""
        return {
            "model": self.model,
            "block_size": self.block_size,
            "bytes_per_block": self.bytes_per_block,
            "origin": self.origin,
        }


def choose_scale(
    model: str | None, block_size: int, n_bytes: int, n_tokens: int, earlier: Iterable[Mapping[str, Any]]
) -> Scale:
    """Choose the scale of a model for one input.

    An earlier measure of the same workspace wins, so that the files of one service, cut by the hour, share their keys;
    else the whole input is measured, so that no order of its rows matters.

    Args:
        model: The model.
        block_size: Tokens a block.
        n_bytes: Bytes of all prompts of the model whose length is logged.
        n_tokens: Their logged lengths.
        earlier: Scales of the inputs before, see ``Scale.to_json``.
    """
    for held in earlier:
        if held["origin"] != "default" and (held["model"], held["block_size"]) == (model, block_size):
            return Scale(model, block_size, held["bytes_per_block"], "earlier")
    if n_tokens < MIN_TOKENS:
        return Scale(model, block_size, round(BYTES_PER_TOKEN * block_size), "default")
    ratio = min(max(n_bytes / n_tokens, _LEAST), _MOST)
    return Scale(model, block_size, max(round(ratio * block_size), 1), "measured")
