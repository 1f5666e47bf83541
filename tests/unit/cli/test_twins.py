"""Every verb is also a Python function with the same names and defaults."""

from __future__ import annotations

import inspect
from pathlib import Path

import click
import pytest

from prefixledger import api
from prefixledger.cli import app

ONLY_HOW_IT_IS_SHOWN = {"as_json", "as_csv", "open_it", "print_scenario", "print_sql"}
"""Options of the command line that say how to print, not what to do."""

SHOWN_BY_QUERY = {"show_ids"}
"""``query`` returns rows as they are in Python, and shortens ids only where it prints them."""


def _command(verb: str) -> click.Command:
    command = app.app.get_command(click.Context(app.app), verb)
    assert command is not None
    return command


@pytest.mark.parametrize("verb", app.VERBS)
def test_options_and_parameters_are_the_same(verb: str) -> None:
    """Names in both directions, and every default."""
    parameters = dict(inspect.signature(getattr(api, verb)).parameters)
    parameters.pop("progress", None)
    options = {p.name for p in _command(verb).params if p.expose_value}
    hidden = ONLY_HOW_IT_IS_SHOWN | (SHOWN_BY_QUERY if verb == "query" else set())
    assert set(parameters) == options - hidden
    given = {
        "query": ["SELECT 1"],
        "explain": ["q1"],
        "compare": ["before"],
        "diff": ["q1", "q2"],
        "index": ["reports"],
        "rates": ["claude-opus-5-5"],
        "export": ["-o", "trace.jsonl"],
        "prune": ["--before", "2026-11-01"],
    }.get(verb, [])
    values = _command(verb).make_context(verb, given).params
    for name, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            value = values[name]
            assert (str(value) if isinstance(value, Path) else value) == parameter.default, name


@pytest.mark.parametrize("verb", app.VERBS)
def test_a_twin_says_what_each_argument_is(verb: str) -> None:
    """Each parameter stands in the docstring."""
    function = getattr(api, verb)
    for name in inspect.signature(function).parameters:
        assert f"{name}:" in (function.__doc__ or "")
