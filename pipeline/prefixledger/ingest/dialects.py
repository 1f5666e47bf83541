"""The spellings of token usage as data: which field holds what, and whether the prompt count has cached tokens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Rule = Literal["inclusive", "exclusive"]
Ttl = Literal["5m", "1h", "other"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one service spells usage.

    Fields are written as paths, steps separated by ``/`` because names contain dots; of several the first that holds a
    number counts, and those after it must agree or be zero.

    Attributes:
        name: Its name.
        marks: Sets of fields; one of them complete makes a usage object one of this dialect.
        prompt: Tokens of the prompt.
        read: Tokens read from cache.
        write: Tokens written, whatever the TTL, with the TTL that is meant where no split is given.
        write_5m: Of them with a TTL of 5 minutes.
        write_1h: Of them with a TTL of 1 hour.
        write_other: Of them with another TTL: each of these is added.
        ttl_list: A list of ``{ttl, inputTokens}`` in place of the split.
        output: Tokens generated: each list of names is one addend.
        total: The sum that the service itself gives.
        added: Prompt tokens that are never in the prompt count: each is added.
        rule: Whether the prompt count includes what was read and written, unless rows prove otherwise.
        fixed: True where it is the service's own word, so that a row which contradicts it is impossible.
        zero_if_absent: True where the service leaves out zeros.
    """

    name: str
    marks: tuple[frozenset[str], ...]
    prompt: tuple[str, ...]
    read: tuple[str, ...]
    output: tuple[tuple[str, ...], ...]
    write: tuple[tuple[str, Ttl], ...] = ()
    write_5m: tuple[str, ...] = ()
    write_1h: tuple[str, ...] = ()
    write_other: tuple[str, ...] = ()
    ttl_list: str | None = None
    total: tuple[str, ...] = ()
    added: tuple[tuple[str, ...], ...] = ()
    rule: Rule = "inclusive"
    fixed: bool = False
    zero_if_absent: bool = False


def _marks(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in sets)


_DETAILS: Final = "prompt_tokens_details"
_CHAT_READ: Final = (
    f"{_DETAILS}/cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens",
    "cache_read_input_tokens", f"{_DETAILS}/cache_read_input_tokens",
)  # fmt: skip
_CHAT_WRITE: Final[tuple[tuple[str, Ttl], ...]] = (
    ("cache_creation_input_tokens", "5m"), (f"{_DETAILS}/cache_creation_tokens", "5m"),
    (f"{_DETAILS}/cache_write_tokens", "other"), (f"{_DETAILS}/created_cache_tokens", "other"),
    ("created_cache_tokens", "other"),
)  # fmt: skip
_SPLIT_5M: Final = ("cache_creation/ephemeral_5m_input_tokens",)
_SPLIT_1H: Final = ("cache_creation/ephemeral_1h_input_tokens",)
_OTHER_SPLIT: Final = (
    "cache_write_tokens_details/ttl_30m_tokens",
    "cache_write_tokens_details/ttl_12h_tokens",
)


def _chat(name: str, *marks: str, fixed: bool = False) -> Dialect:
    """Return a dialect of the shape that OpenAI's chat completions made common."""
    return Dialect(
        name=name,
        marks=_marks(*marks),
        prompt=("prompt_tokens",),
        read=_CHAT_READ,
        write=_CHAT_WRITE,
        write_5m=(*_SPLIT_5M, f"{_DETAILS}/cache_creation_token_details/ephemeral_5m_input_tokens"),
        write_1h=(*_SPLIT_1H, f"{_DETAILS}/cache_creation_token_details/ephemeral_1h_input_tokens"),
        write_other=tuple(f"{_DETAILS}/{path}" for path in _OTHER_SPLIT),
        output=(("completion_tokens",),),
        total=("total_tokens",),
        fixed=fixed,
    )


_OTEL: Final = "gen_ai.usage."
_INFERENCE: Final = "llm.token_count."

DIALECTS: Final[tuple[Dialect, ...]] = (
    Dialect(
        name="gemini",
        marks=_marks(
            "promptTokenCount", "prompt_token_count", "totalTokenCount", "total_token_count", "trafficType"
        ),
        prompt=("promptTokenCount", "prompt_token_count"),
        read=("cachedContentTokenCount", "cached_content_token_count"),
        output=(
            (
                "candidatesTokenCount",
                "candidates_token_count",
                "responseTokenCount",
                "response_token_count",
            ),
            ("thoughtsTokenCount", "thoughts_token_count"),
        ),
        total=("totalTokenCount", "total_token_count"),
        added=(("toolUsePromptTokenCount", "tool_use_prompt_token_count"),),
        fixed=True,
        zero_if_absent=True,
    ),
    Dialect(
        name="bedrock-converse",
        marks=_marks("inputTokens"),
        prompt=("inputTokens",),
        read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
        write=(("cacheWriteInputTokens", "5m"), ("cacheWriteInputTokenCount", "5m")),
        ttl_list="cacheDetails",
        output=(("outputTokens",),),
        total=("totalTokens",),
        rule="exclusive",
    ),
    Dialect(
        name="bedrock-log",
        marks=_marks("inputTokenCount"),
        prompt=("inputTokenCount",),
        read=("cacheReadInputTokenCount",),
        write=(("cacheWriteInputTokenCount", "5m"),),
        output=(("outputTokenCount",),),
        rule="exclusive",
    ),
    Dialect(
        name="cohere",
        marks=_marks("billed_units", "tokens"),
        prompt=("tokens/input_tokens",),
        read=("cached_tokens",),
        output=(("tokens/output_tokens",),),
    ),
    _chat("deepseek", "prompt_cache_hit_tokens prompt_cache_miss_tokens", fixed=True),
    _chat("mistral", "prompt_tokens num_cached_tokens"),
    _chat("groq", "prompt_tokens queue_time", "prompt_tokens prompt_time"),
    _chat("openrouter", "prompt_tokens cost_details", "prompt_tokens is_byok"),
    _chat("sglang", "prompt_tokens cached_tokens_details", fixed=True),
    _chat(
        "litellm", "prompt_tokens cache_read_input_tokens", "prompt_tokens cache_creation_input_tokens"
    ),
    Dialect(
        name="helicone",
        marks=_marks("prompt_cache_read_tokens", "prompt_cache_write_tokens"),
        prompt=("prompt_tokens",),
        read=("prompt_cache_read_tokens",),
        write=(("prompt_cache_write_tokens", "5m"),),
        output=(("completion_tokens",),),
        total=("total_tokens",),
    ),
    _chat("openai-chat", "prompt_tokens"),
    _chat("vllm", fixed=True),
    Dialect(
        name="openai-responses",
        marks=_marks("input_tokens input_tokens_details", "input_tokens cached_input_tokens"),
        prompt=("input_tokens",),
        read=("input_tokens_details/cached_tokens", "cached_input_tokens"),
        write=(("input_tokens_details/cache_write_tokens", "other"), ("cache_write_input_tokens", "other")),
        write_other=tuple(f"input_tokens_details/{path}" for path in _OTHER_SPLIT),
        output=(("output_tokens",),),
        total=("total_tokens",),
    ),
    Dialect(
        name="anthropic",
        marks=_marks(
            "input_tokens cache_read_input_tokens",
            "input_tokens cache_creation_input_tokens",
            "input_tokens cache_creation",
            "input_tokens",
        ),
        prompt=("input_tokens",),
        read=("cache_read_input_tokens",),
        write=(("cache_creation_input_tokens", "5m"),),
        write_5m=_SPLIT_5M,
        write_1h=_SPLIT_1H,
        output=(("output_tokens",),),
        total=("total_tokens",),
        rule="exclusive",
    ),
    Dialect(
        name="otel",
        marks=_marks(f"{_OTEL}input_tokens", f"{_OTEL}prompt_tokens"),
        prompt=(f"{_OTEL}input_tokens", f"{_OTEL}prompt_tokens"),
        read=tuple(
            _OTEL + name
            for name in (
                "cache_read.input_tokens",
                "cache_read_input_tokens",
                "input_tokens.cached",
                "cached_tokens",
            )
        ),
        write=(
            (f"{_OTEL}cache_creation.input_tokens", "5m"),
            (f"{_OTEL}cache_creation_input_tokens", "5m"),
        ),
        output=((f"{_OTEL}output_tokens", f"{_OTEL}completion_tokens"),),
        total=(f"{_OTEL}total_tokens", "llm.usage.total_tokens"),
    ),
    Dialect(
        name="openinference",
        marks=_marks(f"{_INFERENCE}prompt"),
        prompt=(f"{_INFERENCE}prompt",),
        read=(f"{_INFERENCE}prompt_details.cache_read", f"{_INFERENCE}prompt_details.cache_input"),
        write=((f"{_INFERENCE}prompt_details.cache_write", "5m"),),
        output=((f"{_INFERENCE}completion",),),
        total=(f"{_INFERENCE}total",),
    ),
    Dialect(
        name="langfuse",
        marks=_marks("input output", "input total"),
        prompt=("input", "input_tokens"),
        read=(
            "input_cached_tokens", "cache_read_input_tokens", "input_cache_read", "input_cached",
            "input_cache_read_tokens", "input_cache_read_input_tokens", "cache_read", "cached_tokens",
        ),
        write=(
            ("cache_creation_input_tokens", "5m"), ("input_cache_creation", "5m"), ("input_cache_write", "5m"),
            ("input_cache_creation_tokens", "5m"), ("input_cache_creation_input_tokens", "5m"),
        ),
        write_5m=("input_cache_creation_5m", "cache_creation_ephemeral_5m_input_tokens"),
        write_1h=("input_cache_creation_1h", "cache_creation_ephemeral_1h_input_tokens"),
        output=(("output", "output_tokens"),),
        total=("total", "total_tokens"),
        rule="exclusive",
    ),
)  # fmt: skip
"""In the order in which they are recognised; ``vllm`` has no mark of its own and is asked for by name."""

BY_NAME: Final = {dialect.name: dialect for dialect in DIALECTS}
