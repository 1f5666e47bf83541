"""Compiled templates are kept, are made anew where their text or code changed, and cost nothing where they are broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from jinja2 import DictLoader, Environment

from prefixledger.report import template_cache
from prefixledger.report.template_cache import CompiledTemplates

if TYPE_CHECKING:
    from pathlib import Path


def _render(text: str) -> str:
    kept = Environment(autoescape=True, bytecode_cache=CompiledTemplates(), loader=DictLoader({"page": text}))
    return kept.get_template("page").render(name="<a>")


def _compiled(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[str, int]:
    """Return a page, and how often it was compiled."""
    calls = []
    compile_ = Environment.compile

    def counted(self: Environment, *args: object, **named: object) -> object:
        calls.append(args)
        return compile_(self, *args, **named)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "compile", counted)
        return _render(text), len(calls)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))


def test_a_template_is_compiled_once_for_its_text_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second page takes what the first compiled."""
    assert _compiled(monkeypatch, "1 {{ name }}") == ("1 &lt;a&gt;", 1)
    assert _compiled(monkeypatch, "1 {{ name }}") == ("1 &lt;a&gt;", 0)
    assert _compiled(monkeypatch, "2 {{ name }}") == ("2 &lt;a&gt;", 1)
    monkeypatch.setattr(template_cache, "_code", lambda: "a filter was edited")
    assert _compiled(monkeypatch, "2 {{ name }}") == ("2 &lt;a&gt;", 1)


@pytest.mark.parametrize("content", [b"", b"j2", b"cut short"])
def test_a_broken_file_is_compiled_anew(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a damaged file is used."""
    assert _render("{{ name }}") == "&lt;a&gt;"
    (path,) = (tmp_path / "kept").iterdir()
    path.write_bytes(path.read_bytes()[:-30] if content == b"cut short" else content)
    assert _compiled(monkeypatch, "{{ name }}") == ("&lt;a&gt;", 1)


def test_a_place_that_cannot_be_written_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cache is no fault."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert _render("{{ name }}") == "&lt;a&gt;"


def test_the_cache_holds_no_filter_of_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters of constants are applied as a template is compiled: those of a window must not be."""
    from prefixledger.report import render
    from prefixledger.report.view import Window

    shown = []
    for zone in ("UTC", "Europe/Berlin"):
        window = Window(0, 1_000_000, zone, False, "")
        monkeypatch.setattr(render, "read_text", lambda *_: "{{ 0 | at }}")
        shown.append(render._environment(window, show_ids=False).get_template("page").render())
    assert shown[0] != shown[1]
