"""What a replay was made from, so that a stale one is never used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import prefixledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prefixledger.workspace import Workspace

_CODE = (
    "schema.py",
    "schema_contents.py",
    "schema_curves.py",
    "schema_engines.py",
    "workspace.py",
    "config",
    "config/provider_rules.toml",
    "kernels",
    "index",
    "replay",
)
"""The parts of the package that a replay's numbers depend on."""


def fingerprint(workspace: Workspace, scenario_text: str, besides: Sequence[str] = ()) -> dict[str, str]:
    """Digest everything that a replay depends on.

    Args:
        workspace: Its requests, parts, contents, blocks and last blocks count, byte for byte; the manifest, which also remembers
            when a file was given twice, does not.
        scenario_text: The full dump of the scenario, events included.
        besides: What else decides: ids of the events that came from a file, to which more is forgiven, and what engines
            said of themselves.

    Returns:
        ``workspace``, ``scenario`` and ``code`` digests, the ``version``, and ``digest`` over all of them.
    """
    parts = {
        "workspace": digest_files(
            workspace.root,
            (
                workspace.requests,
                workspace.parts,
                workspace.contents,
                workspace.pieces,
                workspace.blocks,
                workspace.last_blocks,
                workspace.kv_events,
                workspace.series,
            ),
            "*.parquet",
        ),
        "scenario": hashlib.blake2b(
            "\n".join([scenario_text, *besides]).encode(), digest_size=16
        ).hexdigest(),
        "code": digest_files(_PACKAGE, (_PACKAGE / part for part in _CODE), "*.py"),
        "version": prefixledger.__version__,
    }
    whole = "\n".join(f"{name}={value}" for name, value in sorted(parts.items()))
    return {**parts, "digest": hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()}


_PACKAGE = Path(prefixledger.__file__).parent


def digest_files(root: Path, places: Iterable[Path], pattern: str) -> str:
    """Return a digest of the names and contents of files.

    Args:
        root: Where their names begin.
        places: Files, and folders that are looked through.
        pattern: Of the names of files in folders.
    """
    total = hashlib.blake2b(digest_size=16)
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob(pattern))
        for path in files:
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
            total.update(f"{path.relative_to(root).as_posix()}={content.hexdigest()}\n".encode())
    return total.hexdigest()
