"""Photographs a report in headless Chromium: wide and narrow, light and dark, and as the first page of a print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def chromium(*arguments: str) -> None:
    """Run the browser on one page.

    Raises:
        CalledProcessError: It failed.
    """
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=120)


def main(report: Path, folder: Path) -> None:
    """Write the pictures and the print of a report into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    address = report.resolve().as_uri()
    for name, width, height, dark in SHOTS:
        mode = ["--blink-settings=preferredColorScheme=0"] if dark else []
        page = address
        if width < LEAST_PX:
            frame = folder / f"{name}.html"
            frame.write_text(
                f'<body style="margin:0"><iframe src="{address}" width="{width}" height="{height}" style="border:0">',
                encoding="utf-8",
            )
            page = frame.resolve().as_uri()
        chromium(f"--screenshot={folder / f'{name}.png'}", f"--window-size={width},{height}", *mode, page)
    chromium("--no-pdf-header-footer", f"--print-to-pdf={folder / 'a4.pdf'}", address)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
