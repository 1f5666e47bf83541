"""The command line: reads options, calls ``prefixledger.api``, prints; it computes nothing."""

from __future__ import annotations
