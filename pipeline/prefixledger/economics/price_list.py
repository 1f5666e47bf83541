"""Finds a model in the price list that ships with genai-prices, under whatever name a log or a gateway gives it."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from genai_prices import data_snapshot

from prefixledger.errors import UsageError
from prefixledger.ingest.providers import provider_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEAR_NAMES = 5
_DATED = re.compile(r"-20\d\d-?[01]\d-?[0-3]\d$")


def lists_provider(provider: str) -> bool:
    """Say whether the price list has this provider."""
    return _provider(provider) is not None


def is_shipped() -> bool:
    """Say whether prices are those that genai-prices ships, and none that somebody fetched or set in this process."""
    return getattr(data_snapshot, "_custom_snapshot", None) is None


def find_model(model: str, provider: str | None) -> tuple[Any, Any]:
    """Return provider and model as the price list has them.

    Args:
        model: Model id as a provider or a gateway writes it.
        provider: Provider as logged. One that the list does not know is a gateway: the model decides.

    Raises:
        UsageError: The list lacks the model; the nearest names are listed.
    """
    snapshot = data_snapshot.get_snapshot()
    known = None if provider is None else _provider(provider)
    for name, served_by in _names(model, known):
        try:
            return snapshot.find_provider_model(name, served_by, None, None)
        except LookupError:
            continue
    where = f" of {known.id}" if known else ""
    providers = [known] if known else snapshot.providers
    names = sorted({entry.id for listed in providers for entry in listed.models})
    hosts = sorted(listed.id for listed in providers if model in {entry.id for entry in listed.models})
    near = difflib.get_close_matches(model, names, n=_NEAR_NAMES)
    listing = f"near it: {', '.join(near)}" if near else "no name is near it"
    if hosts:
        listing = f"listed by {', '.join(hosts)}: say which is meant"
    raise UsageError(
        f"no rate for the model {model!r}{where}",
        hint=f'{listing}; or give prices: [pricing] rates = "<model>" or {{base=…, write=…, read=…, output=…}}',
    )


def _names(model: str, known: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names under which a model may be listed, each with the provider that has to have it, None for any.

    Google's own client says ``models/gemini-…``. Gateways put who serves a model in front of it, and how it is called:
    ``anthropic/claude-…``, ``bedrock/converse/anthropic.claude-…``. Such a name is looked for at that provider alone.
    """
    bare = model.removeprefix("models/")
    yield from ((name, known) for name in (model, *_undated(bare)))
    prefix, _, rest = bare.partition("/")
    own = known or _provider(prefix)
    if rest and own is not None and _provider(prefix) is not None:
        for name in dict.fromkeys((rest, rest.rpartition("/")[2])):
            yield from ((each, own) for each in _undated(name))


def _undated(name: str) -> tuple[str, str]:
    """Return a name, and the same without a day: providers answer with that of the snapshot, and the list has few of them."""
    return name, _DATED.sub("", name)


def _provider(name: str) -> Any:
    """Return a provider of the price list under any of its names; None where the list lacks it."""
    for each in dict.fromkeys((name, provider_name(name) or name)):
        try:
            return data_snapshot.get_snapshot().find_provider(None, each, None)
        except LookupError:
            continue
    return None
