"""``prune`` cuts off what is old: replays go on as they were, reports begin at the cut, and a killed run is finished by the next."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prefixledger.prune
from ingest_support import tree
from prefixledger import api
from prefixledger.cli.app import run
from prefixledger.errors import UsageError
from prefixledger.index.kept_kernel import last_users
from prefixledger.ingest.forest_kernel import rows_below
from prefixledger.kernels.path_forest import PathForest
from twins.last_users import last_users as plain_last_users

if TYPE_CHECKING:
    from pathlib import Path

MAP = """\
format = "jsonl"
block_size = 16
block_ids = "floor"
[columns]
request_id = "id"
started_at = { from = "ts", unit = "s" }
finished_at = { from = "end", unit = "s" }
replica = "pod"
prompt_tokens = "tokens"
block_ids = "blocks"
"""
START_S = 1_795_737_600  # 2026-11-27T00:00:00Z
CUT = "2026-11-28T12:00:00Z"
SCENARIOS = {
    "textbook": '[cache]\nprofile = "textbook"\ncapacity = "40 blocks"\n',
    "vllm": '[cache]\nprofile = "vllm"\ncapacity = "40 blocks"\n[in_flight]\nresidence = "logged"\n',
    "brief": '[cache]\nprofile = "textbook"\ncapacity = "unlimited"\nttl = "1h"\n',
    "unlimited": '[cache]\nprofile = "vllm"\ncapacity = "unlimited"\n',
}


def write_log(folder: Path) -> None:
    """Write two days of ten prefixes on two replicas, one of which comes once a day, and single-use tails."""
    draw = random.Random(5)
    rows = []
    for number in range(2 * 24 * 12):
        prefix = 9 if number % 290 == 7 else min(int(draw.expovariate(0.4)), 8)
        blocks = [*range(100 * prefix, 100 * prefix + 6), 10_000 + number]
        at = START_S + 300 * number
        row = {
            "id": f"q{number}",
            "ts": at,
            "end": at + draw.randrange(1, 900),
            "pod": f"r{draw.randrange(2)}",
        }
        rows.append(json.dumps(row | {"tokens": 16 * len(blocks) + 3, "blocks": blocks}))
    (folder / "log.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "map.toml").write_text(MAP, encoding="utf-8")
    for name, text in SCENARIOS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ingest the log."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path)
    api.ingest(["log.jsonl"], workspace="ws", map="map.toml")
    return tmp_path


def later(scenario: str) -> pl.DataFrame:
    """Replay, and return the books of the lookups from the cut on."""
    done = api.replay(workspace="ws", scenario=[f"{scenario}.toml"], jobs=1)
    books = done.frame("lookups").filter(pl.col("started_at") >= pl.lit(CUT).str.to_datetime(time_zone="UTC"))
    return books.select("request_id", "hit_tokens", pl.col("^miss_.*_tokens$")).sort("request_id")


@pytest.mark.parametrize(
    "names", [("vllm", "unlimited"), pytest.param(("textbook", "brief"), marks=pytest.mark.slow)]
)
def test_hits_and_causes_behind_the_cut_are_what_they_were(place: Path, names: tuple[str, ...]) -> None:
    """For caches that turn over or expire within the warm-up, and for a prefix that only an unlimited one still holds."""
    before = {name: later(name) for name in names}
    done = api.prune("ws", before=CUT, warm_up="12h")
    assert (done.removed, done.kept) == (576 - 144 - done.kept_before, 144)
    assert 144 < done.kept_before < 200  # the warm-up, and a few that used a prefix last before it
    assert done.replays == tuple(sorted(names))
    assert not list(place.glob("ws/replays/*"))
    for name, books in before.items():
        assert later(name).equals(books), name


def test_what_stays_true_and_what_cannot_be_asked_any_more(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account closes, a log that was read is not read again, and reports begin at the cut."""
    assert run(["prune", "ws", "--before", CUT, "--dry-run", "-q"]) == 0
    untouched = tree(place / "ws")
    assert run(["prune", "ws", "--before", CUT, "--dry-run", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["done"] is False
    assert {k: v for k, v in tree(place / "ws").items() if k != "run.json"} == {
        k: v for k, v in untouched.items() if k != "run.json"
    }
    done = api.prune("ws", before=CUT)
    assert (done.removed, done.kept_before) == (told["removed"], told["kept_before"])
    assert run(["doctor", "--workspace", "ws"]) == 0
    assert run(["ingest", "log.jsonl", "--workspace", "ws", "--map", "map.toml"]) == 0
    assert pq.read_table(place / "ws" / "requests").num_rows == done.kept + done.kept_before
    report = api.report(workspace="ws", output="week.html", scenario=["vllm.toml"], jobs=1)
    assert f"{done.kept_before} of the requests that were pruned are kept" in report.replays[0].notes[0]
    twin = json.loads((place / "week.json").read_text(encoding="utf-8"))
    assert (twin["window"]["from"], twin["totals"]["requests"], twin["before"]) == (CUT, 144, None)
    assert run(["investigate", "ws", "--from", "2026-11-27"]) == 2
    assert f"what lies before {CUT} was pruned" in capsys.readouterr().err
    with pytest.raises(UsageError, match="nothing would be left to report on"):
        api.prune("ws", before="2027-01-01")
    assert api.prune("ws", before=CUT).removed == 0


def test_a_run_that_is_killed_in_the_middle_is_finished_by_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte what it would have left; in between the account says what is missing."""
    copy = {path: path.read_bytes() for path in (place / "ws").rglob("*") if path.is_file()}
    api.prune("ws", before=CUT, warm_up="6h")
    whole = tree(place / "ws")
    for path in (place / "ws").rglob("*.parquet"):
        path.unlink()
    for path, content in copy.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prefixledger.prune, "write_table", killed)
        with pytest.raises(KeyboardInterrupt):
            api.prune("ws", before=CUT, warm_up="6h")
    api.prune("ws", before=CUT, warm_up="6h")
    left = tree(place / "ws")
    assert {k: v for k, v in left.items() if k != "run.json"} == {
        k: v for k, v in whole.items() if k != "run.json"
    }


def test_texts_of_what_went_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a prompt that was cut off is left, where texts were kept."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"q{n}",
            "ts": START_S + 40_000 * n,
            "prompt": f"{'old secret' if n < 2 else 'new words'} {n} " * 40,
        }
        for n in range(5)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    columns = 'request_id = "id"\nstarted_at = { from = "ts", unit = "s" }\ntext = "prompt"\n'
    (tmp_path / "map.toml").write_text(f'format = "jsonl"\n[columns]\n{columns}', encoding="utf-8")
    api.ingest(["log.jsonl"], workspace="ws", map="map.toml", keep_text=True)

    def texts() -> list[bytes]:
        found = (pq.read_table(path)["text"].to_pylist() for path in tmp_path.glob("ws/texts/*"))
        return [text for texts in found for text in texts]

    assert any(b"old secret" in text for text in texts())
    api.prune("ws", before="2026-11-27T20:00:00Z", warm_up="0")
    assert texts()
    assert not any(b"old secret" in text for text in texts())


PATHS = st.lists(st.integers(0, 2), max_size=4)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5), PATHS), max_size=12))
def test_last_users_are_those_that_a_search_finds(rows: list[tuple[int, int, list[int]]]) -> None:
    """Block by block, over all rows."""
    forest = PathForest()
    offsets = np.cumsum([0, *(len(path) for *_, path in rows)]).astype(np.int64)
    labels = np.asarray([label for *_, path in rows for label in path], np.uint64)
    last = forest.add(np.zeros(len(rows), np.int64), offsets, None, labels)
    group, times = (np.asarray([row[n] for row in rows], np.int64) for n in (0, 1))
    uses, _ = rows_below(forest.parent, last, np.arange(len(rows)))
    order = np.lexsort((-np.arange(len(rows)), -times, group))
    kept = last_users(order, group, last, forest.parent, uses)
    assert set(np.flatnonzero(kept).tolist()) == plain_last_users(rows)
