"""Imports what a report reads, computes and draws with, where something else is waited for anyway."""

from __future__ import annotations

from importlib import import_module


def load_report() -> None:
    """Import the stages: 1.4 s, which a report takes as soon as it begins otherwise."""
    for stage in ("ingest.stage", "index", "advice.beside", "scenarios", "report.stage"):
        import_module(f"prefixledger.{stage}")
