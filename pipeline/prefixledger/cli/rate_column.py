"""The column of a progress bar that shows how much is done, and how fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.progress import ProgressColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Task


class RateColumn(ProgressColumn):
    """Shows ``12.3 MB, 4.1 MB/s`` for bytes and ``1,200 lookups, 300/s`` for anything else."""

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        unit = str(task.fields.get("unit", ""))
        done, speed = int(task.completed), task.finished_speed or task.speed
        if unit == "bytes":
            rate = f", {decimal(int(speed))}/s" if speed else ""
            return Text(f"{decimal(done)}{rate}")
        rate = f", {speed:,.0f}/s" if speed else ""
        return Text(f"{done:,} {unit}{rate}")
