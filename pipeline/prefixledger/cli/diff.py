"""``prefixledger diff``: where two prompts part."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from prefixledger.cli.console import data_console
from prefixledger.cli.options import json_option, show_ids_option, talk_options, workspace_option
from prefixledger.texts import quiet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prefixledger.attribute.diff import PromptDiff

_LABEL = 10
_NARROWEST = 40


@click.command()
@click.argument("first_id", metavar="ID")
@click.argument("second_id", metavar="ID")
@workspace_option
@click.option(
    "--show-text", is_flag=True, help="Show what stands there; the logs must have been read with --keep-text."
)
@json_option
@show_ids_option
@talk_options
def diff(
    first_id: str, second_id: str, workspace: Path, show_text: bool, as_json: bool, show_ids: bool
) -> None:
    """Find where two prompts part, and what of the second would hit without that.

    The first ID is the earlier request. Both are ids of the log, their beginning or short form, or FILE:LINE. The
    workspace must hold a replay. No text is shown unless it is asked for.

    \b
    prefixledger diff req-7f3a21 req-80b114
    prefixledger diff log.jsonl:17 log.jsonl:18 --show-text
    """
    from prefixledger import api
    from prefixledger.cli.show import print_json

    found = api.diff(first_id, second_id, workspace=workspace, show_text=show_text, show_ids=show_ids)
    if as_json:
        print_json(found)
        return
    width = max(_NARROWEST, data_console().width)
    for label, text in _lines(found):
        begin = f"{label:<{_LABEL}}"
        lines = textwrap.wrap(
            text, width, initial_indent=begin, subsequent_indent=" " * _LABEL, break_on_hyphens=False
        )
        click.echo("\n".join(quiet(line) for line in lines or [begin.rstrip()]))


def _lines(found: PromptDiff) -> Iterator[tuple[str, str]]:
    yield "first", f"{found.first_id}, {found.first_tokens:,} tokens"
    yield "second", f"{found.second_id}, {found.second_tokens:,} tokens"
    keys = f"{found.shared_blocks:,} leading blocks of {found.block_size} tokens have the same key"
    yield "keys", keys if found.block_size else "the log has none"
    in_bytes = "" if found.equal_bytes is None else f", {found.equal_bytes:,} bytes of text"
    if found.within_bytes is not None and found.within_bytes > 1:
        in_bytes += f" and up to {found.within_bytes:,} more"
    yield "equal", f"{found.equal_tokens:,} tokens from the start{in_bytes} (by {found.basis})"
    if found.segment is not None and found.relation != "equal":
        yield "where", found.segment
    if found.first_text is not None:
        yield "was", repr(found.first_text)
    if found.second_text is not None:
        yield "is", repr(found.second_text)
    yield "sum", found.closing
