"""Kernels that are kept on disk are compiled anew when one of their parts is edited, whatever file it stands in."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import prefixledger
from prefixledger.kernels import trie_kernel
from prefixledger.replay import extents_kernel

PACKAGE = Path(prefixledger.__file__).parent
KERNELS = sorted(PACKAGE.rglob("*_kernel.py"))


def test_what_is_kept_on_disk_knows_the_files_of_all_parts():
    """Numba compares what its index was made from with this; where it renames its fields old parts would live on unseen."""
    text = sha256()
    for path in KERNELS:
        text.update(path.read_bytes())
    for kernel in (extents_kernel.replay_extents, trie_kernel.walk_rows):
        index = kernel._cache._cache_file
        assert index._source_stamp[1] == text.hexdigest()
        assert index._source_stamp[0]


def test_no_kernel_is_kept_that_takes_parts_from_another_file_unless_it_knows_them():
    """Constants are compiled into a kernel as well as functions are."""
    takes = re.compile(r"^from prefixledger\.\S+_kernel import", re.MULTILINE)
    found = [path for path in KERNELS if takes.search(path.read_text(encoding="utf-8"))]
    assert len(found) > 10
    assert [path.name for path in found if "njit(cache=True" in path.read_text(encoding="utf-8")] == []
