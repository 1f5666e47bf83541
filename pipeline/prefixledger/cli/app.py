"""The entry point: finds the verb, and turns every ending into an exit code."""

from __future__ import annotations

import atexit
import difflib
import gc
import os
import platform
import sys
import threading
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click

from prefixledger import __version__
from prefixledger.cli.console import Talk, print_crash, print_error, print_usage_error
from prefixledger.cli.options import talk_options
from prefixledger.errors import InternalError, PrefixledgerError

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = (
    "report",
    "demo",
    "ingest",
    "replay",
    "whatif",
    "investigate",
    "compare",
    "index",
    "explain",
    "diff",
    "query",
    "export",
    "prune",
    "formats",
    "rates",
    "doctor",
)
"""Each is a module of this package with a command of the same name; in the order of the help."""

_GARBAGE_OBJECTS: Final = 50_000
"""New objects between two looks for cycles. Imports and rows make many and hardly a cycle: at Python's 700, the demo looked
1,631 times, which took 1.3 of 16.6 s; so 18 times and 0.4 s, for 15 MiB more."""
_LONG = 500
"""Characters that no first sentence of a verb has."""
_ENGINES = ("duckdb", "matplotlib", "numba", "numpy", "polars", "pyarrow", "scipy")
"""What computes and draws; results may differ between their versions."""
INTERRUPTED = 130
BROKEN_PIPE = 141

_SHORT_HELP = """\
prefixledger keeps the books of a prefix cache: for every prompt token, hit or
miss, why, and what it cost.

  prefixledger demo                        a report on a made-up week, in seconds
  prefixledger report logs/*.jsonl.gz      a report on your own logs

All verbs and options: prefixledger --help
"""


class _Verbs(click.Group):
    """Loads the module of a verb when it is asked for, and names near ones when it does not exist."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(VERBS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Give each verb its whole first sentence: cut off, the sentences say what they do not mean."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(_LONG)) for name, one in commands if one is not None]
        with formatter.section("Verbs"):
            formatter.write_dl(rows)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"prefixledger.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise click.UsageError(f"there is no verb {args[0]!r}: {guess}verbs: {', '.join(VERBS)}", ctx)
        return super().resolve_command(ctx, args)


def _print_versions(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    with_what = ", ".join(f"{name} {version(name)}" for name in _ENGINES)
    click.echo(f"prefixledger, version {__version__}\nPython {platform.python_version()}, {with_what}")
    ctx.exit()


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the version, and those of what it computes with, and exit.",
)
@talk_options
@click.pass_context
def app(ctx: click.Context) -> None:
    """Keep the books of a prefix cache: for every prompt token, hit or miss, why, and what it cost.

    \b
    prefixledger demo                        a report on a made-up week, in seconds
    prefixledger report logs/*.jsonl.gz      a report on your own logs

    Data go to stdout, everything else to stderr.

    \b
    Exit codes:
      0    done
      1    done, and a rule of --fail-on or --max-gap-pp is crossed
      2    an option or a file of settings is wrong
      3    an input cannot be read, is empty or has too many rejects; or a
           workspace or report is damaged, stale or of another version
      4    a fault of prefixledger
      130  interrupted; the workspace is safe

    \b
    Environment:
      NO_COLOR, FORCE_COLOR  no colour; colour also where stdout is no terminal
      COLUMNS                width of tables and sentences
      XDG_CACHE_HOME         where copies of workspaces on object storage lie
      NUMBA_CACHE_DIR        where compiled kernels are kept
      AWS_ACCESS_KEY_ID …    credentials, AWS_REGION and AWS_ENDPOINT_URL of s3://
      RAY_ADDRESS            the cluster of --engine ray
    """
    if ctx.invoked_subcommand is None:
        click.echo(_SHORT_HELP, nl=False)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; see the group's help for the exit codes."""
    gc.set_threshold(_GARBAGE_OBJECTS, 20, 100)
    _leave(run(arguments))


def _leave(status: int) -> NoReturn:
    """End the process when all is written and what asked to be called at its end has been.

    Python then frees object by object what the system takes back at once: 0.4 of 4 s of a report or a grid.
    """
    watched = sys.getprofile() is not None or sys.gettrace() is not None or bool(sys.flags.interactive)
    running = any(
        not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()
    )
    if watched or running:
        sys.exit(status)
    atexit._run_exitfuncs()  # noqa: SLF001  # the only way to call them, and they may print
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        sys.exit(status)
    os._exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    talk = Talk()
    try:
        status = app.main(args=arguments, prog_name="prefixledger", obj=talk, standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; the workspace is safe, and the same command goes on from here", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        print_usage_error(error)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read stdout has gone; nothing more can be said there, not even by the interpreter's flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except PrefixledgerError as error:
        if talk.debug:
            traceback.print_exc()
        print_error(error)
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # the last line of defence: no traceback unless it is asked for
        if talk.debug:
            traceback.print_exc()
        print_crash(error)
        return InternalError.exit_code
    return status if isinstance(status, int) else 0
