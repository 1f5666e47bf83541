"""Tools of prompts are numbered as sent and as a set, wherever the file of parts is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prefixledger.replay.tool_lists import number_tools
from prefixledger.schema_contents import PARTS
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def _part(line: int, part: int, raw: int, canonical: int, kind: str = "tools") -> dict[str, Any]:
    return {
        "source": "s", "source_line": line, "part": part, "kind": kind, "raw_hash": bytes([raw]) * 16,
        "canonical_hash": bytes([canonical]) * 16, "n_bytes": 1, "content_blocks": 1, "goes_on": False,
    }  # fmt: skip


ROWS = [
    *(_part(1, part, raw, raw) for part, raw in enumerate((5, 7, 9))),
    _part(1, 3, 5, 5, "system"),
    *(_part(2, part, raw, raw) for part, raw in enumerate((9, 5, 7))),  # in another order
    *(_part(4, part, raw, raw) for part, raw in enumerate((5, 7))),  # one less
    *(_part(6, part, *raw) for part, raw in enumerate(((6, 5), (7, 7), (9, 9)))),  # one with its keys mixed
    *(_part(7, part, raw, raw) for part, raw in enumerate((5, 7, 9))),  # as the first
    _part(8, 0, 5, 5, "message"),
]


@pytest.mark.parametrize("rows_in_group", [1, 2, 3, 100])
def test_order_and_spelling_tell_tools_apart_as_sent_and_not_as_a_set(
    rows_in_group: int, tmp_path: Path
) -> None:
    """Prompts that another file holds, or that have no tools, have no number."""
    workspace = Workspace(tmp_path)
    workspace.parts.mkdir(parents=True)
    table = pa.Table.from_pylist(ROWS, schema=PARTS.arrow())
    pq.write_table(table, workspace.parts / "s.parquet", row_group_size=rows_in_group)
    asked = pa.table({"source": ["s", "s", "s", "s", "s", "s", "t"], "source_line": [1, 2, 4, 6, 7, 8, 1]})
    as_sent, as_set = number_tools(workspace, asked)
    assert as_sent.tolist() == [0, 1, 2, 3, 0, -1, -1]
    assert as_set.tolist() == [0, 0, 1, 0, 0, -1, -1]
    nobody, _ = number_tools(Workspace(tmp_path / "none"), asked)
    assert set(nobody.tolist()) == {-1}
