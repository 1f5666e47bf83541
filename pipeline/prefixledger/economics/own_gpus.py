"""What a hit is worth where the GPUs are one's own: computation that is spared, time, memory and money."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prefixledger.config.kv_size import bytes_per_token
from prefixledger.economics.formulas import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from prefixledger.config.own_gpus import OwnGpus

_TERA, _GIGA, _MILLION = 1e12, 1e9, 1e6


@dataclass(frozen=True, slots=True)
class OwnHit:
    """A prefix that need not be computed.

    Attributes:
        prompt_tokens: Its length.
        flops: Operations that computing it takes.
        prefill_s: How long all cards take for them.
        prefill_tokens_per_s: What one card prefills at this length: ``prefill_tokens_per_s`` of a scenario's prices.
        kv_bytes: Memory that it takes.
        load_s: How long bringing it back from elsewhere takes.
        cost: What computing it costs.
        cost_per_million: The same for a million tokens of such prefixes.
    """

    prompt_tokens: int
    flops: float
    prefill_s: float
    prefill_tokens_per_s: float
    kv_bytes: int
    load_s: float
    cost: float
    cost_per_million: float


def prefill_flops(parameters: float, layers: int, hidden_size: int, prompt_tokens: int) -> float:
    """Return the operations of a prefill: two a parameter and token, and causal attention of each token to those before it."""
    return 2 * parameters * prompt_tokens + 2 * layers * hidden_size * float(prompt_tokens) ** 2


def own_hit(given: OwnGpus) -> OwnHit:
    """Return what a hit of this length is worth."""
    tokens, shape = given.prompt_tokens, given.model
    flops = prefill_flops(given.parameters, shape.layers, given.hidden_size, tokens)
    prefill_s = flops / (given.gpus * given.tflops * _TERA * given.utilisation)
    kv_bytes = int(tokens * bytes_per_token(shape))
    cost = prefill_s * given.gpus * given.gpu_hour / SECONDS_PER_HOUR
    return OwnHit(
        prompt_tokens=tokens,
        flops=flops,
        prefill_s=prefill_s,
        prefill_tokens_per_s=tokens / (prefill_s * given.gpus),
        kv_bytes=kv_bytes,
        load_s=kv_bytes / (given.load_gb_per_s * _GIGA),
        cost=cost,
        cost_per_million=cost * _MILLION / tokens,
    )
