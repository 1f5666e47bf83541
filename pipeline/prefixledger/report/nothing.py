"""The report of a log of which nothing can be said: why, and what became of every record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from prefixledger import __version__
from prefixledger.config.scenario import dump
from prefixledger.report.books import Book
from prefixledger.report.build import sources
from prefixledger.report.reject_parts import first_rejects
from prefixledger.report.view import Provenance, ReportView, Result, Setup, Window
from prefixledger.schema import CAUSES
from prefixledger.workspace import read_manifest

if TYPE_CHECKING:
    from prefixledger.config.scenario import Scenario
    from prefixledger.errors import InputError
    from prefixledger.workspace import Workspace


def build_nothing(workspace: Workspace, scenario: Scenario, zone: str, problem: InputError) -> ReportView:
    """Return a report without a lookup.

    Args:
        workspace: Holds the account of the inputs, if they were read that far.
        scenario: What would have been replayed.
        zone: Zone of the report.
        problem: What went wrong.
    """
    read = sources(read_manifest(workspace)) if workspace.manifest.exists() else ()
    told = "" if read else problem.message
    if told and problem.place is not None:
        # By name, as inputs are named elsewhere: the path is of one machine.
        told = f"{replace(problem.place, file=PurePath(problem.place.file).name)}: {told}"
    result = Result(
        name=scenario.name,
        setup=Setup(
            (), "", unlimited=False, ttl="", routing="", residence="", pricing="", toml=dump(scenario)
        ),
        total=Book("all", 0, 0, 0, 0, 0, dict.fromkeys(CAUSES, 0)),
        by_basis=(),
        failed_requests=sum(source.kept for source in read),  # or there would have been something to replay
    )
    return ReportView(
        results=(result,),
        window=Window(None, None, zone),
        sources=read,
        made=Provenance(__version__, scenario.seed),
        rejects=first_rejects(workspace),
        unread=told,
        hint="" if read else problem.hint or "",
    )
