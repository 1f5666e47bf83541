"""One reader a file; ``ingest/formats.py`` lists them."""

from __future__ import annotations
