"""Finds the SQL, templates and samples, in an installed package and in a checkout alike."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prefixledger.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

Kind = Literal["sql", "reports", "sample_traces"]


@cache
def resource_dir(kind: Kind) -> Traversable:
    """Return the folder of one kind of resource.

    Args:
        kind: The top-level folder of the repository that holds it.

    Raises:
        InternalError: The installation lacks the folder.
    """
    installed = files("prefixledger") / "_resources" / kind
    if installed.is_dir():
        return installed
    checkout = Path(__file__).resolve().parents[2]  # an editable install maps no data folders
    if (checkout / "pyproject.toml").is_file() and (checkout / kind).is_dir():
        return checkout / kind
    raise InternalError(
        f"this installation has no {kind!r} folder",
        hint="install the package again: pip install --force-reinstall prefixledger",
    )


def code_digest() -> str:
    """Return 32 hex digits for the Python, SQL and TOML that is installed: of any other text they are others."""
    digest = blake2b(digest_size=16)
    for root in (files("prefixledger"), resource_dir("sql"), resource_dir("sample_traces")):
        for name, text in _code(root, ""):
            digest.update(b"%s\0%d\0" % (name.encode(), len(text)) + text)
    return digest.hexdigest()


def _code(node: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for below in sorted(node.iterdir(), key=lambda one: one.name):
        if below.is_dir():
            yield from _code(below, f"{name}/{below.name}")
        elif below.name.endswith((".py", ".sql", ".toml")):
            yield f"{name}/{below.name}", below.read_bytes()


def read_text(kind: Kind, name: str) -> str:
    """Return one resource as text; ``name`` uses forward slashes, e.g. ``"20_misses/segments.sql"``."""
    node = resource_dir(kind)
    for part in name.split("/"):
        node = node / part
    return node.read_text(encoding="utf-8")
