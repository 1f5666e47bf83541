"""Kernels that are kept on disk are compiled anew when one of their parts is edited, whatever file it stands in."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from prefixledger.replay import extents_kernel, jit


def test_what_is_kept_on_disk_knows_the_files_of_all_parts():
    """Numba compares what its index was made from with this; where it renames its fields old parts would live on unseen."""
    index = extents_kernel.replay_extents._cache._cache_file
    text = sha256()
    for path in sorted(Path(jit.__file__).parent.rglob("*_kernel.py")):
        text.update(path.read_bytes())
    assert index._source_stamp[1] == text.hexdigest()
    assert index._source_stamp[0]
