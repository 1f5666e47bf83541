"""Who served a call and who made it: provider, tenant, session, replica, release, from bodies and envelopes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.exchange import Exchange
    from prefixledger.ingest.records import Row

_HOSTS: Final = (
    ("openai.azure.com", "azure"), ("cognitiveservices.azure.com", "azure"), ("api.openai.com", "openai"),
    ("anthropic.com", "anthropic"), ("generativelanguage.googleapis", "gemini"), ("aiplatform.googleapis", "vertex"),
    ("bedrock", "bedrock"), ("deepseek.com", "deepseek"), ("mistral.ai", "mistral"), ("groq.com", "groq"),
    ("openrouter.ai", "openrouter"), ("api.x.ai", "xai"), ("cohere", "cohere"), ("cerebras.ai", "cerebras"),
)  # fmt: skip
_PATHS: Final = (
    ("/anthropic/", "anthropic"), ("/bedrock/", "bedrock"), ("/google-vertex/", "vertex"), ("/groq/", "groq"),
    ("/openai/", "openai"),
)  # fmt: skip
"""How gateways name the service behind them."""
_MODELS: Final = (
    (re.compile(r"(?:anthropic[./])?claude"), "anthropic"),
    (re.compile(r"(?:openai/)?(?:gpt-[345]|chatgpt|o[134](?:-|$)|text-davinci|computer-use)"), "openai"),
    (re.compile(r"(?:models/|google/)?gemini"), "gemini"),
    (re.compile(r"deepseek-(?:chat|reasoner)$"), "deepseek"),
)
_DIALECTS: Final = {
    "gemini": "gemini", "bedrock-converse": "bedrock", "bedrock-log": "bedrock", "cohere": "cohere", "groq": "groq",
    "deepseek": "deepseek", "openrouter": "openrouter", "sglang": "sglang",
}  # fmt: skip
_TENANTS: Final = (
    "tenant", "tenant_id", "team", "team_id", "customer", "customer_id", "org", "org_id", "organization",
    "organization_id", "project", "project_id", "workspace", "workspace_id", "api_key_alias",
)  # fmt: skip
_USERS: Final = ("user", "user_id", "end_user", "end_user_id", "api_key", "api_key_hash")
_SESSIONS: Final = ("session_id", "conversation_id", "thread_id", "x_session_id", "session", "chat_id")
_REPLICAS: Final = (
    "replica", "pod", "pod_name", "worker", "worker_id", "upstream", "upstream_host", "backend", "instance", "node",
)  # fmt: skip
_RELEASES: Final = ("release", "app_version", "deployment_version", "service_version")
_CLIENTS: Final = ("client", "client_version", "user_agent", "sdk")
WHO: Final = frozenset(
    {*_TENANTS, *_USERS, *_SESSIONS, *_REPLICAS, *_RELEASES, *_CLIENTS, "provider", "custom_llm_provider"}
)
"""Names of envelope fields that become columns here."""
_CLAUDE_SESSION: Final = re.compile(r"_session_(?P<session>[0-9a-fA-F-]{8,})$")


def set_who(row: Row, exchange: Exchange, url: str | None, dialect: str | None) -> None:
    """Fill the columns that say who served and who called, as far as the record does."""
    request = exchange.request or {}
    row.provider = _text(exchange.said("provider", "custom_llm_provider")) or provider_of(
        url, row.model, dialect
    )
    row.provider = None if row.provider is None else row.provider.lower()
    row.replica = _text(exchange.said(*_REPLICAS))
    row.release = _text(exchange.said(*_RELEASES))
    row.client = _text(exchange.said(*_CLIENTS))
    row.session_id = _text(exchange.said(*_SESSIONS)) or _session(request)
    row.tenant = _text(exchange.said(*_TENANTS)) or _tenant(request, exchange)
    row.cache_salt = _text(request.get("cache_salt"))


def provider_of(url: str | None, model: str | None, dialect: str | None) -> str | None:
    """Name the service by its address, else by the spelling of its usage, else by its model.

    Args:
        url: Address of the call.
        model: Model as logged.
        dialect: Dialect of its usage.
    """
    if url is not None:
        address = url.lower()
        host = next((name for part, name in _HOSTS if part in address), None)
        path = next((name for part, name in _PATHS if part in address), None)
        if host or path:
            return host or path
        if "://" in address:
            return None  # an address that is not known is a server of somebody's own
    if dialect in _DIALECTS:
        return _DIALECTS[dialect]
    return next((name for known, name in _MODELS if model and known.match(model.lower())), None)


def _tenant(request: Mapping[str, Any], exchange: Exchange) -> str | None:
    """Return the routing key of the application, else what stands for the user."""
    key = _text(request.get("prompt_cache_key"))
    if key is not None:
        return key
    metadata = request.get("metadata")
    inner = metadata if isinstance(metadata, dict) else {}
    named = next((text for name in _TENANTS if (text := _text(inner.get(name)))), None)
    if named is not None:
        return named
    people = (
        request.get("safety_identifier"),
        request.get("user"),
        inner.get("user_id"),
        exchange.said(*_USERS),
    )
    person = next((text for value in people if (text := _text(value))), None)
    return None if person is None else user_key(_CLAUDE_SESSION.sub("", person))


def _session(request: Mapping[str, Any]) -> str | None:
    conversation = request.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    metadata = request.get("metadata")
    inner = metadata if isinstance(metadata, dict) else {}
    named = _text(conversation) or next(
        (text for name in _SESSIONS if (text := _text(inner.get(name)))), None
    )
    if named is not None:
        return named
    match = _CLAUDE_SESSION.search(_text(inner.get("user_id")) or "")
    return match["session"] if match else None


def _text(value: Any) -> str | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, (str, int))
        or value == ""
        or len(str(value)) > MAX_TEXT
    ):
        return None
    return str(value)
