"""One name for each provider, whatever a gateway or an instrumentation calls it."""

from __future__ import annotations

from typing import Final

_NAMES: Final = {
    "amazon_bedrock": "bedrock", "aws": "bedrock", "aws.bedrock": "bedrock", "aws_bedrock": "bedrock",
    "bedrock_converse": "bedrock", "az.ai.inference": "azure", "az.ai.openai": "azure", "azure.ai.inference": "azure",
    "azure.ai.openai": "azure", "azure_ai": "azure", "azure_openai": "azure", "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini", "gcp.vertex_ai": "vertex", "google": "gemini", "google_genai": "gemini",
    "hosted_vllm": "vllm", "mistral_ai": "mistral", "mistralai": "mistral", "text-completion-openai": "openai",
    "vertex_ai": "vertex", "vertex_ai_beta": "vertex", "vertexai": "vertex", "x_ai": "xai", "x-ai": "xai",
}  # fmt: skip


def provider_name(name: str | None) -> str | None:
    """Return the product's name of a provider: lower case, one of several spellings.

    Example:
        >>> provider_name("AWS.Bedrock"), provider_name("openai"), provider_name("")
        ('bedrock', 'openai', None)
    """
    if not name:
        return None
    lower = name.lower()
    return _NAMES.get(lower, lower)
