"""Routers with a state, one module for each family; each decides in order of arrival."""

from __future__ import annotations
