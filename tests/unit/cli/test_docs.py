"""The examples of ``docs/``: their commands parse, their rules exist, and what they read is in the JSON twin."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click
import pytest

import report_data
from prefixledger.cli.app import app
from prefixledger.report import rules
from prefixledger.report.twin import twin
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = (ROOT / "docs" / "automation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```\w*\n(.*?)```", TEXT, flags=re.DOTALL)


def commands() -> Iterator[str]:
    """Yield every command of the examples."""
    for block in BLOCKS:
        for line in block.splitlines():
            found = re.search(r"(?:^|[;&] |run: )prefixledger (.*)$", line)
            if found:
                yield found.group(1)


@pytest.mark.parametrize("command", list(commands()))
def test_commands_parse(command: str) -> None:
    """Each names a verb, and options that the verb has."""
    verb, *arguments = shlex.split(command)
    found = app.get_command(click.Context(app), verb)
    assert found is not None
    made = found.make_context(verb, arguments, parent=click.Context(app))
    rules.rules(made.params.get("fail_on") or ())


def test_all_rules_are_named() -> None:
    """Those for single causes are named by one of them."""
    named = set(re.findall(r"`([a-z][a-z_-]+)`", TEXT))
    assert {name for name in rules.names() if not name.endswith("_share")} <= named
    assert "evicted_share" in rules.names()


def test_what_the_dashboard_reads_is_in_the_twin() -> None:
    """Every path of the jq program leads to something."""
    program = next(block for block in BLOCKS if "jq -r" in block)
    value: Any = twin(report_data.week())
    for path in re.findall(r"\(\.([a-z_.]+)", program):
        if path in ("key", "value", "replica", "prefill_tokens"):
            continue
        at = value
        for key in path.split("."):
            assert key in at, path
            at = at[key]
    assert {"replica", "prefill_tokens"} <= set(value["replicas"][0])


def test_commands_were_found() -> None:
    """A change of the page must not empty the tests above."""
    assert len(list(commands())) == 7
