"""What goes where: data to stdout, talk to stderr, colour only where it is wanted."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from prefixledger.texts import quiet

if TYPE_CHECKING:
    from rich.console import Console

    from prefixledger.errors import PrefixledgerError

ISSUE_HINT = "this is a fault of prefixledger: run it again with --debug and report what it prints"


_COMMAND = "next: "
"""Begins a line that holds a command."""


@dataclass(slots=True)
class Talk:
    """How much is said on stderr.

    Attributes:
        quiet: Only errors.
        verbose: Also what is usually taken for granted.
        debug: Tracebacks, too.
    """

    quiet: bool = False
    verbose: bool = False
    debug: bool = False

    def say(self, text: str, *, dim: bool = False) -> None:
        """Print one line, unless quiet."""
        if not self.quiet:
            shown = fitted(quiet(text), sys.stderr)
            click.secho(shown, err=True, color=wants_colour(sys.stderr), dim=dim or None)

    def detail(self, text: str) -> None:
        """Print one line where more was asked for."""
        if self.verbose:
            self.say(text, dim=True)


def fitted(text: str, stream: TextIO) -> str:
    """Break sentences between words where a stream is a terminal, which would break within them; elsewhere they stay whole.

    So does a command to copy, which a terminal joins again.
    """
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        line
        if len(line) <= width or line.startswith(_COMMAND)
        else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )


def talk_of(context: click.Context) -> Talk:
    """Return the settings that all verbs of one run share."""
    return context.ensure_object(Talk)


def wants_colour(stream: TextIO) -> bool:
    """Say whether to colour a stream: NO_COLOR, then FORCE_COLOR, then whether it is a capable terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def data_console() -> Console:
    """Return the rich console for tables on stdout."""
    return _console(sys.stdout)


def talk_console() -> Console:
    """Return the rich console for progress bars on stderr."""
    return _console(sys.stderr)


def print_error(error: PrefixledgerError) -> None:
    """Say what happened, where, and what to do."""
    where = f"{error.place}: " if error.place else ""
    _print_fault(f"{where}{error.message}", error.hint)


def print_usage_error(error: click.ClickException) -> None:
    """Say what is wrong with the command line."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "prefixledger"
    _print_fault(error.format_message(), f"{command} --help")


def print_crash(error: BaseException) -> None:
    """Say that a fault of our own ended the run."""
    _print_fault(f"{type(error).__name__}: {error}", ISSUE_HINT)


def _print_fault(message: str, hint: str | None) -> None:
    colour = wants_colour(sys.stderr)
    for name, hue, text in (("error:", "red", message), ("hint:", "cyan", hint)):
        if text:
            shown = fitted(f"{name} {quiet(text)}", sys.stderr).removeprefix(name)
            click.echo(f"{click.style(name, fg=hue, bold=True)}{shown}", err=True, color=colour)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    colour = wants_colour(stream)
    return Console(file=stream, no_color=not colour, highlight=False, soft_wrap=not stream.isatty())
