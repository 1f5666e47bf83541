"""The table of formats, and the fixture of each."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES, closes, ingest
from prefixledger.errors import UsageError
from prefixledger.ingest.formats import READERS, reader_named

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = [reader.info for reader in READERS if reader.info.name != "mapped"]


def test_every_format_says_what_it_can_and_cannot() -> None:
    """Names are unique, every reader has a docstring, a fixture, answers and gaps."""
    names = [reader.info.name for reader in READERS]
    assert len(set(names)) == len(names)
    for reader in READERS:
        assert reader.info.answers
        assert reader.info.lacks
        assert reader.info.sample is not None
        assert (FIXTURES / reader.info.sample).is_file()
        assert type(reader).__doc__


def test_fixtures_are_what_their_generator_writes() -> None:
    """The shipped files are small and can be made again to the byte."""
    files = runpy.run_path(str(FIXTURES / "make.py"))["files"]()
    assert set(files) >= {reader.info.sample for reader in READERS}
    for name, content in files.items():
        assert (FIXTURES / name).read_bytes() == content.encode()
    assert sum(path.stat().st_size for path in FIXTURES.iterdir() if path.is_file()) < 600_000


@pytest.mark.parametrize("info", NATIVE, ids=lambda info: info.name)
def test_a_fixture_is_recognised_and_read_whole(tmp_path: Path, info: object) -> None:
    """Each fixture is taken for its own format without being told, and none of its records is rejected."""
    result = ingest(tmp_path / "ws", FIXTURES / str(info.sample))  # type: ignore[attr-defined]
    account = result.account
    assert account.format == info.name  # type: ignore[attr-defined]
    assert account.rejected == 0
    assert account.kept > 0 or account.skipped == account.records
    assert closes(result.summary)
    told = ingest(tmp_path / "told", FIXTURES / str(info.sample), format=account.format)  # type: ignore[attr-defined]
    assert told.requests == result.requests
    assert "asked for" in told.summary.messages[0]


def test_an_unknown_format_names_those_that_exist(tmp_path: Path) -> None:
    """``--format`` never falls back: exit code 2 and the list."""
    with pytest.raises(UsageError, match="no format 'parket'") as caught:
        ingest(tmp_path / "ws", FIXTURES / "dynamo.jsonl", format="parket")
    assert all(reader.info.name in str(caught.value.hint) for reader in READERS)
    assert reader_named("weka").info.title.startswith("WEKA")


def test_the_same_traffic_shares_the_same_blocks_in_every_format(tmp_path: Path) -> None:
    """The fixtures with keys of the whole fleet give the same forest of prefixes, whatever labels they have."""
    shapes = {}
    for info in NATIVE:
        if info.name not in ("mooncake", "bailian", "dynamo"):
            continue
        result = ingest(tmp_path / info.name, FIXTURES / str(info.sample))
        shapes[info.name] = [_shape(result, row) for row in result.requests]
    mapped = ingest(
        tmp_path / "mapped", FIXTURES / "token_ids.jsonl", map_file=FIXTURES / "token_ids.map.toml"
    )
    adapter = [row["adapter"] is None for row in mapped.requests]
    shapes["mapped"] = [_shape(mapped, row) for row in mapped.requests]
    first = shapes.pop("mooncake")
    for name, shape in shapes.items():
        same = [ours[0] == theirs[0] for ours, theirs in zip(shape, first, strict=True)]
        assert all(same), name
    assert not all(adapter)


def _shape(result: object, row: dict[str, object]) -> tuple[object, ...]:
    return (row["n_blocks"], row["prompt_tokens"], len(result.labels(row)))  # type: ignore[attr-defined]
