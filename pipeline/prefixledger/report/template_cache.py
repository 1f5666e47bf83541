"""Keeps compiled templates where compiled kernels are kept, so that a page does not compile them anew."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import FileSystemBytecodeCache

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

_FOLDER = "__pycache__"


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates on disk, each good for its own text and the code of the package ``report``.

    The 22 templates of a report take 0.4 s to compile. A file that cannot be read or written costs that time and nothing
    else.
    """

    def __init__(self) -> None:
        """Choose the folder: ``NUMBA_CACHE_DIR`` where that is set, else the one of Python beside this file."""
        told = os.environ.get("NUMBA_CACHE_DIR")
        super().__init__(str(Path(told) if told else Path(__file__).parent / _FOLDER), "template-%s.cache")

    def get_source_checksum(self, source: str) -> str:
        """Return what a compiled template was made from: filters are applied to constants as it is compiled."""
        return hashlib.sha256(f"{_code()}{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what is kept, unless it is broken."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # noqa: BLE001  # a damaged file may end in any error of pickle and marshal
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, if there is a place for it."""
        try:
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
        except OSError:
            return


@cache
def _code() -> str:
    """Return a hash of the modules beside this one, which hold the filters, and of the version of Jinja."""
    text = hashlib.sha256(version("jinja2").encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text.update(path.read_bytes())
    return text.hexdigest()
