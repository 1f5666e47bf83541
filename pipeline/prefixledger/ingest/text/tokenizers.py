"""Tokenizers from files and installed packages; nothing is ever fetched."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_CACHE: Final = "TIKTOKEN_CACHE_DIR"
_BUNDLED: Final = ("litellm", "litellm_core_utils/tokenizers")
"""A package that ships the files which tiktoken would fetch."""


class Tokenizer(Protocol):
    """Turns text into token ids."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def digest(self) -> str:
        """Digest of the vocabulary and rules, 16 hex digits: equal digests, equal tokens."""

    @property
    def specials(self) -> tuple[str, ...]:
        """Tokens at which any text may be cut; see ``TextPlan``."""

    def encode(self, texts: Sequence[bytes]) -> list[NDArray[np.uint32]]:
        """Return the ids of each text."""


def load_tokenizer(wanted: str) -> Tokenizer:
    """Load a tokenizer.

    Args:
        wanted: A ``tokenizer.json``, the name of a tiktoken encoding, or of an installed package that holds a
            ``tokenizer.json``.

    Raises:
        UsageError: There is none of that name, its library is not installed, or the file is no tokenizer.
    """
    path = Path(wanted)
    if path.suffix == ".json" or path.is_file():
        return _from_file(path, path.name)
    packaged = _packaged(wanted)
    return _from_file(packaged, wanted) if packaged is not None else _from_tiktoken(wanted)


class _FileTokenizer:
    def __init__(self, name: str, content: bytes, held: Any) -> None:
        self.name = name
        self.digest = blake2b(content, digest_size=8).hexdigest()
        self.specials = tuple(
            token["content"]
            for token in json.loads(content).get("added_tokens", ())
            if token["content"]
            and not (token.get("normalized") or token.get("lstrip") or token.get("single_word"))
        )
        self._held = held
        held.no_truncation()  # files of embedding models cut at 512
        held.no_padding()

    def encode(self, texts: Sequence[bytes]) -> list[NDArray[np.uint32]]:
        """Return the ids of each text."""
        found = self._held.encode_batch_fast([_text(text) for text in texts], add_special_tokens=False)
        return [np.array(one.ids, np.uint32) for one in found]


class _Tiktoken:
    def __init__(self, held: Any) -> None:
        self.name = str(held.name)
        ranks = b"".join(b"%d:%s," % (rank, token) for token, rank in sorted(held._mergeable_ranks.items()))  # noqa: SLF001
        rules = f"{held._pat_str}\0{sorted(held._special_tokens.items())}"  # noqa: SLF001
        self.digest = blake2b(ranks + rules.encode(), digest_size=8).hexdigest()
        self.specials = tuple(sorted(held.special_tokens_set))
        self._held = held

    def encode(self, texts: Sequence[bytes]) -> list[NDArray[np.uint32]]:
        """Return the ids of each text."""
        found = self._held.encode_batch([_text(text) for text in texts], num_threads=2, allowed_special="all")
        return [np.array(ids, np.uint32) for ids in found]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _from_file(path: Path, name: str) -> Tokenizer:
    try:
        from tokenizers import Tokenizer as Held  # noqa: PLC0415  # an optional library
    except ImportError:
        raise _not_installed("tokenizers") from None
    place = Place(str(path))
    try:
        content = path.read_bytes()
        held = Held.from_buffer(content)
        return _FileTokenizer(name, content, held)
    except OSError as error:
        raise UsageError(f"the tokenizer cannot be read: {error}", place=place) from error
    except Exception as error:  # the library raises the bare class
        raise UsageError(
            f"it is no tokenizer: {error}", place=place, hint="give the tokenizer.json of the model"
        ) from error


def _packaged(name: str) -> Path | None:
    """Return the ``tokenizer.json`` of an installed package, found without importing it."""
    module = name.replace("-", "_")
    if not module.isidentifier():
        return None
    spec = find_spec(module)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = sorted(Path(folder).rglob("tokenizer.json"))
        if found:
            return found[0]
    return None


def _from_tiktoken(name: str) -> Tokenizer:
    try:
        import tiktoken  # noqa: PLC0415  # an optional library
    except ImportError:
        raise _not_installed("tiktoken", name) from None
    known = sorted(tiktoken.list_encoding_names())
    if name not in known:
        raise UsageError(
            f"there is no tokenizer {name!r}",
            hint=f"a tokenizer.json, an installed package that holds one, or one of {', '.join(known)}",
        )
    try:
        with _offline():
            return _Tiktoken(tiktoken.get_encoding(name))
    except _OfflineError:
        raise UsageError(
            f"the vocabulary of {name} is not on this machine, and nothing is fetched",
            hint=f"set {_CACHE} to a folder that holds it (pip install litellm brings one), or give a tokenizer.json",
        ) from None


class _OfflineError(Exception):
    """The library wanted to fetch something."""


@contextmanager
def _offline() -> Iterator[None]:
    """Keep tiktoken from the network; it may read its cache, or the files that another package ships."""
    import tiktoken.load  # noqa: PLC0415  # an optional library

    def refuse(blobpath: str) -> bytes:
        if "://" in blobpath:
            raise _OfflineError
        return Path(blobpath).read_bytes()

    bundled = None if os.environ.get(_CACHE) else _bundled()
    reading = tiktoken.load.read_file
    tiktoken.load.read_file = refuse
    if bundled is not None:
        os.environ[_CACHE] = str(bundled)
    try:
        yield
    finally:
        tiktoken.load.read_file = reading
        if bundled is not None:
            del os.environ[_CACHE]


def _bundled() -> Path | None:
    spec = find_spec(_BUNDLED[0])
    folders = spec.submodule_search_locations if spec is not None else None
    return next((Path(folder) / _BUNDLED[1] for folder in folders or ()), None)


def _not_installed(library: str, name: str | None = None) -> UsageError:
    what = (
        f"there is no file or package {name!r}, and the library for names of encodings"
        if name
        else "the library"
    )
    return UsageError(f"{what} {library!r} is not installed", hint=f"pip install 'prefixledger[{library}]'")
