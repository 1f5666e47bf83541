"""Photographs every kind of page in headless Chromium: wide and narrow, light and dark, and as a print on A4."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prefixledger import api
from prefixledger.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOTS = (
    ("wide-light", 1280, 2400, False),
    ("wide-dark", 1280, 2400, True),
    ("narrow-light", 400, 3200, False),
    ("narrow-dark", 400, 3200, True),
    ("first-screen", 1280, 900, False),
)
"""Name, width and height in pixels, dark."""

LEAST_PX = 500
"""Chromium makes no window narrower than this: a narrow page is shown in a frame of its width."""

HALVES = (("2026-11-16", "2026-11-18"), ("2026-11-18", "2026-11-20"))
"""Days of the demo before its release, and with it."""


def chromium(*arguments: str) -> None:
    """Run the browser on one page.

    Raises:
        CalledProcessError: It failed.
    """
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=120)


def pages(report: Path, workspace: Path, folder: Path) -> Iterator[Path]:
    """Yield a page of every kind, made from the workspace of the demo."""
    yield report
    yield api.investigate((workspace,), output=folder / "investigate.html").html or report
    settings = {"ttl": ("5m", "1h"), "routing": ("as-logged", "prefix-hash")}
    yield api.whatif((workspace,), output=folder / "whatif.html", **settings).html or report
    twins = [
        api.report(workspace=workspace, from_=begin, to=end, output=folder / f"{begin}.html").json
        for begin, end in HALVES
    ]
    yield api.compare(*twins, output=folder / "compare.html").html or report
    yield api.index(twins, output=folder / "index.html").html
    log = folder / "unknown.jsonl"
    log.write_text('{"of": "no known format"}\n', encoding="utf-8")
    with suppress(InputError):  # which leaves a page that says why
        api.report([log], workspace=folder / "nothing", output=folder / "nothing.html")
    yield folder / "nothing.html"


def photograph(page: Path, folder: Path) -> None:
    """Write the pictures and the print of a page into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    address = page.resolve().as_uri()
    for name, width, height, dark in SHOTS:
        mode = ["--blink-settings=preferredColorScheme=0"] if dark else []
        shown = address
        if width < LEAST_PX:
            frame = folder / f"{name}.html"
            frame.write_text(
                f'<body style="margin:0"><iframe src="{address}" width="{width}" height="{height}" style="border:0">',
                encoding="utf-8",
            )
            shown = frame.resolve().as_uri()
        chromium(f"--screenshot={folder / f'{name}.png'}", f"--window-size={width},{height}", *mode, shown)
        (folder / f"{name}.html").unlink(missing_ok=True)
    chromium("--no-pdf-header-footer", f"--print-to-pdf={folder / 'a4.pdf'}", address)


def main(report: Path, workspace: Path, folder: Path) -> None:
    """Photograph every kind of page, each into a folder of its name."""
    with TemporaryDirectory() as made:
        for page in pages(report, workspace, Path(made)):
            photograph(page, folder / page.stem)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
