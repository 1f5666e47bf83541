"""KV-cache bytes of one token, by model shape, and the blocks that fit into a memory."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from prefixledger.errors import UsageError

if TYPE_CHECKING:
    from prefixledger.config.scenario import ModelShape

DTYPE_BYTES = {
    "float32": 4,
    "fp32": 4,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "fp16": 2,
    "half": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "int8": 1,
}
"""Bytes per element. 4-bit types are absent: their scale bytes depend on the engine, so give the number."""

FP8_DS_MLA_BYTES = 656
"""Bytes per token and layer of vLLM's ``fp8_ds_mla``: 512 fp8 values, 4 float32 scales, 64 bfloat16 rotary values."""


def bytes_per_token_and_gpu(model: ModelShape) -> Fraction:
    """Return the KV bytes that one token takes on one GPU of a replica.

    Full attention: ``layers * ceil(kv_heads / tp) * (head_dim + head_dim_v) * element bytes``; more GPUs than
    KV heads hold copies of a head, so beyond ``tp = kv_heads`` nothing is saved. Multi-head latent attention
    keeps one latent vector for K and V together, whole on every GPU.

    Raises:
        UsageError: The shape names neither attention completely, or its dtype has no known size.
    """
    if model.kv_lora_rank is not None:
        return model.layers * _latent_bytes(model)
    if model.kv_heads is None or model.head_dim is None:
        raise UsageError(
            "the model shape is incomplete",
            hint="give layers, kv_heads and head_dim, or layers, kv_lora_rank and qk_rope_head_dim",
        )
    heads = -(-model.kv_heads // model.tp)
    width = model.head_dim + (model.head_dim if model.head_dim_v is None else model.head_dim_v)
    return model.layers * heads * width * element_bytes(model.dtype)


def bytes_per_token(model: ModelShape) -> Fraction:
    """Return the KV bytes that one token takes on all GPUs of a replica together, copies included."""
    return model.tp * bytes_per_token_and_gpu(model)


def blocks_in(memory_bytes: int, model: ModelShape, block_size: int, *, per_gpu: bool = False) -> int:
    """Return how many whole blocks fit.

    Args:
        memory_bytes: Memory for KV blocks, after weights and activations.
        model: Shape of the model.
        block_size: Tokens per block.
        per_gpu: Whether the memory is that of one GPU; else it is that of the whole replica.

    Returns:
        Blocks. Capacities are usable blocks, so the null block that vLLM keeps for itself is not taken off.
    """
    per_token = bytes_per_token_and_gpu(model) if per_gpu else bytes_per_token(model)
    return int(memory_bytes // (per_token * block_size))


def element_bytes(dtype: str | float) -> Fraction:
    """Return the bytes of one element of a named type, or the given number itself.

    Raises:
        UsageError: The name is unknown.
    """
    if not isinstance(dtype, str):
        return Fraction(str(dtype))
    try:
        return Fraction(DTYPE_BYTES[dtype])
    except KeyError:
        raise UsageError(
            f"no known size for KV dtype {dtype!r}",
            hint=f"use one of {', '.join(DTYPE_BYTES)}, or the number of bytes per element, scales included",
        ) from None


def _latent_bytes(model: ModelShape) -> Fraction:
    if model.qk_rope_head_dim is None:
        raise UsageError("kv_lora_rank needs qk_rope_head_dim beside it", hint="DeepSeek-V3 has 512 and 64")
    if model.dtype == "fp8_ds_mla":
        return Fraction(FP8_DS_MLA_BYTES)
    assert model.kv_lora_rank is not None
    return (model.kv_lora_rank + model.qk_rope_head_dim) * element_bytes(model.dtype)
