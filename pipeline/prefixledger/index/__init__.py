"""The forest of all blocks of a workspace, and the last block of each request."""

from __future__ import annotations

from prefixledger.index.conversations import conversations
from prefixledger.index.load import Forest, Index, load
from prefixledger.index.rekeyed import rekeyed
from prefixledger.index.update import IndexStats, update

__all__ = ["Forest", "Index", "IndexStats", "conversations", "load", "rekeyed", "update"]
