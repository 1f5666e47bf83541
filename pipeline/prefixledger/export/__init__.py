"""Stage export: a log as a trace that can be given away."""

from __future__ import annotations

from prefixledger.export.trace import FORMS, ExportSummary, export

__all__ = ["FORMS", "ExportSummary", "export"]
