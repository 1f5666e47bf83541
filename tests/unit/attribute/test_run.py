"""The books of one replay: files, their columns, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from facts import NAME, Facts
from prefixledger import attribute
from prefixledger.attribute import inputs
from prefixledger.attribute.tables import LOOKUPS, MISSES, OBSERVED_BOOK, SEGMENTS
from prefixledger.errors import InternalError, UsageError
from prefixledger.schema import CAUSES
from prefixledger.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = {
    "lookups": [
        "request_id", "admitted_at", "replica", "basis", "prompt_tokens", "hit_tokens", "hit_host_tokens",
        *(f"miss_{cause}_tokens" for cause in CAUSES),
    ],
    "misses": [
        "request_id", "replica", "prefix_key", "first_block", "n_blocks", "tokens", "cause", "detail",
        "previous_request_id", "last_used_at", "removed_at", "removed_by", "elsewhere", "resident_replica",
        "needed_capacity_blocks", "needed_ttl_s", "event_id",
    ],
}  # fmt: skip


def _run(log: Facts, root: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(inputs, "load", log.load)
    workspace = log.write(root)
    attribute.run(workspace, NAME)
    return workspace


def _mixed_log() -> Facts:
    """A hit, a miss with evidence, a refused prompt, a failed call, and a row with usage only."""
    log = Facts(replicas=("r0", "r1"))
    first = log.lookup(0, 45)
    second = log.lookup(10, 45, replica=1, usage_state="present", cached_tokens_observed=30)
    log.piece(second, 0, 3, hit=True, own_previous=first)
    log.piece(second, 3, 1, resident_replica=0, else_previous=first)
    log.lookup(20, 90, refused=True)
    log.request(30, 100, status="failed")
    log.request(40, 100, keyed=False, block_size=0, usage_state="present", cached_tokens_observed=60)
    return log


@pytest.mark.parametrize("table", [LOOKUPS, SEGMENTS, MISSES, OBSERVED_BOOK], ids=lambda table: table.name)
def test_files_have_exactly_their_columns(table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, types, order and null rules are those of the contract, with the meaning of each column."""
    workspace = _run(_mixed_log(), tmp_path, monkeypatch)
    schema = pq.read_schema(workspace.replay(NAME) / f"{table.name}.parquet")
    assert schema.equals(table.arrow(), check_metadata=True)


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_columns_that_other_programs_rely_on(name: str) -> None:
    """They are there in this order, and only causes begin with miss_."""
    table = {"lookups": LOOKUPS, "misses": MISSES}[name]
    assert [column for column in table.names if column in CONTRACT[name]] == sorted(
        CONTRACT[name], key=table.names.index
    )
    assert set(CONTRACT[name]) <= set(table.names)
    causes = [column for column in table.names if column.startswith("miss_")]
    assert causes == [column for column in CONTRACT[name] if column.startswith("miss_")]


def test_every_prompt_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hits and misses sum to each prompt, in lookups and in misses alike."""
    folder = _run(_mixed_log(), tmp_path, monkeypatch).replay(NAME)
    lookups = pq.read_table(folder / "lookups.parquet").to_pylist()
    misses = pq.read_table(folder / "misses.parquet").to_pylist()
    assert [row["request_id"] for row in lookups] == ["q0", "q1", "q2", "q4"]
    for row in lookups:
        by_cause = {cause: row[f"miss_{cause}_tokens"] for cause in CAUSES}
        assert row["prompt_tokens"] == row["hit_tokens"] + sum(by_cause.values())
        for cause, tokens in by_cause.items():
            mine = [
                m["tokens"] for m in misses if (m["request_id"], m["cause"]) == (row["request_id"], cause)
            ]
            assert sum(mine) == tokens


def test_a_refused_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one uncacheable segment, larger than the cache, and nothing of it is written."""
    folder = _run(_mixed_log(), tmp_path, monkeypatch).replay(NAME)
    (segment,) = (
        s for s in pq.read_table(folder / "segments.parquet").to_pylist() if s["request_id"] == "q2"
    )
    assert (segment["cause"], segment["detail"]) == ("uncacheable", "larger_than_cache")
    assert (segment["tokens"], segment["n_blocks"], segment["written_tokens"]) == (90, 9, 0)


def test_an_observed_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with usage and no keys has its observed hits, and a rest that nothing explains."""
    folder = _run(_mixed_log(), tmp_path, monkeypatch).replay(NAME)
    (row,) = (r for r in pq.read_table(folder / "lookups.parquet").to_pylist() if r["basis"] == "observed")
    assert (row["hit_tokens"], row["miss_unexplained_tokens"], row["replica"]) == (60, 40, "(all)")
    assert row["lookup"] is None
    assert row["ideal_hit_tokens"] is None


def test_no_lookup_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of failed calls has books without rows."""
    log = Facts()
    log.request(0, 100, status="failed")
    folder = _run(log, tmp_path, monkeypatch).replay(NAME)
    assert pq.read_table(folder / "lookups.parquet").num_rows == 0


def test_facts_that_do_not_cover_a_prompt_are_a_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is named, the lookup is named, and no book is written."""
    log = Facts()
    lookup = log.lookup(0, 45)
    log.piece(lookup, 0, 2)
    with pytest.raises(InternalError, match="facts_cover_prompts finds 1 rows") as caught:
        _run(log, tmp_path, monkeypatch)
    assert caught.value.exit_code == 4
    assert not (Workspace(tmp_path).replay(NAME) / "lookups.parquet").exists()


def test_more_cached_than_asked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage that exceeds its prompt would make a book negative."""
    log = Facts()
    log.lookup(0, 45, usage_state="present", cached_tokens_observed=64)
    with pytest.raises(InternalError, match="observed_close"):
        _run(log, tmp_path, monkeypatch)


def test_a_scenario_that_was_never_replayed(tmp_path: Path) -> None:
    """It is named, and the next step is."""
    with pytest.raises(UsageError, match="'other'"):
        attribute.run(Facts().write(tmp_path), "other")
    with pytest.raises(UsageError, match="no books"):
        attribute.marts(Workspace(tmp_path), NAME, attribute.Window(0, 1))
