"""A model on GPUs of one's own, as a file describes it: its size and shape, the machines, and their price."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from prefixledger.config.models import ModelShape  # noqa: TC001  # pydantic looks it up
from prefixledger.config.toml_file import Part

_Above = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class OwnGpus(Part):
    """What a hit is worth on GPUs of one's own follows from this.

    Attributes:
        parameters: Parameters that compute a token; of a mixture of experts the active ones.
        hidden_size: Width of the model.
        model: Its shape, as in a scenario.
        gpus: Cards that one request runs on.
        tflops: Peak of one card in the type that is computed in, TFLOP/s.
        utilisation: Share of the peak that prefill reaches.
        gpu_hour: Price of a card for an hour.
        load_gb_per_s: How fast stored blocks come back to the cards, GB/s.
        prompt_tokens: Length of the prefix that hits.
    """

    parameters: _Above
    hidden_size: Annotated[int, Field(ge=1)]
    model: ModelShape
    gpus: Annotated[int, Field(ge=1)] = 1
    tflops: _Above
    utilisation: Annotated[float, Field(gt=0, le=1)] = 0.5
    gpu_hour: _Above
    load_gb_per_s: _Above = 50.0
    prompt_tokens: Annotated[int, Field(ge=1)] = 32_768
