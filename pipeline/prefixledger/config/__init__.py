"""Reads what a user writes beside the logs: scenarios, events, sizes and durations."""

from __future__ import annotations
