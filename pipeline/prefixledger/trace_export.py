"""The verb ``export``: a workspace as a trace that may be given away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prefixledger.progress import SILENT
from prefixledger.running import running
from prefixledger.workspace import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from prefixledger.export import ExportSummary
    from prefixledger.progress import Progress


def export(
    workspace: str | Path = DEFAULT_WORKSPACE,
    *,
    output: str | Path,
    form: str = "mooncake",
    block_size: int | None = None,
    salt: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> ExportSummary:
    """Write a workspace as a trace that replays as its logs did: no text, no ids, no tenants, salted keys.

    Args:
        workspace: Folder of the stages' files.
        output: The trace; ``.gz`` and ``.zst`` are packed.
        form: ``mooncake`` or ``bailian``.
        block_size: Export only requests with blocks of so many tokens; None where all have one size.
        salt: Makes the ids of several workspaces comparable; None is a secret of the workspace.
        force: Replace a file that no export of this workspace wrote.
        progress: See ``ingest``.

    Returns:
        What was written, and what is not in it.

    Raises:
        UsageError: There is no workspace, an option cannot be used, or a foreign file is in the way.
        InputError: No request has keys.
    """
    from prefixledger import export as exports
    from prefixledger import index, stages

    _, place = stages.resolve((), workspace)
    with running(place, "export", force=force):
        progress.phase("index")
        index.update(place)
        progress.phase("export")
        return exports.export(place, Path(output), form=form, block_size=block_size, salt=salt, force=force)
