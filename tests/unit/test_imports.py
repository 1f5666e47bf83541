"""Packages import downwards only, and starting the command line imports nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = ROOT / "pipeline" / "prefixledger"

LAYERS = (
    {
        "errors",
        "texts",
        "frames",
        "cards",
        "schema",
        "schema_contents",
        "schema_curves",
        "schema_engines",
        "config",
        "workspace",
        "resources",
        "kernels",
        "progress",
        "ids",
        "locking",
        "mirror",
        "objects",
        "running",
        "engine",
        "samples",
    },
    {"ingest"},
    {"index"},
    {"export"},
    {"replay"},
    {"economics"},  # pure formulas, which the marts of attribute use
    {"attribute"},
    {"advice"},  # replays of attribute, chosen and judged
    {"report"},
    {"results"},  # what the verbs give back
    {"outcomes"},
    {"scenarios"},
    {"stages"},
    {"reference", "loading"},
    {"whatif", "investigate", "compare", "prune", "reports_index", "trace_export"},
    {"doctor"},
    {"api"},
    {"cli"},
    {"__main__"},
)
LEVEL = {part: level for level, layer in enumerate(LAYERS) for part in layer}
BOTTOM = 0

HEAVY = ("numpy", "pyarrow", "polars", "duckdb", "numba", "matplotlib", "scipy", "pydantic", "jinja2", "rich")


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_parts(path: Path) -> Iterator[str]:
    """Yield the parts of the package that a module imports anywhere, also only for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            module = node.module or ""
            if module == "prefixledger":
                yield from (name.name for name in node.names if name.name in LEVEL)
            elif module.startswith("prefixledger."):
                yield module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (
                name.name.split(".")[1] for name in node.names if name.name.startswith("prefixledger.")
            )


def test_every_part_of_the_package_has_a_layer() -> None:
    """A new part must say where it stands."""
    parts = {_part(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert parts == set(LEVEL)


def test_imports_go_down() -> None:
    """A part imports itself and lower layers; only the bottom layer may import sideways."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = _part(path)
        for other in _imported_parts(path):
            down = part == "__init__" or LEVEL[other] < LEVEL[part]
            if not down and other != part and not LEVEL[other] == LEVEL[part] == BOTTOM:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert not wrong


def test_report_runs_no_sql() -> None:
    """The report is drawn from marts; only the attribution talks to DuckDB."""
    users = {
        _part(path) for path in PACKAGE.rglob("*.py") if "import duckdb" in path.read_text(encoding="utf-8")
    }
    assert users <= {"attribute", "ingest"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["nonsense"],
        ["report", "--help"],
        ["query", "-h"],
        ["replay", "--nonsense"],
    ],
    ids=" ".join,
)
def test_starting_the_command_line_imports_nothing_heavy(arguments: list[str]) -> None:
    """Help, version and wrong options must answer at once: the heavy libraries take 4 s together."""
    code = (
        "import sys\n"
        "from prefixledger.cli.app import run\n"
        f"run({arguments!r})\n"
        f"print('loaded:', *sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
