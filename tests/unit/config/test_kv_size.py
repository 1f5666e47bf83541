"""KV bytes of a token follow from the shape of the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefixledger.config.kv_size import blocks_in, bytes_per_token, bytes_per_token_and_gpu, element_bytes
from prefixledger.config.scenario import ModelShape
from prefixledger.errors import UsageError

LLAMA_8B = ModelShape(layers=32, kv_heads=8, head_dim=128)
LLAMA_70B = ModelShape(layers=80, kv_heads=8, head_dim=128, tp=8)
DEEPSEEK_V3 = ModelShape(layers=61, kv_lora_rank=512, qk_rope_head_dim=64, tp=8)


def test_known_models_have_their_known_size() -> None:
    """Published figures: 131,072 B for Llama 8B, 327,680 B for 70B, 70,272 B a GPU for DeepSeek-V3."""
    assert bytes_per_token(LLAMA_8B) == 131_072
    assert bytes_per_token(LLAMA_70B) == 327_680
    assert bytes_per_token_and_gpu(LLAMA_70B) == 40_960
    assert bytes_per_token_and_gpu(DEEPSEEK_V3) == 70_272


def test_sixty_gib_hold_30720_blocks_of_llama_8b() -> None:
    """16 tokens are 2 MiB."""
    assert blocks_in(60 * 2**30, LLAMA_8B, 16) == 30_720


def test_gpus_beyond_the_heads_save_nothing() -> None:
    """With more GPUs than KV heads each GPU keeps one whole head."""
    shape = ModelShape(layers=32, kv_heads=2, head_dim=128)
    two, eight = (shape.model_copy(update={"tp": tp}) for tp in (2, 8))
    assert bytes_per_token_and_gpu(eight) == bytes_per_token_and_gpu(two)
    assert bytes_per_token(eight) == 4 * bytes_per_token(two)


def test_latent_attention_is_whole_on_every_gpu() -> None:
    """The latent vector is not divided, so a replica of 8 GPUs holds 8 copies."""
    assert bytes_per_token(DEEPSEEK_V3) == 8 * 70_272
    sparse = DEEPSEEK_V3.model_copy(update={"dtype": "fp8_ds_mla"})
    assert bytes_per_token_and_gpu(sparse) == 61 * 656


@given(st.integers(1, 16), st.integers(1, 16), st.integers(1, 2**40))
def test_memory_of_one_gpu_or_of_all_says_the_same(heads: int, tp: int, memory: int) -> None:
    """``tp`` times the memory of one GPU is the memory of the replica."""
    shape = ModelShape(layers=4, kv_heads=heads, head_dim=64, tp=tp)
    assert blocks_in(memory, shape, 16, per_gpu=True) == blocks_in(memory * tp, shape, 16)


def test_values_may_be_narrower_than_keys() -> None:
    """head_dim_v counts for V alone."""
    shape = ModelShape(layers=1, kv_heads=1, head_dim=192, head_dim_v=128, dtype="fp8")
    assert bytes_per_token(shape) == 320


def test_a_number_of_bytes_takes_scales_into_account() -> None:
    """0.5625 B is fp4 with one byte of scale for 16 values."""
    assert bytes_per_token(ModelShape(layers=1, kv_heads=1, head_dim=16, dtype=0.5625)) == 18
    with pytest.raises(UsageError, match="fp4"):
        element_bytes("fp4")
