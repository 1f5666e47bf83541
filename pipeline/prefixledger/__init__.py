"""Keeps the books of a prefix cache: for every prompt token, hit or miss, why, and what it cost."""

from __future__ import annotations

__version__ = "0.1.0"
