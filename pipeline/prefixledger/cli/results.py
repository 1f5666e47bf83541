"""Says what a verb has done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar, cast

import click

from prefixledger.cli.console import data_console, fitted
from prefixledger.cli.show import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefixledger.cli.console import Talk
    from prefixledger.ingest import IngestSummary
    from prefixledger.replay import ReplaySummary
    from prefixledger.results import ReplayResult, ReportResult

R = TypeVar("R")


def say_inputs(summary: IngestSummary, talk: Talk) -> None:
    """Say on stderr what every input was taken for and what became of its records."""
    for message in summary.messages:
        talk.say(message)


def say_records(summary: IngestSummary) -> None:
    """Print the closing account of records on stdout; which of their tokens hit, a replay says."""
    from prefixledger.report.numbers import percent, whole
    from prefixledger.report.summary import set_out

    counts = {"records": summary.records, **summary.shares}
    rows = ((name, whole(count), percent(count / summary.records)) for name, count in counts.items())
    say_account(set_out(tuple(rows)) if summary.records else ())


def say_replays(result: ReplayResult, talk: Talk, *, as_json: bool) -> None:
    """Print one row per scenario, or all as JSON, on stdout, and the notes of each on stderr."""
    if result.ingest is not None:
        say_inputs(result.ingest, talk)
    for one in result.replays:
        if one.reused:
            talk.detail(f"{one.name}: nothing had changed, so the replay of before was used")
        for note in one.notes:
            talk.say(f"{one.name}: {note}")
    for one, compared in zip(result.replays, result.compared, strict=True):
        if compared is not None:
            talk.say(f"{one.name}: {compared.sentence}")
    if as_json:
        print_json(result)
        return
    columns = ("scenario", "lookups", "prompt tokens", "hit tokens", "hit rate", "ideal")
    rows = (
        (
            one.name,
            f"{one.lookups:,}",
            f"{one.prompt_tokens:,}",
            f"{one.hit_tokens:,}",
            _rate(one),
            f"{one.ideal_hit_rate:.1%}" if one.prompt_tokens else "-",
        )
        for one in result.replays
    )
    print_table(data_console(), columns, rows, right=range(1, len(columns)))
    first = result.replays[0].name
    if len(result.replays) > 1:
        talk.say(f"the account of {first}:")
    say_account(result.account(first))
    sql = "SELECT cause, sum(tokens) FROM misses GROUP BY ALL"
    talk.say(f'next: prefixledger query "{sql}" --workspace {result.workspace}')


def say_account(lines: tuple[str, ...]) -> None:
    """Print what a verb closes with, on stdout: the account, and where there is one the verdict below it."""
    if lines:
        click.echo(fitted("\n".join(lines), sys.stdout))


def _rate(one: ReplaySummary) -> str:
    """Return the hit rate, with its spread where a router draws."""
    from prefixledger.attribute.spread import spread_of_rates

    if not one.prompt_tokens:
        return "-"
    spread = spread_of_rates(one.drawn_hit_rates)
    return f"{one.token_hit_rate:.1%}" if spread is None else f"{one.token_hit_rate:.1%} ({spread.told})"


def say_report(result: ReportResult, talk: Talk, *, as_json: bool) -> None:
    """Print the JSON twin if it was asked for; else the account and, last, the verdict."""
    if result.ingest is not None:
        say_inputs(result.ingest, talk)
    if as_json:
        sys.stdout.write(result.json.read_text(encoding="utf-8"))
    elif talk.quiet:
        click.echo(fitted(result.verdict, sys.stdout))
    else:
        click.echo(fitted("\n".join(result.lines), sys.stdout))


def finish(verb: Callable[[], R], say: Callable[[R], None]) -> None:
    """Run a verb and say what it did, also where rejects, the gap to the service, a rule or Ctrl-C then fail it."""
    from prefixledger.outcomes import CutShortError, GapError, PartialInputError, RulesCrossedError

    try:
        result = verb()
    except (PartialInputError, GapError, RulesCrossedError, CutShortError) as error:
        say(cast("R", error.result))
        raise
    say(result)
