"""Lets ``python -m prefixledger`` be the command line."""

from __future__ import annotations

from prefixledger.cli.app import main

if __name__ == "__main__":
    main()
