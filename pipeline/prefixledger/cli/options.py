"""Options that several verbs share, in the order in which the help shows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prefixledger.cli.console import talk_of
from prefixledger.objects import is_url
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

FILE = click.Path(path_type=Path)


class _Place(click.Path):
    """A path, or the URL of something on object storage, whose slashes a path would swallow."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_url(value) else super().convert(value, param, ctx)


PLACE = _Place(path_type=Path)


def _set(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and parameter.name:
        setattr(talk_of(context), parameter.name, True)


def _together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Apply decorators so that the first is shown first."""

    def decorate(function: F) -> F:
        decorated: Any = function
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        return decorated  # type: ignore[no-any-return]  # click's decorators keep the kind of what they decorate

    return decorate


def _flag(short: str | None, name: str, text: str) -> Callable[[Any], Any]:
    names = [short, f"--{name}"] if short else [f"--{name}"]
    return click.option(*names, is_flag=True, expose_value=False, callback=_set, help=text)


talk_options = _together(
    _flag("-q", "quiet", "Say nothing on stderr but errors."),
    _flag("-v", "verbose", "Say more."),
    _flag(None, "debug", "Show tracebacks."),
)

workspace_option = click.option(
    "--workspace",
    type=PLACE,
    default=DEFAULT_WORKSPACE,
    show_default=True,
    metavar="DIR",
    help="Where the stages keep their files; a folder, or s3://BUCKET/FOLDER.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")

force_option = click.option(
    "--force",
    is_flag=True,
    help="Replace files and use folders that prefixledger did not write; read inputs again that were read before.",
)

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes to use; results do not depend on it. [default: all cores]",
)

engine_options = _together(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="What runs the tasks: this machine, or Ray (the extra ray); results are the same.",
    ),
    click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Ray cluster. [default: that of RAY_ADDRESS, else one is started on this machine]",
    ),
    click.option(
        "--task-memory", metavar="SIZE", help='What one task may take, as "512MiB". [default: no limit]'
    ),
)

show_ids_option = click.option("--show-ids", is_flag=True, help="Show request and user ids whole.")

sources_argument = click.argument("sources", nargs=-1, metavar="[SOURCE]…", type=PLACE)
logs_argument = click.argument("sources", nargs=-1, metavar="SOURCE…", type=PLACE)

log_options = _together(
    click.option(
        "--format", metavar="NAME", help="Format of the logs; see the verb formats. [default: detect]"
    ),
    click.option(
        "--map", type=FILE, metavar="FILE", help="TOML file that maps our columns to those of the logs."
    ),
    click.option(
        "--block-size",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens per block. [default: what the log says]",
    ),
    click.option(
        "--block-ids",
        type=click.Choice(["floor", "ceil"]),
        help="Whether logs hash a trailing partial block. [default: count]",
    ),
    click.option(
        "--id-scope",
        type=click.Choice(["file", "global"]),
        help="Over what block ids are unique. [default: the format's]",
    ),
    click.option("--t0", metavar="TIME", help="When a log with a relative clock begins."),
    click.option(
        "--after", type=PLACE, metavar="FILE", help="The log that one with a relative clock goes on from."
    ),
    click.option(
        "--year",
        type=int,
        metavar="YEAR",
        help="Year in which logs begin that write none. [default: by the time of the file]",
    ),
    click.option(
        "--zone",
        metavar="ZONE",
        help="Time zone of logs that name none. [default: UTC, unless they tell]",
    ),
    click.option(
        "--tokenizer",
        metavar="FILE|NAME",
        help="For logs with text: tokenizer.json, tiktoken encoding or installed package. [default: cut by bytes, approximate]",
    ),
    click.option(
        "--template",
        type=FILE,
        metavar="FILE",
        help="For logs with messages: the chat template of the model, in Jinja.",
    ),
    click.option(
        "--models",
        type=FILE,
        metavar="FILE",
        help="TOML file with aliases of models: deployments, ARNs, groups.",
    ),
    click.option(
        "--from-name",
        metavar="REGEX",
        help="Fields in the names of logs, as named groups; one group without a name is the replica.",
    ),
    click.option(
        "--keep-text", is_flag=True, help="Keep the texts of prompts in the workspace, not only digests."
    ),
    click.option(
        "--max-rejects",
        default="1%",
        show_default=True,
        metavar="N|N%",
        help="Exit 3 when more records are rejected; a share allows at least 10.",
    ),
    jobs_option,
    engine_options,
)

replay_options = _together(
    click.option(
        "--scenario",
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="Scenario to replay; may be given several times. [default: vLLM, as logged, unlimited]",
    ),
    click.option(
        "--events",
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="Restarts, deploys … in TOML, CSV or JSONL.",
    ),
    click.option(
        "--replica-grace",
        metavar="TIME",
        help="How long a replica lives after its last logged request. [default: the scenario's, 10m]",
    ),
    click.option(
        "--engine-log",
        type=PLACE,
        multiple=True,
        metavar="FILE",
        help='What engines tell of themselves: logs or scrapes (cache size for capacity = "from-log", starts), KV events, '
        "Prometheus counters. No --map applies to it.",
    ),
    click.option(
        "--max-gap-pp",
        type=click.FloatRange(min=0),
        metavar="N",
        help="Exit 1 when the first replay's hit rate is more than N points from what the service reports.",
    ),
)

fail_on_option = click.option(
    "--fail-on",
    multiple=True,
    metavar="RULE",
    help="Exit 1 when the report says so: 'token_hit_rate<0.8', 'evicted_share>5%', gap-to-ideal, rejects, "
    "reads-zero-writes-climb; may be given several times.",
)

output_option = click.option(
    "-o",
    "--output",
    type=FILE,
    default="prefixledger.html",
    show_default=True,
    metavar="FILE",
    help="The HTML file; JSON and CSV go beside it.",
)

figures_option = click.option(
    "--figures", type=FILE, metavar="DIR", help="Also write every picture into this folder, as SVG and PNG."
)

invoice_option = click.option(
    "--invoice",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Invoice as CSV (date, model, kind, tokens, amount) or usage page as JSON to hold the log against; it sets the "
    "days of the report unless they are given.",
)

tz_option = click.option(
    "--tz",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Time zone of the report and of --from and --to.",
)

window_options = _together(
    click.option(
        "--from", "from_", metavar="TIME", help="First moment of the report. [default: last whole ISO week]"
    ),
    click.option("--to", metavar="TIME", help="First moment after it."),
    click.option("--month", metavar="YYYY-MM", help="A calendar month, as invoices have it."),
    tz_option,
)
