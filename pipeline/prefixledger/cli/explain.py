"""``prefixledger explain``: the life of one request."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, show_ids_option, talk_options, workspace_option
from prefixledger.texts import quiet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.attribute.explained import ExplainedSegment, Explanation

_LABEL = 10
_NARROWEST = 40


@click.command()
@click.argument("request_id", metavar="REQUEST_ID")
@workspace_option
@click.option(
    "--scenario", metavar="NAME", help="Name of the replay. [default: the one that was asked for last]"
)
@click.option("--print-sql", is_flag=True, help="Print the statements that answer, and do nothing else.")
@json_option
@show_ids_option
@talk_options
def explain(
    request_id: str, workspace: Path, scenario: str | None, print_sql: bool, as_json: bool, show_ids: bool
) -> None:
    """Tell the life of one request: where it went, what of its prompt was a hit, and why the rest was not.

    REQUEST_ID is an id of the log, its beginning or short form, or FILE:LINE. The workspace must hold a replay.

    \b
    prefixledger replay logs/
    prefixledger explain req-7f3a21
    prefixledger explain log.jsonl:17 --scenario bigger --json
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json

    if print_sql:
        from prefixledger.attribute.explain import statements

        click.echo("\n".join(statements()), nl=False)
        return
    found = api.explain(request_id, workspace=workspace, scenario=scenario, show_ids=show_ids)
    if as_json:
        print_json(found)
        return
    width = max(_NARROWEST, data_console().width)
    click.echo("\n".join(quiet(line) for line in _lines(found, width)))


def _lines(found: Explanation, width: int) -> Iterator[str]:
    """Write an explanation in lines of at most so many characters."""
    for label, text in _head(found):
        yield from _wrapped(f"{label:<{_LABEL}}", text, width)
    for each in found.segments:
        yield ""
        yield from _wrapped("", _title(each), width)
        for text in each.evidence:
            yield from _wrapped("  - ", text, width)
        if each.would_have_helped:
            yield from _wrapped("  would have helped: ", "; or ".join(each.would_have_helped), width)
    yield ""
    yield from _wrapped("sum: ", found.closing, width)


def _head(found: Explanation) -> Iterator[tuple[str, str]]:
    from prefixledger.attribute.explained import moment

    yield "request", f"{found.request_id}, {found.source_file}:{found.source_line}, status {found.status}"
    admitted = "" if found.admitted_at is None else f", admitted {moment(found.admitted_at)}"
    finished = "" if found.finished_at is None else f", finished {moment(found.finished_at)}"
    yield "when", f"arrived {moment(found.started_at)}{admitted}{finished}"
    who = {
        "tenant": found.tenant,
        "model": found.model,
        "release": found.release,
        "session": found.session_id,
        "conversation begun by": found.conversation,
    }
    known = ", ".join(f"{name} {value}" for name, value in who.items() if value is not None)
    yield "who", known or "the log does not say"
    if found.replica is not None:
        branch = "" if found.route_branch is None else f"{found.route_branch}: "
        yield "replica", f"{found.replica} ({branch}{found.route})"
    if found.no_lookup is not None:
        yield "no lookup", found.no_lookup
    yield "scenario", found.scenario
    uncounted = found.status == "failed" and found.prompt_tokens == 0
    yield (
        "prompt",
        "nobody counted its tokens" if uncounted else f"{found.prompt_tokens:,} tokens{_hits(found)}",
    )


def _hits(found: Explanation) -> str:
    if found.hit_tokens is None:
        return ""
    tier = f", {found.hit_host_tokens:,} of them from a lower tier" if found.hit_host_tokens else ""
    reported = found.observed_hit_tokens
    observed = "" if reported is None else f"; the service reports {reported:,}"
    return f", {found.hit_tokens:,} hit{tier}{observed}"


def _title(each: ExplainedSegment) -> str:
    where = "" if each.first_token is None else f"from token {each.first_token:,}: "
    tokens = f"{each.tokens:,} token{'' if each.tokens == 1 else 's'}"
    cause = "hit" if each.hit else ": ".join(filter(None, (each.cause, each.detail)))
    return f"{where}{tokens}, {cause}"


def _wrapped(begin: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=begin,
        subsequent_indent=" " * min(len(begin), _LABEL),
        break_on_hyphens=False,
    )
