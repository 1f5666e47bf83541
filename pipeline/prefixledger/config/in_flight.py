"""How long requests hold their blocks, what their output adds, and in what pieces a prompt is shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from prefixledger.config.registry import OUTPUTS, RESIDENCES
from prefixledger.config.toml_file import Part, must_exist, refusal

SGLANG_CHUNK_TOKENS = 8192
"""``chunked_prefill_size`` of SGLang on GPUs of 60 to 160 GB; smaller ones take 2048 or 4096, larger ones 16384."""


def _one_of(names: tuple[str, ...], what: str) -> BeforeValidator:
    return BeforeValidator(lambda value: must_exist(str(value), names, what))


class InFlight(Part):
    """How long a request holds its blocks, and what its output adds."""

    residence: Annotated[str, _one_of(RESIDENCES, "residence")] = "auto"
    output: Annotated[str, _one_of(OUTPUTS, "output mode")] = "auto"
    prefill_ms_per_token: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    decode_ms_per_token: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    hits_shorten_prefill: bool = True
    max_running: Annotated[int, Field(ge=1)] | None = None
    chunked_prefill_tokens: Annotated[int, Field(ge=0)] | None = None

    @property
    def chunk_tokens(self) -> int | None:
        """Prompt tokens that SGLang computes, then shows, in one go; None: a whole prompt."""
        given = self.chunked_prefill_tokens
        return SGLANG_CHUNK_TOKENS if given is None else given or None

    @model_validator(mode="after")
    def _estimable(self) -> InFlight:
        rates = (self.prefill_ms_per_token, self.decode_ms_per_token)
        if (self.residence == "estimated" or any(r is not None for r in rates)) and None in rates:
            raise refusal(
                "an estimated residence needs prefill_ms_per_token and decode_ms_per_token",
                "give both; 0 says that one of them takes no time",
            )
        return self
