from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index_support import DAY_US, Log, Row, write_logs
from prefixledger import index
from prefixledger.errors import InputError, InternalError, UsageError
from prefixledger.kernels.blake2b_kernel import key_bytes
from prefixledger.schema import BLOCKS, LAST_BLOCKS, REQUESTS
from prefixledger.workspace import Workspace
from twins import index as twin

_ID = st.sampled_from([0, 2**64 - 1]) | st.integers(0, 3)
_ROW = st.builds(
    Row, at_us=st.integers(0, 3 * DAY_US), ids=st.lists(_ID, max_size=6), namespace=st.integers(0, 1)
)
_NAMESPACES = st.sampled_from([("n0", "n1"), ("n1", "n0"), ("n1", "other"), ("same", "same")])


@st.composite
def logs_of_a_workspace(draw):
    """Draw up to three sources whose prompts overlap."""
    return [
        Log(
            name=name,
            rows=draw(st.lists(_ROW, max_size=8)),
            namespaces=draw(_NAMESPACES),
            unused=draw(st.lists(st.lists(_ID, max_size=4), max_size=2)),
            file=draw(st.sampled_from(["a.jsonl", "b.jsonl"])),
        )
        for name in draw(st.permutations(["s1", "s2", "s3"]))[: draw(st.integers(1, 3))]
    ]


def contents(root: Path) -> dict[str, bytes]:
    """Return every file of the index."""
    files = [*root.glob("blocks/*"), *root.glob("last_blocks/*"), root / "index.json"]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def described(workspace: Workspace) -> dict:
    """Return the loaded forest in the form of the twin."""
    forest = index.load(workspace).forest
    data = key_bytes(forest.key)
    keys = [data[16 * block : 16 * block + 16] for block in range(forest.parent.shape[0])]
    assert len(set(keys)) == len(keys)
    assert all(above < block for block, above in enumerate(forest.parent.tolist()))
    return {
        key: (
            int(forest.first_seen_us[block]),
            forest.namespaces[forest.namespace[block]],
            keys[forest.parent[block]] if forest.parent[block] >= 0 else None,
        )
        for block, key in enumerate(keys)
    }


@settings(deadline=None, max_examples=30)  # the first call compiles
@given(logs=logs_of_a_workspace(), split=st.integers(0, 3))
def test_the_index_equals_its_twin_in_one_step_or_many(logs, split):
    """Keys, parents, namespaces, first uses and last blocks equal a dictionary, however sources come in."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = write_logs(Path(folder), logs[:split])
        index.update(workspace)
        workspace = write_logs(Path(folder), logs[split:])
        stats = index.update(workspace)

        assert described(workspace) == twin.first_seen(logs)
        assert stats.blocks == len(twin.first_seen(logs))
        loaded = index.load(
            workspace, columns=["request_id", "started_at", "source_file", "source_line", "source"]
        )
        data = key_bytes(loaded.forest.key)
        last = dict(zip(loaded.requests["request_id"].to_pylist(), loaded.last_block().tolist(), strict=True))
        for log in logs:
            for line, row in enumerate(log.rows, start=1):
                block = last.pop(f"{log.name}-{line}")
                keys = twin.keys_of(row, log.namespaces)
                assert (data[16 * block : 16 * block + 16] == keys[-1]) if keys else block == -1
        assert not last
        order = loaded.requests.select(["started_at", "source_file", "source_line", "source"]).to_pylist()
        assert order == sorted(order, key=lambda row: tuple(row.values()))


@settings(deadline=None, max_examples=12)
@given(logs=logs_of_a_workspace())
def test_the_files_do_not_depend_on_the_order_of_the_sources(logs):
    """Sources given in another order, and indexed twice, leave the same bytes."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        index.update(write_logs(Path(one), logs))
        workspace = write_logs(Path(other), logs[::-1])
        index.update(workspace)
        again = index.update(workspace)

        assert contents(Path(one)) == contents(Path(other))
        assert again.sources_added == 0
        assert again.sources_kept == len(logs)


def test_another_day_keeps_every_number_that_is_stored(tmp_path):
    """A later source adds blocks behind the stored ones, whose file does not change."""
    workspace = write_logs(tmp_path, [Log("one", [Row(5, [1, 2]), Row(6, [1, 3])])])
    index.update(workspace)
    before = contents(tmp_path)

    write_logs(tmp_path, [Log("two", [Row(DAY_US, [1, 2, 9])])])
    stats = index.update(workspace)

    after = contents(tmp_path)
    assert (stats.blocks_added, stats.blocks, stats.requests) == (1, 4, 3)
    assert after["blocks/one.parquet"] == before["blocks/one.parquet"]
    assert after["last_blocks/one.parquet"] == before["last_blocks/one.parquet"]
    assert pq.read_table(tmp_path / "blocks/two.parquet").to_pylist()[0]["block"] == 3
    assert pq.read_table(tmp_path / "last_blocks/two.parquet")["last_block"].to_pylist() == [3]


def test_a_late_source_with_early_requests_moves_first_seen_back(tmp_path):
    """First uses are the earliest of all sources, in memory and on disk, whatever came in first."""
    workspace = write_logs(tmp_path, [Log("one", [Row(500, [1, 2]), Row(600, [7])])])
    index.update(workspace)

    write_logs(tmp_path, [Log("two", [Row(100, [1]), Row(550, [1, 2])])])
    index.update(workspace)

    assert index.load(workspace).forest.first_seen_us.tolist() == [100, 500, 600]
    stored = pq.read_table(tmp_path / "blocks/one.parquet")["first_seen"].cast("int64").to_pylist()
    assert stored == [100, 500, 600]


def test_blocks_that_no_kept_row_has_are_not_there(tmp_path):
    """What only rejected or duplicate rows named is left out."""
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1])], unused=[[5, 6], [1, 2]])])

    assert index.update(workspace).blocks == 1


def test_files_keep_the_contract(tmp_path):
    """Blocks and last blocks have the columns, types and meanings of the schema."""
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1, 2]), Row(1, [])]), Log("two", [Row(2, [])])])
    index.update(workspace)

    for name in ("one", "two"):
        blocks = pq.ParquetFile(tmp_path / f"blocks/{name}.parquet").schema_arrow
        last = pq.ParquetFile(tmp_path / f"last_blocks/{name}.parquet").schema_arrow
        assert blocks.equals(BLOCKS.arrow(), check_metadata=True)
        assert last.equals(LAST_BLOCKS.arrow(), check_metadata=True)
    assert pq.read_table(tmp_path / "blocks/one.parquet")["parent"].to_pylist() == [None, 0]
    assert pq.read_table(tmp_path / "last_blocks/one.parquet")["last_block"].to_pylist() == [1, None]


def test_only_the_columns_that_are_asked_for_are_loaded(tmp_path):
    """Columns come in the order asked for, the last block beside them, and keys can be left out."""
    workspace = write_logs(tmp_path, [Log("one", [Row(9, [1]), Row(3, [])])])
    index.update(workspace)

    loaded = index.load(workspace, columns=["prompt_tokens", "request_id"], keys=False)

    assert loaded.requests.column_names == ["prompt_tokens", "request_id", "last_block"]
    assert loaded.requests["request_id"].to_pylist() == ["one-2", "one-1"]
    assert loaded.requests["last_block"].to_pylist() == [None, 0]
    assert loaded.forest.key.shape == (0, 2)
    assert loaded.forest.parent.shape == (1,)
    assert index.load(workspace).requests.column_names == [*REQUESTS.names, "last_block"]
    with pytest.raises(InternalError, match="no column"):
        index.load(workspace, columns=["prompt_token"])


def test_a_crash_between_files_is_made_good(tmp_path):
    """Files without an entry in the index are removed and made again, byte for byte."""
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1, 2])]), Log("two", [Row(1, [1, 3])])])
    index.update(workspace)
    whole = contents(tmp_path)
    entries = json.loads(workspace.index.read_text())
    entries["sources"].pop()
    workspace.index.write_text(json.dumps(entries))
    (tmp_path / "blocks/two.parquet").write_bytes(b"half a file")

    stats = index.update(workspace)

    assert stats.sources_added == 1
    assert contents(tmp_path) == whole


def test_an_index_that_no_longer_fits_is_made_again(tmp_path):
    """A source ingested in another way, or gone, makes the index start from nothing; it is never mixed up."""
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1, 2])]), Log("two", [Row(1, [4])])])
    index.update(workspace)
    workspace.manifest.unlink()
    for path in sorted(tmp_path.glob("requests/*/*")):
        path.unlink()
    logs = [Log("one", [Row(0, [1, 2, 3])], namespaces=("other",))]
    write_logs(tmp_path, logs)

    with pytest.raises(InputError, match="older"):
        index.load(workspace)
    stats = index.update(workspace)

    assert stats.rebuilt
    assert described(workspace) == twin.first_seen(logs)
    assert not (tmp_path / "blocks/two.parquet").exists()


def test_without_an_ingested_log_there_is_nothing_to_index(tmp_path):
    """An empty folder, a broken manifest and a missing index are told apart."""
    with pytest.raises(UsageError, match="is not a workspace"):
        index.update(Workspace(tmp_path))
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1])])])
    with pytest.raises(InputError, match="older"):
        index.load(workspace)
    workspace.manifest.write_text("[]")
    with pytest.raises(InputError, match="damaged"):
        index.update(workspace)


def test_contradictory_files_are_refused(tmp_path):
    """Rows that end in a block their forest lacks, or blocks that are not those of the index, stop the run."""
    workspace = write_logs(tmp_path, [Log("one", [Row(0, [1, 2])])])
    write_logs(tmp_path / "short", [Log("one", [Row(0, [1])])])
    whole = (tmp_path / "paths/one.parquet").read_bytes()
    (tmp_path / "paths/one.parquet").write_bytes((tmp_path / "short/paths/one.parquet").read_bytes())
    with pytest.raises(InternalError, match="lacks"):
        index.update(workspace)
    (tmp_path / "paths/one.parquet").write_bytes(whole)
    index.update(workspace)
    blocks = tmp_path / "blocks/one.parquet"
    pq.write_table(pq.ParquetFile(blocks).read().slice(0, 1), blocks)
    write_logs(tmp_path, [Log("two", [Row(0, [1, 2])])])
    with pytest.raises(InternalError, match="holds 1 blocks"):
        index.update(workspace)


def test_a_workspace_without_rows_loads_empty(tmp_path):
    """A source whose rows were all rejected leaves an index without blocks and requests."""
    workspace = write_logs(tmp_path, [Log("one", [])])
    (tmp_path / "paths/one.parquet").unlink()

    index.update(workspace)
    loaded = index.load(workspace)

    assert loaded.forest.parent.shape == (0,)
    assert loaded.forest.namespaces == ()
    assert loaded.requests.num_rows == 0
    assert loaded.last_block().shape == (0,)
