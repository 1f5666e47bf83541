"""One memory layout for whatever is handed to a kernel, so that each kernel is compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(array: ArrayLike, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Return a read-only, contiguous view of an array; a copy only where type or layout differ.

    Arrow hands out read-only arrays and numpy writable ones; numba takes them for two types and would compile a
    kernel again for each mixture, up to 3 s a time.

    Args:
        array: What a kernel is to read.
        dtype: The type that the kernel expects.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
