"""Prints what an investigation found."""

from __future__ import annotations

import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from prefixledger.cli import results
from prefixledger.cli.console import data_console
from prefixledger.cli.show import print_json, print_table
from prefixledger.config.pricing import PREFILL_TOKENS
from prefixledger.report.glossary import in_words
from prefixledger.report.numbers import compact
from prefixledger.texts import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from prefixledger.attribute.investigated import Incident, Investigation, Matched
    from prefixledger.cli.console import Talk
    from prefixledger.results import InvestigateResult

_NARROWEST = 60
_MOST_ROWS = 10
_SHORT = 16
_MINUTE_S, _HOUR_S = 60, 3_600


def say(result: InvestigateResult, talk: Talk, *, as_json: bool) -> None:
    """Print an investigation as text, or as JSON, on stdout."""
    if result.ingest is not None:
        results.say_inputs(result.ingest, talk)
    if as_json:
        print_json(result.found)
    else:
        _print(result.found)
        click.echo("")
        results.say_account(result.account())
        click.echo("")
        for each in result.found.verdict:
            _line(each, "- ")
    if result.html is not None:
        talk.say(f"page: {result.html}")


def _print(found: Investigation) -> None:
    rate = "-" if found.hit_rate is None else f"{found.hit_rate:.1%}"
    _line(
        f"{found.scenario}: {found.requests:,} lookups, {found.prompt_tokens:,} prompt tokens, hit rate {rate}, "
        f"{_time(found.begin)} to {_time(found.end)}, slices of {found.slice_s:,.0f} s, {found.series_tested} series"
    )
    for shape in found.shapes:
        _line(shape, "- ")
    for incident in found.incidents:
        _print_incident(incident)
    _print_burdens(found)
    _print_matched(found.matched)
    _print_recoveries(found)
    _print_namespaces(found)


def _print_incident(one: Incident) -> None:
    _head(
        f"{_time(one.at)}  {'better' if one.better else 'worse'}  {one.field if one.field == 'all' else f'{one.field} {one.value}'}"
    )
    _table(
        ("", "before", "after", "change, points"),
        [
            (
                in_words(line.name),
                f"{line.before:.1%}",
                f"{line.after:.1%}",
                f"{100 * (line.after - line.before):+.1f}",
            )
            for line in one.table
        ],
        (1, 2, 3),
    )
    rows = [
        (
            in_words(move.measure),
            "all" if move.field == "all" else f"{move.field} {move.value[:_SHORT]}",
            f"{move.before:.1%}",
            f"{move.after:.1%}",
            f"{100 * move.low:+.1f} to {100 * move.high:+.1f}",
            f"{move.p:.1g}",
        )
        for move in one.moves[:_MOST_ROWS]
    ]
    _table(("rate", "of", "before", "after", "change, 95 %", "chance"), rows, (2, 3, 4, 5))
    for near in one.nearby:
        _line(f"{_time(near.at)}  {near.kind}  {near.name}", "  near: ")


def _print_burdens(found: Investigation) -> None:
    if not found.burdens:
        return
    _head(f"{found.carriers} of {found.things} things carry 80 % of the tokens that could have been saved")
    rows = [
        (
            in_words(one.cause),
            one.thing if one.release is None else f"{one.thing}, release {one.release}",
            compact(one.tokens),
            f"{one.requests:,}",
            _money(one.cost, one.currency),
            f"{one.share_so_far:.0%}",
        )
        for one in found.burdens[:_MOST_ROWS]
    ]
    _table(("cause", "what", "tokens", "requests", "cost", "so far"), rows, (2, 3, 4, 5), (0, 2, 3, 4, 5))


def _print_matched(compared: tuple[Matched, ...]) -> None:
    if not compared:
        return
    _head(
        "turns after a change of process, beside turns after gaps of the same length without one; the difference in points, "
        "with 95 % certainty, where there is enough data"
    )
    rows = [
        (
            one.field,
            _gap(one),
            f"{one.changed_pairs:,}",
            _share(one.changed_share),
            f"{one.same_pairs:,}",
            _share(one.same_share),
            "too few pairs"
            if one.low is None or one.high is None
            else f"{100 * one.low:+.1f} to {100 * one.high:+.1f}",
            "" if one.p is None else f"{one.p:.1g}",
        )
        for one in compared
    ]
    columns = ("changed", "gap", "pairs", "hit", "others", "hit", "difference", "p")
    _table(columns, rows, (2, 3, 4, 5, 6, 7), tuple(range(8)))


def _print_recoveries(found: Investigation) -> None:
    if not found.recoveries:
        return
    _head(
        "how caches came back after resets: hit rates of the hour before and after, time to 90 % of steady state, and the extra "
        "prefill, in all and in the worst minute, which is the headroom that a deploy needs"
    )
    rows = [
        (
            f"{one.kind} {one.event_id}",
            _day(one.at, found),
            ", ".join(one.replicas),
            _share(one.rate_before),
            _share(one.rate_after),
            "over 2 h" if one.recovery_s is None else f"{one.recovery_s / 60:.0f} min",
            compact(one.lost_tokens),
            compact(one.peak_tokens),
        )
        for one in found.recoveries
    ]
    columns = ("reset", "when (UTC)", "replicas", "before", "after", "to 90 %", "prefill", "peak")
    _table(columns, rows, (3, 4, 5, 6, 7), (1, 3, 4, 5, 6, 7))


def _print_namespaces(found: Investigation) -> None:
    if found.splits:
        costs: dict[str, Decimal] = {}
        for split in found.splits:
            costs[split.currency] = costs.get(split.currency, Decimal(0)) + split.cost
        money = "".join(
            f", {_money(cost, currency)}" for currency, cost in costs.items() if currency != PREFILL_TOKENS
        )
        tokens = sum(split.tokens for split in found.splits)
        _head(f"what it costs that the same content is kept apart: {tokens:,} tokens{money}")
        rows = [
            (s.differs, s.tenant or "-", f"{s.requests:,}", f"{s.tokens:,}", _money(s.cost, s.currency))
            for s in found.splits
        ]
        _table(("by", "tenant", "requests", "tokens", "cost"), rows[:_MOST_ROWS], (2, 3, 4))
    if found.side_channels:
        _head(
            "tenants that hit each other's blocks although the log separates tenants by salts: timing tells one of the other"
        )
        channels = [
            (
                c.tenant,
                c.other_tenant,
                "the same salt" if c.one_salt else "no salt here",
                f"{c.requests:,}",
                f"{c.tokens:,}",
            )
            for c in found.side_channels
        ]
        _table(
            ("tenant", "hits blocks of", "because of", "requests", "hit tokens"),
            channels[:_MOST_ROWS],
            (3, 4),
        )


def _money(cost: Decimal, currency: str) -> str:
    """Write a cost; one in prefill tokens says the tokens again."""
    return "-" if currency == PREFILL_TOKENS else f"{cost:,.2f} {currency}"


def _gap(one: Matched) -> str:
    if one.gap_to_s is None:
        return f"over {one.gap_from_s // _HOUR_S} h"
    unit, name = (_HOUR_S, "h") if one.gap_from_s >= _HOUR_S else (_MINUTE_S, "min")
    return f"{one.gap_from_s // unit}-{one.gap_to_s // unit} {name}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _time(at: Any) -> str:
    return str(at.isoformat(sep=" ", timespec="minutes")).replace("+00:00", "Z")


def _day(at: datetime, found: Investigation) -> str:
    """Write a time without the year where all of the investigation lies in it."""
    return f"{at:%m-%d %H:%M}" if found.begin.year == found.end.year == at.year else f"{at:%Y-%m-%d %H:%M}"


def _head(text: str) -> None:
    click.echo("")
    _line(text)


def _table(
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    right: tuple[int, ...],
    whole: tuple[int, ...] = (),
) -> None:
    print_table(data_console(), columns, rows, right=right, whole=whole)


def _line(text: str, begin: str = "") -> None:
    width = max(_NARROWEST, data_console().width)
    lines = textwrap.wrap(
        in_words(text),
        width,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
    )
    click.echo("\n".join(quiet(line) for line in lines))
