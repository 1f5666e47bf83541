"""A call of ingest that is cut off between two inputs is gone on with, not begun again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES, ingest, tree
from prefixledger.ingest import stage
from prefixledger.ingest.manifest import Manifest

if TYPE_CHECKING:
    from pathlib import Path

    from prefixledger.ingest.account import InputAccount

LOGS = [str(FIXTURES / name) for name in ("dynamo.jsonl", "litellm.jsonl", "sglang.jsonl")]


class _KilledError(BaseException):
    """Stands for the end of the process."""


def _cut_off(monkeypatch: pytest.MonkeyPatch, folder: Path, logs: list[str], after: int) -> None:
    """Read logs, and end after so many as a killed process does: nothing is written any more."""
    add, save = Manifest.add, Manifest.save
    n_added = 0

    def counted(self: Manifest, account: InputAccount, head: str) -> None:
        nonlocal n_added
        if n_added == after:
            raise _KilledError
        n_added += 1
        add(self, account, head)

    def saved(self: Manifest, *, ended: bool) -> None:
        if n_added < after:
            save(self, ended=ended)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "_KEPT_BYTES", 1)
        patch.setattr(Manifest, "add", counted)
        patch.setattr(Manifest, "save", saved)
        with pytest.raises(_KilledError):
            ingest(folder, *logs)


@pytest.mark.parametrize("after", [1, 2])
def test_it_ends_as_if_it_had_not_been_cut_off(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever had been kept is not read again; workspace and account are those of one call, to the byte."""
    whole = ingest(tmp_path / "whole", *LOGS)
    _cut_off(monkeypatch, tmp_path / "ws", LOGS, after)
    resumed = ingest(tmp_path / "ws", *LOGS)
    assert resumed.summary.inputs == whole.summary.inputs
    assert tree(tmp_path / "ws") == tree(tmp_path / "whole")
    again = sum("before the command was cut off" in one for one in resumed.summary.messages)
    assert again == after - 1  # the book was last written before the input after which the process ended


def test_another_call_leaves_it_in_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept of a call that nobody gives again is a call of its own, as if its user had stopped there."""
    _cut_off(monkeypatch, tmp_path / "ws", LOGS, 2)
    ingest(tmp_path / "ws", LOGS[2])
    ingest(tmp_path / "parted", LOGS[0])
    ingest(tmp_path / "parted", LOGS[2])
    assert tree(tmp_path / "ws") == tree(tmp_path / "parted")
