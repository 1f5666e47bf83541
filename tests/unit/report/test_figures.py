"""Pictures as files: every one of the page, SVG and PNG, in colours that any program can draw."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import matplotlib.image
import pytest

import report_data
from prefixledger.errors import UsageError
from prefixledger.report.figures import INDEX, check_folder, write_figures
from prefixledger.report.page import page

if TYPE_CHECKING:
    from pathlib import Path


def test_every_picture_is_written_twice(tmp_path: Path) -> None:
    """Well-formed, without variables, stand-in colours or anything from outside; the index says what each shows."""
    view = report_data.week()
    names = write_figures(view, tmp_path)
    shown = page(view)
    expected = {name for name, svg in shown.charts.items() if svg} | {
        "capacity-1",
        "ttl-1",
        "gaps-1",
        "ages-1",
        "prefixes",
    }
    assert set(names) == {f"{name}.{suffix}" for name in expected for suffix in ("svg", "png")}
    listed = json.loads((tmp_path / INDEX).read_text(encoding="utf-8"))["figures"]
    assert {one["name"] for one in listed} == expected
    assert all(one["finding"] for one in listed)
    for name in expected:
        svg = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert ET.fromstring(svg).attrib["width"] == "880"
        assert not re.search(r"var\(|#fe[0-9a-f]{2}01|<script|https?://(?!www\.w3\.org/2000/svg)", svg)
        pixels = matplotlib.image.imread(io.BytesIO((tmp_path / f"{name}.png").read_bytes()))
        assert pixels.shape[1] == 2 * 880
        red, blue = pixels[..., 0] * 255, pixels[..., 2] * 255
        stand_ins = (red.round() == 254) & (blue.round() == 1)
        assert not stand_ins.any(), name
    check_folder(tmp_path)


def test_a_window_without_lookups_has_no_pictures(tmp_path: Path) -> None:
    """And the index says so."""
    assert write_figures(report_data.nothing(), tmp_path / "new") == ()
    assert json.loads((tmp_path / "new" / INDEX).read_text(encoding="utf-8"))["figures"] == []


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """Before any work is done; with force they are written into."""
    check_folder(tmp_path / "none")
    check_folder(tmp_path)
    (tmp_path / "holiday.png").write_bytes(b"x")
    with pytest.raises(UsageError, match="not written by prefixledger"):
        check_folder(tmp_path)
    check_folder(tmp_path, force=True)
    with pytest.raises(UsageError, match="not written by prefixledger"):
        check_folder(tmp_path / "holiday.png")
