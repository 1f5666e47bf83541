"""Keeps advice beside the replay that it goes with, for as long as nothing has changed that it was made from."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import prefixledger
from prefixledger.advice.parts import Advice, Decision, Effect, Recommendation
from prefixledger.economics import price_list
from prefixledger.replay.fingerprint import digest_files
from prefixledger.replay.stage import made_from
from prefixledger.resources import resource_dir
from prefixledger.workspace import read_manifest, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.workspace import Workspace

ADVICE = "advice.json"
_LIBRARIES = ("duckdb", "genai-prices", "numba", "numpy", "pyarrow", "scipy")
_SAID = frozenset({"path", "why", "notes"})
"""What the manifest says of an input in words; no replay looks at it."""
_MONEY = frozenset({"before", "saved", "saved_low", "saved_high", "predicted", "predicted_within", "loss"})


def kept_advice(workspace: Workspace, scenario: Scenario, events: Sequence[Event]) -> Advice | None:
    """Return the advice that is there if nothing it was made from has changed, else None.

    Args:
        workspace: Indexed.
        scenario: As for ``advise``.
        events: As for ``advise``.
    """
    path = workspace.replay(scenario.name) / ADVICE
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        # Only where there is something to compare it with: the digest reads the whole workspace.
        if kept["made_from"] != _made_from(workspace, made_from(workspace, scenario, events)):
            return None
        return from_json(kept["advice"])
    except (OSError, ValueError, KeyError, TypeError, InvalidOperation):
        return None


def keep_advice(workspace: Workspace, scenario: Scenario, advice: Advice) -> None:
    """Put advice beside the replay of its scenario, which was made, or found to fit, by the same command.

    Args:
        workspace: Where the replay is.
        scenario: As for ``advise``.
        advice: What was found.
    """
    folder = workspace.replay(scenario.name)
    try:
        replayed = json.loads((folder / "fingerprint.json").read_text(encoding="utf-8"))["made_from"]
    except (OSError, ValueError, KeyError):
        return
    told = to_json(advice)
    if price_list.is_shipped() and _as_read(told) == advice:
        write_json(folder / ADVICE, {"made_from": _made_from(workspace, replayed), "advice": told})


def to_json(advice: Advice) -> dict[str, Any]:
    """Return advice as JSON; amounts are text, so that no digit is lost."""
    plain: dict[str, Any] = _plain(asdict(advice))
    return plain


def from_json(told: Mapping[str, Any]) -> Advice:
    """Return advice from ``to_json``."""
    rows = [_decimals(row) for row in told["recommendations"]]
    recommendations = (
        Recommendation(
            **{
                **row,
                "effect": Effect(**_decimals(row["effect"])),
                "in_full": Effect(**_decimals(row["in_full"])),
                "side_effects": tuple(row["side_effects"]),
            }
        )
        for row in rows
    )
    return Advice(
        recommendations=tuple(recommendations),
        together=None if told["together"] is None else Effect(**_decimals(told["together"])),
        decisions=tuple(Decision(**_decimals(row)) for row in told["decisions"]),
        tried=told["tried"],
        fitted_to_us=told["fitted_to_us"],
        notes=tuple(told["notes"]),
    )


def _as_read(told: Mapping[str, Any]) -> Advice | None:
    """Return advice as it would be read again; None where JSON cannot hold it."""
    try:
        return from_json(json.loads(json.dumps(told, allow_nan=False)))
    except (ValueError, TypeError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Decimal) else value


def _decimals(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: Decimal(each) if name in _MONEY and each is not None else each for name, each in row.items()
    }


def _made_from(workspace: Workspace, replayed: Mapping[str, str]) -> dict[str, str]:
    """Digest what advice depends on: what the replay does, all code, and the libraries that draw, fit and price."""
    sources = [
        {name: value for name, value in source.items() if name not in _SAID}
        for source in read_manifest(workspace)["sources"]
    ]
    libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
    parts = {
        "replay": replayed["digest"],
        "sources": hashlib.blake2b(json.dumps(sources, sort_keys=True).encode(), digest_size=16).hexdigest(),
        "code": _code(),
        # Not the version of Python: all of them write the same bytes, and a test in tests/packaging holds them to it.
        "libraries": ", ".join([platform.machine(), *libraries]),
    }
    return parts if price_list.is_shipped() else {}


@cache
def _code() -> str:
    """Return a digest of the whole package and its SQL: advice is replays, causes and prices."""
    package = Path(prefixledger.__file__).parent
    sql = Path(str(resource_dir("sql")))
    return digest_files(package, [package], "*.py") + digest_files(sql, [sql], "*.sql")
