"""Runs the generators of the sample logs, wherever the package keeps them."""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import as_file
from typing import TYPE_CHECKING

from prefixledger.resources import resource_dir

if TYPE_CHECKING:
    from types import ModuleType


def generator(name: str) -> ModuleType:
    """Load ``sample_traces/<name>.py``; data folders are no packages, so it is loaded by its path."""
    module_name = f"prefixledger_sample_{name}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    with as_file(resource_dir("sample_traces") / f"{name}.py") as path:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module  # dataclasses look their module up here
        spec.loader.exec_module(module)
    return module
