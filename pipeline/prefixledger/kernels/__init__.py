"""Compiled loops over plain arrays that every stage above shares."""

from __future__ import annotations
