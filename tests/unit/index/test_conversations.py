"""Sub-agents and conversations that are interleaved under one session id are told apart by their prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_support import ingest, mooncake, write_lines
from prefixledger import api, index
from prefixledger.index.conversation_kernel import MOST_OPEN
from prefixledger.index.load import Forest, Index
from prefixledger.kernels.path_forest import PathForest
from prefixledger.workspace import Workspace
from twins.conversations import conversations as twin

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.lists(st.integers(0, 1), max_size=6).map(tuple)),
    max_size=14,
)


def _index(rows: list[tuple[str | None, tuple[int, ...]]]) -> Index:
    forest = PathForest()
    offsets = np.concatenate([[0], np.cumsum([len(blocks) for _, blocks in rows])]).astype(np.int64)
    labels = np.array([label for _, blocks in rows for label in blocks], np.uint64)
    last = forest.add(np.zeros(len(rows), np.int64), offsets, None, labels)
    table = pa.table(
        {
            "session_id": pa.array([session for session, _ in rows], pa.string()),
            "last_block": pa.array(last, mask=last < 0),
        }
    )
    empty = np.empty(0, np.int64)
    return Index(
        Forest(
            forest.parent.copy(), empty.reshape(0, 2).astype(np.uint64), empty.astype(np.int32), empty, ("n",)
        ),
        table,
    )


@settings(max_examples=150, deadline=None)
@given(_ROWS)
def test_conversations_equal_their_twin(rows: list[tuple[str | None, tuple[int, ...]]]) -> None:
    """Any prompts of any sessions."""
    assert index.conversations(_index(rows)).tolist() == twin(rows)


def test_a_sub_agent_is_another_conversation(tmp_path: Path) -> None:
    """Main and sub-agent share tools and system; their turns alternate, and the main one loses a message in the middle."""
    shared = list(range(10))
    main = [*shared, 100, 101, 102]
    agent = [*shared, 200, 201]
    prompts = [
        main,
        agent,
        [*main, 103],
        [*agent, 202],
        [*main, 103, 104],
        [*agent, 202, 203],
        [*main, 999, 104],
    ]
    rows = [mooncake(1_000 * at, blocks, session_id="s") for at, blocks in enumerate(prompts)]
    rows.insert(3, mooncake(2_500, [500, 501], session_id="other"))
    ingest(tmp_path / "ws", write_lines(tmp_path / "log.jsonl", rows), block_size=16)
    index.update(Workspace(tmp_path / "ws"))
    found = index.conversations(index.load(Workspace(tmp_path / "ws"))).tolist()
    assert found == [0, 1, 0, 2, 1, 0, 1, 0]

    (done,) = api.replay(workspace=tmp_path / "ws").replays
    assert any(
        "1 of 2 sessions hold several conversations" in note and "3 in all" in note for note in done.notes
    )
    lookups = pq.read_table(tmp_path / "ws" / "replays" / "as-is" / "lookups.parquet")
    begun_by = dict(zip(lookups["source_line"].to_pylist(), lookups["conversation"].to_pylist(), strict=True))
    assert [begun_by[line].split(":")[1] for line in range(1, 9)] == ["1", "2", "1", "4", "2", "1", "2", "1"]
    assert api.explain("log.jsonl:7", workspace=tmp_path / "ws").conversation == begun_by[7]


def test_a_session_id_of_everybody_costs_no_square() -> None:
    """Only the last conversations that a session began are looked at; an older one begins anew."""
    rows = [("app", (n, 0, 1)) for n in range(MOST_OPEN + 1)]
    found = index.conversations(_index([*rows, ("app", (MOST_OPEN, 0, 2)), ("app", (0, 0, 2))])).tolist()
    assert found == [*range(MOST_OPEN + 1), MOST_OPEN, MOST_OPEN + 1]
