"""Looks through one replay for what changed, when, for whom, and what happened then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.attribute.change_points import ENOUGH_SLICES
from prefixledger.attribute.incidents import Clock, happenings, incidents, routing_changes
from prefixledger.attribute.inputs import read_requests, read_scenario
from prefixledger.attribute.investigated import Burden, Investigation, Recovery, SideChannel, Split
from prefixledger.attribute.matched import matched
from prefixledger.attribute.prices import price_tables
from prefixledger.attribute.series import HIT, WHOLE, find_steps, reach_slices, read_series, slice_us
from prefixledger.attribute.session import Session
from prefixledger.attribute.shapes import shapes
from prefixledger.attribute.window import days
from prefixledger.config.units import datetime_us, us_datetime
from prefixledger.economics.rates import SLOT_US
from prefixledger.errors import UsageError
from prefixledger.index.load import load
from prefixledger.schema import CAUSES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from prefixledger.attribute.investigated import Incident, Matched, Nearby
    from prefixledger.attribute.series import Found, Series
    from prefixledger.attribute.window import Window
    from prefixledger.config.scenario import Scenario
    from prefixledger.workspace import Workspace

_AROUND = "85_investigate/around"
_TABLES = (
    "85_investigate/prefix_of",
    "85_investigate/slices",
    "85_investigate/firsts",
    "85_investigate/stays",
    "85_investigate/burdens",
    "85_investigate/pairs",
    "85_investigate/paces",
    "85_investigate/floors",
    "85_investigate/pressures",
    "85_investigate/expected",
    "85_investigate/splits",
    "85_investigate/side_channels",
)
STEPS = (*_TABLES, _AROUND)
_BEFORE_PRICES = ("50_window/windowed", "50_window/uses")
_SHARED_STEPS = (
    "50_window/asked",
    "50_window/pieces",
    "60_marts/struck",
    "60_marts/recovery",
    "60_marts/resets",
)
_FILES = ("lookups", "segments", "events", "replicas", "shared", "lookup_shared")
_OF_LIVES = ("model", "replica", "started_at", "first_token_at", "finished_at", "router_expected_tokens")
_ACCOUNT = ("prompt_tokens", "hit_tokens", *(f"miss_{cause}_tokens" for cause in CAUSES))
_LEAST_REQUESTS = 50
"""Lookups of a value below which nothing is said of it."""
_MOST = 0.8
"""Share of the tokens that the few things carry that are told."""
_MOST_BURDENS = 20
_MINUTES = (-10, 60)
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one run looks at.

    Attributes:
        window: First moment and first behind it.
        clock: Slices.
        width_us: Width of one, microseconds.
        at: The moment that was asked for; None looks at all.
    """

    window: Window
    clock: Clock
    width_us: int
    at: datetime | None


def investigate(
    workspace: Workspace, name: str, window: Window, *, at_us: int | None = None, threads: int = 2
) -> Investigation:
    """Look through one replay.

    Args:
        workspace: Where its books are.
        name: Name of the scenario.
        window: What to look at; a filter on arrivals.
        at_us: Look only at this moment; None finds moments by itself.
        threads: Threads of DuckDB; results do not depend on it.

    Raises:
        UsageError: This scenario has no books, a model has no rate, or the moment lies outside of the window.
    """
    if at_us is not None and not window.from_us < at_us < window.to_us:
        raise UsageError(
            f"{us_datetime(at_us).isoformat()} is not within what is looked at",
            hint=f"that runs from {us_datetime(window.from_us).isoformat()} to {us_datetime(window.to_us).isoformat()}",
        )
    folder = workspace.replay(name)
    scenario = read_scenario(folder)
    if not (folder / "lookups.parquet").is_file():
        raise UsageError(f"replay {folder.name!r} has no books", hint="run prefixledger replay again")
    with Session(threads, {file: folder / f"{file}.parquet" for file in _FILES}) as session:
        _bind(session, workspace, scenario)
        parameters: dict[str, object] = {"from_us": window.from_us, "to_us": window.to_us, "slot_us": SLOT_US}
        session.run(_BEFORE_PRICES, parameters)
        prices = price_tables(session.table("uses"), scenario)
        session.bind({"prices": prices.prices, "cards": prices.cards, "days": days(window)})
        lookups = session.table("windowed").num_rows
        width_us = slice_us(window.from_us, window.to_us, lookups)
        session.run(
            (*_SHARED_STEPS, *_TABLES),
            {**parameters, "slice_us": width_us, "least_requests": _LEAST_REQUESTS},
        )
        clock = Clock(us_datetime(window.from_us), timedelta(microseconds=width_us))
        at = None if at_us is None else us_datetime(at_us)
        return _look(session, name, scenario, _Asked(window, clock, width_us, at))


def _bind(session: Session, workspace: Workspace, scenario: Scenario) -> None:
    session.bind({"requests": read_requests(workspace, scenario)})
    told = load(workspace, columns=["cache_salt", "session_id", *_OF_LIVES], keys=False).requests
    told = told.append_column("request_row", pa.array(range(len(told)), pa.int64()))
    session.bind({"salts": told.select(["request_row", "cache_salt"])})
    session.bind({"sessions": told.select(["request_row", "session_id"])})
    session.bind({"lives": told.select(["request_row", *_OF_LIVES])})


def _look(session: Session, name: str, scenario: Scenario, asked: _Asked) -> Investigation:
    series = read_series(session.table("slices"))
    whole = next((each for each in series if (each.field, each.value) == WHOLE), None)
    at_slice = None if asked.at is None else int((asked.at - asked.clock.begin) / asked.clock.width)
    enough = [each for each in series if each.requests.sum() >= _LEAST_REQUESTS]
    found, tested = find_steps(enough, asked.width_us, at_slice)
    stays = [(row["slice"], row["pairs"], row["stayed"]) for row in session.table("stays").to_pylist()]
    rerouted = routing_changes(stays, asked.clock)
    seen = _incidents(session, asked, found, stays, rerouted)
    burdens, carriers, things = _burdens(session.table("burdens").to_pylist())
    ttls = {pool.cache.ttl_us for pool in scenario.pool}
    ttl_us = next(iter(ttls)) if len(ttls) == 1 else None
    compared = matched(session.table("pairs").to_pylist())
    splits = tuple(Split(**row) for row in session.table("splits").to_pylist())
    channels = tuple(SideChannel(**row) for row in session.table("side_channels").to_pylist())
    recoveries = _recoveries(session.table("resets").to_pylist(), session.table("recovery").to_pylist())
    problem = _problem(whole, tested, asked)
    windowed = session.table("windowed")
    prompt, hits, *missed = (int(pc.sum(windowed[name]).as_py() or 0) for name in _ACCOUNT)
    return Investigation(
        scenario=name,
        begin=us_datetime(asked.window.from_us),
        end=us_datetime(asked.window.to_us),
        slice_s=asked.width_us / 1e6,
        requests=windowed.num_rows,
        prompt_tokens=prompt,
        hit_tokens=hits,
        misses=dict(zip(CAUSES, missed, strict=True)),
        hit_rate=hits / prompt if prompt else None,
        series_tested=tested,
        verdict=_verdict(seen, burdens, carriers, compared, problem),
        problem=problem,
        incidents=seen,
        shapes=shapes(
            whole,
            session.table("paces").to_pylist(),
            None if ttl_us is None else ttl_us / 1e6,
            rerouted,
            session.table("floors").to_pylist(),
            session.table("pressures").to_pylist(),
            session.table("expected").to_pylist(),
        ),
        burdens=burdens,
        carriers=carriers,
        things=things,
        matched=compared,
        recoveries=recoveries,
        splits=splits,
        side_channels=channels,
        hourly=() if whole is None else _hourly(whole, asked.clock),
        causes=CAUSES,
    )


def _incidents(
    session: Session,
    asked: _Asked,
    found: Sequence[Found],
    stays: Sequence[tuple[int, int, int]],
    rerouted: Sequence[Nearby],
) -> tuple[Incident, ...]:
    bounds = us_datetime(asked.window.from_us), us_datetime(asked.window.to_us)
    events = session.table("struck").to_pylist()
    resets = [{"kind": row["kind"], "at": row["reset_at"], "event_id": row["event_id"]} for row in events]
    happened = [
        *happenings(session.table("firsts").to_pylist(), resets, bounds, asked.clock),
        *rerouted,
    ]

    def around(
        field: str, value: str, begin: datetime, when: datetime, end: datetime
    ) -> dict[str, dict[str, int]]:
        times = {"begin_us": begin, "at_us": when, "end_us": end}
        of_place = {"field": field, "value": value}
        session.run([_AROUND], {**of_place, **{key: datetime_us(each) for key, each in times.items()}})
        rows = session.table("around").to_pylist()
        session.drop("around")
        return {row.pop("side"): row for row in rows}

    reach = timedelta(days=1) if asked.at is None else reach_slices(asked.width_us) * asked.clock.width
    return incidents(found, asked.clock, happened, around, bounds, stays, reach, asked.at)


def _problem(whole: Series | None, tested: int, asked: _Asked) -> str | None:
    if whole is None or not tested:
        slices, lookups = (0, 0) if whole is None else (whole.slices.size, int(whole.requests.sum()))
        return (
            f"not enough data: {lookups:,} lookups in {slices} slices of {asked.width_us // 1_000_000:,} s, and "
            f"{_LEAST_REQUESTS} in {ENOUGH_SLICES} are needed to tell a change from chance"
        )
    return None


def _burdens(rows: Sequence[dict[str, Any]]) -> tuple[tuple[Burden, ...], int, int]:
    """Return the largest things, how many of them carry most of the tokens, and how many there are."""
    total = sum(row["tokens"] for row in rows)
    out, so_far, carriers = [], 0, 0
    for row in rows:
        carriers += so_far < _MOST * total
        so_far += row["tokens"]
        out.append(Burden(**row, share_so_far=so_far / total))
    return tuple(out[: max(carriers, min(len(out), _MOST_BURDENS))][:_MOST_BURDENS]), carriers, len(rows)


def _recoveries(resets: Sequence[dict[str, Any]], minutes: Sequence[dict[str, Any]]) -> tuple[Recovery, ...]:
    out = []
    for reset in resets:
        if not reset["lost_tokens"] and reset["rate_after"] is None:
            continue  # nobody came back to find it empty: a replica that was not needed any more
        mine = [
            row for row in minutes if (row["event_id"], row["pool"]) == (reset["event_id"], reset["pool"])
        ]
        shown = [row for row in mine if _MINUTES[0] <= row["minute"] < _MINUTES[1]]
        columns = ("minute", "prompt_tokens", "hit_tokens", "lost_tokens")
        out.append(
            Recovery(
                event_id=reset["event_id"],
                kind=reset["kind"],
                at=reset["reset_at"],
                replicas=tuple(reset["replicas"]),
                lost_tokens=reset["lost_tokens"],
                rate_before=reset["rate_before"],
                rate_after=reset["rate_after"],
                recovery_s=reset["recovery_s"],
                peak_tokens=max((row["lost_tokens"] for row in mine), default=0),
                minutes=tuple(tuple(row[column] for column in columns) for row in shown),
            )
        )
    return tuple(out)


def _hourly(whole: Series, clock: Clock) -> tuple[tuple[datetime, float, tuple[float, ...]], ...]:
    shares = [whole.rates[cause] for cause in CAUSES]
    return tuple(
        (clock.at(int(number)), float(whole.rates[HIT][row]), tuple(float(share[row]) for share in shares))
        for row, number in enumerate(whole.slices)
    )


def _verdict(
    seen: Sequence[Incident],
    burdens: Sequence[Burden],
    carriers: int,
    compared: Sequence[Matched],
    problem: str | None,
) -> tuple[str, ...]:
    lines = [problem] if problem else []
    if not seen and not problem:
        lines.append("no change of the hit rate or of a cause is larger than chance would make it")
    lines += [each.sentence + (f" ({each.shape})" if each.shape else "") for each in seen]
    if burdens:
        first = burdens[0]
        of = "" if first.release is None else f" in release {first.release}"
        things = "thing carries" if carriers == 1 else "things carry"
        lines.append(
            f"{carriers} {things} {_MOST:.0%} of the tokens that somebody could have saved; the largest is {first.cause} "
            f"({first.thing}{of}): {first.tokens:,} tokens in {first.requests:,} requests"
        )
    return (
        *lines,
        *(_told(one) for one in compared if one.p is not None and one.p <= _SURE and (one.high or 0) < 0),
    )


def _told(one: Matched) -> str:
    assert one.low is not None
    assert one.high is not None
    return (
        f"turns after a change of {one.field} hit {one.changed_share:.0%} of the prompt before, others after gaps of the same "
        f"length (from {one.gap_from_s} s) {one.same_share:.0%}: {-100 * one.high:.0f} to {-100 * one.low:.0f} points less"
    )
