"""Fills the templates of ``reports/``; everything that comes from a log is escaped."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape

from prefixledger.config.units import datetime_us, parse_time_us
from prefixledger.ids import short_id
from prefixledger.report import numbers
from prefixledger.report.books import rate
from prefixledger.report.glossary import RUNG_NAMES, SETTING_NAMES, cause_name, in_words
from prefixledger.report.invoice_parts import DIFFERENCE_NAMES, KIND_NAMES
from prefixledger.report.models import MODEL_NAMES
from prefixledger.report.page import page
from prefixledger.report.palette import css_variables, fill, hatch_patterns
from prefixledger.report.template_cache import CompiledTemplates
from prefixledger.resources import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jinja2.runtime import Context

    from prefixledger.report.view import ReportView, Window

GENERATOR = "prefixledger"
"""Starts the generator tag of every page that we wrote."""

_TEMPLATE = "templates/report.html.j2"
_FIGURE_UNIT = re.compile(r"(?<=\d) (?=%|points\b|million\b|billion\b|trillion\b)")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z")
_SHARE = re.compile(r"(?<=\d)%")
_REGION = re.compile(r'(role="region" aria-label=")([^"]*)"')
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def html(view: ReportView, *, show_ids: bool = False) -> str:
    """Return the page as one self-contained document: no script, no request, no address.

    Args:
        view: The data.
        show_ids: Whether request ids are shown whole.
    """
    return page_html(_TEMPLATE, window=view.window, show_ids=show_ids, page=page(view))


def page_html(
    template: str, *, window: Window | None = None, show_ids: bool = False, **values: object
) -> str:
    """Fill a template that is a whole page.

    Args:
        template: Its name.
        window: For moments; None on a page without any.
        show_ids: Whether request ids are shown whole.
        values: What it prints.
    """
    environment = _environment(window, show_ids=show_ids)
    text = environment.get_template(template).render(
        css=_ours(_css() + _paper(window)), patterns=_ours(hatch_patterns()), **values
    )
    return re.sub(r"\n\s*\n+", "\n", _told_apart(text)).rstrip() + "\n"


def _told_apart(text: str) -> str:
    """Number the regions that have one name, such as the same table of two pools: each needs a name of its own."""
    seen: dict[str, int] = {}

    def named(match: re.Match[str]) -> str:
        opening, name = match.groups()
        seen[name] = number = seen.get(name, 0) + 1
        return f'{opening}{name} ({number})"' if number > 1 else match.group()

    return _REGION.sub(named, text)


def _environment(window: Window | None, *, show_ids: bool) -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_quiet,
        loader=FunctionLoader(_load),
        bytecode_cache=CompiledTemplates(),
    )
    environment.filters |= {
        "whole": numbers.whole,
        "percent": numbers.percent,
        "count": numbers.count,
        "points": numbers.points,
        "amount": numbers.amount,
        "compact": numbers.compact,
        "money": numbers.money,
        "money_cell": numbers.money_cell,
        "money_compact": numbers.money_compact,
        "multiplier": numbers.multiplier,
        "signed": _signed,
        "named": in_words,
        "duration": numbers.duration,
        "size": numbers.size,
        "name": _name,
        "prose": _prose,
        "short_id": _of_this_page(partial(short_id, show_ids=show_ids)),
        "cause_name": cause_name,
        "fill": fill,
        "svg": _ours,
    }
    if window is not None:
        environment.filters |= {
            "at": _of_this_page(partial(numbers.moment, window=window)),
            "when": _of_this_page(partial(_when, window=window)),
            "told": _of_this_page(partial(_told, window=window)),
        }
    environment.globals |= {
        "generator": GENERATOR,
        "rate": rate,
        "rungs": RUNG_NAMES,
        "settings": SETTING_NAMES,
        "formulas": MODEL_NAMES,
        "differences": DIFFERENCE_NAMES,
        "token_kinds": KIND_NAMES,
        "NO_VALUE": numbers.NO_VALUE,
    }
    return environment


def _of_this_page(filter_: Callable[..., str]) -> Callable[..., str]:
    """Keep a filter that differs from page to page out of compiled templates, in which those of constants are applied."""

    @pass_context
    def applied(_: Context, *values: Any) -> str:
        return filter_(*values)

    return applied


def _load(name: str) -> tuple[str, str, None]:
    """Return (source, name in messages, never stale) of a template."""
    return read_text("reports", name), f"reports/{name}", None


def _quiet(value: object) -> object:
    """Take control and direction marks out of every text that a template prints."""
    return numbers.quiet(value) if type(value) is str else value  # Markup is ours, and clean already


def _name(text: str, limit: int = 48) -> Markup:
    """Show a name from a log: cleaned, escaped, and with its own direction of writing."""
    return Markup("<bdi>{}</bdi>").format(numbers.clean(text, limit))


def _prose(text: str) -> Markup:
    """Escape a sentence and keep its figures with their units, and each option with its dashes, on one line."""
    found = _FIGURE_UNIT.sub("&nbsp;", str(escape(numbers.quiet(text))))
    return _ours(_OPTION.sub(r'<span class="nw">\g<0></span>', found))


def _signed(points: float, digits: int = 1) -> str:
    """Write a difference in points with its sign; none has none."""
    text = f"{points:+.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else text[1:]


def _when(at: datetime, *, window: Window) -> str:
    """Write a moment as the report does."""
    return numbers.moment(datetime_us(at), window)


def _told(text: str, *, window: Window) -> Markup:
    """Put a sentence that an analysis wrote for a terminal into the words, units and times of the report."""
    found = _MOMENT.sub(lambda m: numbers.moment(parse_time_us(m.group()), window), numbers.quiet(text))
    found = _SHARE.sub(" %", in_words(found))
    return _prose(f"{found[:1].upper()}{found[1:].removesuffix('.')}.")


def _ours(text: str) -> Markup:
    """Mark text of our own making, in which everything from a log is escaped already."""
    return Markup(text)  # noqa: S704  # called with the style sheet, our SVG, and escaped prose


def _paper(window: Window | None) -> str:
    """Return the rule that prints on top of every sheet what the page is about; nothing in it is from a log."""
    if window is None or window.from_us is None:
        return ""
    covered = f"{numbers.moment(window.from_us, window)} to {numbers.moment(window.to_us, window)}"
    return f'@page{{@top-right{{content:"{covered}";font:8pt sans-serif}}}}'


def _css() -> str:
    """Return the style sheet without comments and line breaks, the colours first."""
    text = _COMMENT.sub("", read_text("reports", "report.css"))
    return css_variables() + re.sub(r"\s+", " ", text).strip()
