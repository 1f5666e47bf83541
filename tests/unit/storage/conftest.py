"""One store for all tests of object storage, and an empty bucket and cache for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import storage_support

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage_support import Asked


@pytest.fixture(scope="package")
def _store() -> Iterator[list[Asked]]:
    with storage_support.store() as asked:
        yield asked


@pytest.fixture
def bucket(_store: list[Asked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty bucket; copies of workspaces go below the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return storage_support.new_bucket()


@pytest.fixture
def asked(_store: list[Asked]) -> list[Asked]:
    """What the store is asked from now on."""
    _store.clear()
    return _store
