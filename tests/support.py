"""Helpers that many tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def shared(name: str) -> Path:
    """Return a file of the folder beside the checkout; skip, saying so, only where the folder is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/{name}, and there is no ../shared folder")
    path = folder / name
    assert path.exists(), f"../shared is there but lacks {name}"
    return path
