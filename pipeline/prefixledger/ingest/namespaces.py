"""Numbers the namespaces of a source: everything that must be equal before two keys may be compared."""

from __future__ import annotations

import json
from typing import NamedTuple


class Namespace(NamedTuple):
    """What tells keys apart; null is a value of its own.

    Attributes:
        model: Model as logged.
        adapter: LoRA adapter.
        cache_salt: Salt.
        namespace: What a map or a conversation adds.
        scope: ``file``, ``global``, ``tokens``, ``none``, or how text was cut: ``text:bytes:64``, ``text:tokens:…``.
        block_size: Tokens a block, 0 without keys.
    """

    model: str | None
    adapter: str | None
    cache_salt: str | None
    namespace: str | None
    scope: str
    block_size: int

    def name(self, source: str) -> str:
        """Return the canonical JSON that stands for it in every workspace.

        Args:
            source: Name of the source, part of the scope of ids that are local to it.
        """
        scope = {"file": f"ids:file:{source}", "global": "ids:global"}.get(self.scope, self.scope)
        content = {**self._asdict(), "scope": scope}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class NamespaceTable:
    """Namespaces in order of first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Namespace, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, namespace: Namespace) -> int:
        """Return the number of a namespace, giving it the next one if it is new."""
        return self._numbers.setdefault(namespace, len(self._numbers))

    def rename(self, number: int, scope: str) -> None:
        """Give a namespace another scope; it keeps its number."""
        names = self.listed()
        names[number] = names[number]._replace(scope=scope)
        self._numbers = {namespace: at for at, namespace in enumerate(names)}

    def listed(self) -> list[Namespace]:
        """Return all in order of number."""
        return list(self._numbers)
