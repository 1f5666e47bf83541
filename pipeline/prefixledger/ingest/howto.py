"""Which switch of which engine or gateway makes a log that can be replayed, and what can be said without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Keys = Literal["exact", "from text", "none"]


@dataclass(frozen=True, slots=True)
class HowTo:
    """One way to a log.

    Attributes:
        who: The engine, gateway or provider.
        switch: What to turn on.
        keys: Whether block keys are ``exact``, recomputed ``from text``, or there are ``none``.
        gives: What can be said then.
        lacks: What cannot.
        format: Format that reads it, see ``prefixledger formats``.
    """

    who: str
    switch: str
    keys: Keys
    gives: str
    lacks: str
    format: str


HOW: Final[tuple[HowTo, ...]] = (
    HowTo(
        "NVIDIA Dynamo",
        "DYN_REQUEST_TRACE=1 at the frontend (DYN_REQUEST_TRACE_SINKS=jsonl_gz); session headers, or rows lack the model",
        "exact",
        "hits, causes, routing: block hashes, replicas, latency, cached tokens",
        "n > 1 and multimodal requests, and whatever the best-effort sink dropped",
        "dynamo",
    ),
    HowTo(
        "SGLang",
        "--log-requests --log-requests-level 3 --log-requests-format json (level 2 cuts every list at 2,048 items)",
        "exact",
        "hits and causes: token ids of the templated prompt, cached tokens, rank",
        "the prompt of requests that another level cut",
        "sglang",
    ),
    HowTo(
        "vLLM",
        'clients send "return_token_ids": true and the gateway logs bodies; --enable-prompt-tokens-details for cached tokens',
        "exact",
        "hits, causes and observed cache use",
        "the replica, unless the gateway logs it",
        "mapped (token_ids = …)",
    ),
    HowTo(
        "vLLM",
        "--enable-log-requests with VLLM_LOGGING_LEVEL=DEBUG and without --max-log-len: prompt_token_ids on every line",
        "exact",
        "hits and causes",
        "usage, latency, year and zone of the times (--year, --zone)",
        "vllm-text",
    ),
    HowTo(
        "any engine or router that hashes blocks",
        "write one line a request: time, prompt tokens, block hashes, replica; or the Mooncake or Bailian form",
        "exact",
        "hits and causes",
        "what no column holds",
        "mapped (block_ids = …), mooncake, bailian",
    ),
    HowTo(
        "a proxy in front of OpenAI, Anthropic, Gemini or an engine",
        "log request and response bodies, one JSON object a line; for streams stream_options.include_usage",
        "from text",
        "hits and causes, next to observed cache use",
        "exact tokens: give --tokenizer and --template for open models, else blocks are cut by bytes",
        "api-exchange",
    ),
    HowTo(
        "LiteLLM",
        "a payload callback (s3_v2, gcs, generic_api …) with message logging on; else store_prompts_in_spend_logs",
        "from text",
        "hits and causes, tenants, deployments, observed cache use",
        "prompts above 2,048 characters in SpendLogs: they are cut in the middle; payloads are whole",
        "litellm",
    ),
    HowTo(
        "AWS Bedrock",
        "model invocation logging to S3 with text data",
        "from text",
        "hits and causes, identities, observed cache use",
        "bodies above 100 KB: they are objects of their own beside the log",
        "bedrock",
    ),
    HowTo(
        "Vertex AI",
        "request-response logging to BigQuery at a sampling rate of 1",
        "from text",
        "hits and causes, observed cache use",
        "reuse between requests that a lower rate leaves out; contents of explicit caches",
        "vertex",
    ),
    HowTo(
        "Azure API Management",
        "GatewayLlmLogs with messages",
        "from text",
        "hits and causes, subscriptions",
        "cached tokens: the log has no column for them",
        "azure-openai",
    ),
    HowTo(
        "OpenTelemetry, OpenInference, Langfuse, Helicone",
        "turn on the capture of content: gen_ai.input.messages, input.value, the io field group, --include-body",
        "from text",
        "hits and causes, sessions, observed cache use",
        "what a size limit of the collector cuts off; spans that were sampled away",
        "otel-genai, openinference, langfuse, helicone",
    ),
    HowTo(
        "agents without a proxy",
        "LMCache agent traces: timestamp, input, output, session_id",
        "from text",
        "hits within and between sessions",
        "token counts, models, replicas",
        "lmcache",
    ),
    HowTo(
        "Claude Code, Codex",
        "nothing: their transcripts are on disk",
        "none",
        "observed hit rate, write and read tokens, gaps between calls, cost",
        "causes that need keys: system prompt and tools are not in the transcripts",
        "claude-code, codex",
    ),
    HowTo(
        "access logs and spend tables (Envoy, SpendLogs without prompts, Helicone without bodies)",
        "add cached tokens to the log (Envoy: a CachedInputToken cost), request id and upstream host",
        "none",
        "observed hit rate and cost by model, tenant, replica and hour; causes that usage and time prove",
        "any other cause, what-ifs, curves: nothing says which tokens two prompts share",
        "envoy, litellm-spend, helicone",
    ),
    HowTo(
        "lengths and times (Azure traces, BurstGPT), usage and cost pages of providers",
        "none helps afterwards",
        "none",
        "load, and totals by bucket",
        "every hit rate that the log does not state itself; these are never replayed",
        "azure-lengths, usage-totals",
    ),
)
"""Best first: exact keys, keys from text, usage alone."""
