"""How the kernels that allocate nothing are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from numba import njit

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
    """Compile a function that Python calls, and keep the result on disk.

    Numba looks at the file of this function alone: after a change in a part of it, touch this file too.
    """
    return cast("Function", njit(cache=True, **_ALLOCATES_NOTHING)(function))


def part(function: Function) -> Function:
    """Compile a function that kernels call."""
    return cast("Function", njit(**_ALLOCATES_NOTHING, **_PART)(function))
