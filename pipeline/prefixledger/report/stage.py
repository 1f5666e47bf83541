"""The stage that draws the report: from the marts to one page, its JSON twin and its tables."""

from __future__ import annotations

from prefixledger.report.build import build
from prefixledger.report.figures import check_folder, write_figures
from prefixledger.report.rules import crossed
from prefixledger.report.summary import Summary, summary
from prefixledger.report.view import ReportView
from prefixledger.report.write import Written, check, write

__all__ = [
    "ReportView",
    "Summary",
    "Written",
    "build",
    "check",
    "check_folder",
    "crossed",
    "summary",
    "write",
    "write_figures",
]
