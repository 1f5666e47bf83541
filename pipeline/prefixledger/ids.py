"""Shortens request and user ids for every output that does not ask for them whole."""

from __future__ import annotations

import re

_LENGTH = 10
_LINE_ID = re.compile(r".+:\d+")


def short_id(request_id: str, *, show_ids: bool = False) -> str:
    """Shorten a request or user id; a made-up ``file:line`` id names no one and stays whole."""
    if show_ids or len(request_id) <= _LENGTH or _LINE_ID.fullmatch(request_id):
        return request_id
    return request_id[:_LENGTH] + "…"
