"""How kernels are compiled that are made of parts, and those that allocate nothing."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit

import prefixledger

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

# Options that numba's type stubs do not list. Reference counts of arrays took up to four fifths of the time of a kernel
# that is made of parts; one that allocates nothing needs none.
_ALLOCATES_NOTHING: dict[str, Any] = {"nogil": True, "_nrt": False}
# Parts go into their caller: handing over 60 words of array headers a call took 30 % of the time. Python never calls
# them, and wrappers for it would take 2 s to compile.
_PART: dict[str, Any] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Function) -> Function:
    """Compile a function that Python calls and that allocates nothing; see ``made_of_parts``."""
    return cast("Function", _stamped(njit(cache=True, **_ALLOCATES_NOTHING)(function)))


def made_of_parts(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep the result on disk until a kernel or a part of one is edited.

    Numba itself looks at the text of the file of this function alone, and would go on with the old parts.
    """
    return _stamped(njit(cache=True, nogil=True)(function))


def _stamped(compiled: Any) -> Any:
    on_disk = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if on_disk is not None:
        on_disk._source_stamp = (on_disk._source_stamp, _all_kernels())  # noqa: SLF001  # numba has no option for it
    return compiled


@cache
def _all_kernels() -> str:
    """Return a hash of the files of all kernels and of their parts."""
    text = sha256()
    for path in sorted(Path(prefixledger.__file__).parent.rglob("*_kernel.py")):
        text.update(path.read_bytes())
    return text.hexdigest()


def part(function: Function) -> Function:
    """Compile a function that kernels call."""
    return cast("Function", njit(**_ALLOCATES_NOTHING, **_PART)(function))
