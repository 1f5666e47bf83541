"""Tells from the parameters of a request whether the engine looks its prompt up at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHIN: Final = ("sampling_params", "extra_body", "vllm_xargs", "extra_args")
_SAID: Final = re.compile(r"\bskip_reading_prefix_cache=(?P<said>True|False)\b")
_PROMPT_LOGPROBS: Final = re.compile(r"\bprompt_logprobs=-?\d")
_POOLS_TOKENS: Final = re.compile(r"\bPoolingParams\(.*?\btask='token_(?:embed|classify)'")


def is_bypassed(params: Mapping[str, Any]) -> bool | None:
    """Return whether a request skips the lookup; None where it does not say.

    vLLM: ``skip_reading_prefix_cache`` as sent, else whoever asks for logprobs of the prompt, which only a full prefill
    has (``prompt_logprobs``, 0 too; with completions ``echo`` and ``logprobs``). SGLang: logprobs of the input from its
    first token on. What such a request computes is stored for others all the same.

    Args:
        params: Body of a request, or the object of an engine's log.
    """
    held = [params, *(inner for name in _WITHIN if isinstance(inner := params.get(name), dict))]
    said = [inner["skip_reading_prefix_cache"] for inner in held if "skip_reading_prefix_cache" in inner]
    if said and isinstance(said[0], bool):
        return said[0]
    for inner in held:
        if type(inner.get("prompt_logprobs")) is int:
            return True
        if inner.get("echo") is True and type(inner.get("logprobs")) is int:
            return True
        if inner.get("return_logprob") is True and inner.get("logprob_start_len") == 0:
            return True
    return None


def is_bypassed_text(params: str) -> bool | None:
    """Return the same for parameters as vLLM prints them: ``SamplingParams(…)`` or ``PoolingParams(…)``."""
    said = _SAID.search(params)
    if said is not None:
        return said["said"] == "True"
    return True if _PROMPT_LOGPROBS.search(params) or _POOLS_TOKENS.search(params) else None
