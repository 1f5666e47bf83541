"""The axes of ``whatif`` that change keys, tiers and running requests: each cell is what a replay of such a log or engine gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prefixledger import api
from prefixledger.attribute.cell import Cell
from prefixledger.cli import app
from prefixledger.errors import UsageError
from prefixledger.report.frontier import measures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


COLUMNS = """\
format = "jsonl"
block_size = {size}
[columns]
started_at = {{ from = "at", unit = "s" }}
duration = {{ from = "s", unit = "s" }}
token_ids = "tokens"
output_tokens = "out"
session_id = "session"
{more}
"""
TENANTS, ROUNDS, SIZE = 3, 12, 8


def _rows() -> list[dict[str, Any]]:
    """Return chats of three tenants below one head of 20 tokens, a minute apart, each call running for five minutes."""
    rows = []
    for n in range(TENANTS * ROUNDS):
        tenant, turn = n % TENANTS, n // TENANTS
        tokens = [*range(20), *(1000 * (tenant + 1) + k for k in range(13 * (turn % 4 + 1))), 90_000 + n]
        rows.append(
            {
                "at": 1_000_000_000 + 60 * n,
                "s": 300,
                "tokens": tokens,
                "out": 3,
                "tenant": f"t{tenant}",
                "session": f"s{tenant}.{turn // 4}",
                "salt": f"x{tenant % 2}",
            }
        )
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the log, and maps of it: as it is, with salts, and with the tenant as salt."""
    root = tmp_path_factory.mktemp("axes")
    lines = "".join(json.dumps(row) + "\n" for row in _rows())
    (root / "log.jsonl").write_text(lines, encoding="utf-8")
    for name, more in (
        ("plain", 'tenant = "tenant"'),
        ("salted", 'tenant = "tenant"\ncache_salt = "salt"'),
        ("alone", 'cache_salt = "tenant"'),
    ):
        (root / f"{name}.toml").write_text(COLUMNS.format(size=SIZE, more=more), encoding="utf-8")
    return root


def _replayed(place: Path, mapped: str, scenario: str = "", block_size: int | None = None) -> int:
    """Return the hits of a replay of the log that was read so."""
    (place / "one.toml").write_text(scenario, encoding="utf-8")
    name = f"{mapped}-{block_size}"
    result = api.replay(
        [place / "log.jsonl"], map=place / f"{mapped}.toml", workspace=place / name, block_size=block_size,
        scenario=[place / "one.toml"],
    )  # fmt: skip
    return result.replays[0].hit_tokens


def _tried(place: Path, mapped: str, **axes: Any) -> Sequence[Cell]:
    return api.whatif(
        [place / "log.jsonl"], map=place / f"{mapped}.toml", workspace=place / f"{mapped}-None", **axes
    ).cells


def _hits(cell: Cell) -> int:
    books = sum(cell.misses["by_cause"].values()) + int(cell.totals["hit_tokens"] or 0)
    assert books == cell.totals["prompt_tokens"]
    return int(cell.totals["hit_tokens"] or 0)


def test_blocks_of_another_size_hit_what_a_log_cut_so_hits(place: Path) -> None:
    """Multiples come from the hashes, others from the tokens; memory stays what it is; nothing is left behind."""
    said: list[str] = []
    cells = _tried(place, "plain", block_sizes=[8, 16, 6], capacity="30", progress=_Told(said))
    assert [cell.axes["block_size"] for cell in cells] == [8, 8, 16, 6]
    for cell, size in zip(cells[2:], (16, 6), strict=True):
        scenario = f"[cache]\ncapacity = '{30 * SIZE} tokens'\n"
        assert _hits(cell) == _replayed(place, "plain", scenario, size), size
        assert cell.interval is not None
    assert len({cell.totals["hit_tokens"] for cell in cells}) == 4
    assert [one for one in said if one.startswith("index the log")] == [
        f"index the log in blocks of {size} tokens" for size in (16, 6)
    ]
    assert not (place / "plain-None" / ".whatif").exists()


def test_blocks_that_hashes_do_not_give_are_refused_with_the_reason(place: Path, capsys: Any) -> None:
    """A workspace has no tokens, a log of hashes has none at all; multiples are there, and the others stand."""
    api.ingest([place / "log.jsonl"], map=place / "plain.toml", workspace=place / "plain-None")
    _, eight, four = api.whatif(workspace=place / "plain-None", block_sizes="16,4").cells
    assert eight.problem is None
    assert "the logs must be read again" in str(four.problem)
    assert four.totals == {}
    rows = [{"at": n, "ids": [1, 2, n], "n": 50} for n in range(10)]
    (place / "ids.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (place / "ids.toml").write_text(
        'format = "jsonl"\nblock_size = 16\n[columns]\nstarted_at = { from = "at", unit = "s" }\n'
        'block_ids = "ids"\nprompt_tokens = "n"\n',
        encoding="utf-8",
    )
    asked = [
        "whatif",
        str(place / "ids.jsonl"),
        "--map",
        str(place / "ids.toml"),
        "--workspace",
        str(place / "i"),
    ]
    assert app.run([*asked, "--block-sizes", "8"]) == 2
    assert "only hashes of blocks of 16 tokens" in capsys.readouterr().err
    assert app.run([*asked, "--layout", "volatile-last"]) == 2
    assert "does not say what its prompts are made of" in capsys.readouterr().err
    assert app.run([*asked, "--salt", "off,on"]) == 2
    assert "no prompt of the log has a salt" in capsys.readouterr().err


def test_the_blocks_of_a_provider_stay_as_they_are(place: Path) -> None:
    """Beside it the engine has those of a log that was cut so, and both books are in one cell."""
    (place / "two.toml").write_text(
        "[[pool]]\nname = 'theirs'\nmatch = { tenant = 't0' }\n[pool.cache]\nprofile = 'anthropic'\nminimum_tokens = 8\n"
        "[pool.pricing]\nrates = { base = 3.0, write = 1.25, read = 0.1, output = 15.0 }\n[[pool]]\nname = 'own'\n",
        encoding="utf-8",
    )
    today, wide = _tried(place, "plain", scenario=place / "two.toml", block_sizes="16")
    api.ingest([place / "log.jsonl"], map=place / "plain.toml", workspace=place / "plain-16", block_size=16)
    cut = api.whatif(workspace=place / "plain-16", scenario=place / "two.toml", ttl="1h").cells[0]
    hits = [{row["pool"]: row["hit_tokens"] for row in cell.replicas} for cell in (today, wide, cut)]
    assert hits[1] == {0: hits[0][0], 1: hits[2][1]}
    assert hits[0][1] != hits[1][1]


def test_salts_are_turned_off_and_on(place: Path) -> None:
    """Off is the log without salts, on that with one for each tenant; both are other than the log's own."""
    logged, off, on = (_hits(cell) for cell in _tried(place, "salted", salt="off,on"))
    assert logged == _replayed(place, "salted")
    assert off == _replayed(place, "plain")
    assert on == _replayed(place, "alone")
    assert off > logged > on
    wide, _, both = _tried(place, "salted", salt="as-logged,off", block_sizes="4")
    assert wide.axes["salt"] == "as-logged"
    assert _hits(both) == _replayed(place, "plain", block_size=4)


def test_tiers_and_running_requests_are_those_of_a_scenario(place: Path) -> None:
    """The same hits as a file that says so; two at a time wait, and a limit where nothing runs is refused."""
    base = "[cache]\ncapacity = '14 blocks'\n[in_flight]\noutput = 'ignore'\n{}"
    (place / "base.toml").write_text(base.format(""), encoding="utf-8")
    cells = _tried(place, "plain", scenario=place / "base.toml", tier="none,2x", running="2,none")
    assert [(cell.axes["running"], cell.axes["tier"]) for cell in cells[1:]] == [
        (2, None),
        (2, "offload:2x"),
        (None, None),
        (None, "offload:2x"),
    ]
    for cell, running, tier in zip(cells[1:], (2, 2, None, None), ("", "2x", "", "2x"), strict=True):
        more = "" if running is None else f"max_running = {running}\n"
        more += f"[tier]\ncapacity = '{tier}'\n" if tier else ""
        assert _hits(cell) == _replayed(place, "plain", base.format(more))
    assert cells[1].totals["waited_s"] > cells[3].totals["waited_s"]
    assert cells[2].totals["hit_host_tokens"] > 0
    assert cells[1].totals["peak_in_flight"] <= 2 < cells[3].totals["peak_in_flight"]
    with pytest.raises(UsageError, match="one request at a time is replayed"):
        _tried(place, "plain", residence="none", running="2")
    with pytest.raises(UsageError, match="does not go with profile"):
        _tried(place, "plain", tier="hicache:2x")


def test_the_capacity_for_a_hit_rate_is_found_for_every_other_setting(place: Path) -> None:
    """Each lifetime and each routing has its own, and it hits as much as was asked for, which one block less does not."""
    axes = {"residence": "none", "ttl": "5m,none", "routing": "as-logged,prefix-hash", "replicas": "2"}
    cells = _tried(place, "plain", capacity="40%", **axes)[1:]
    assert {cell.axes["target"] for cell in cells} == {"40%"}
    sizes = [str(cell.axes["capacity"]).split()[0] for cell in cells]
    assert len(set(sizes)) > 1
    for cell, size in zip(cells, sizes, strict=True):
        assert cell.totals["token_hit_rate"] >= 0.4
        one = {"ttl": cell.axes["ttl"], "routing": cell.axes["routing"], "residence": "none"}
        one |= {} if cell.axes["replicas"] is None else {"replicas": [cell.axes["replicas"]]}
        assert _tried(place, "plain", capacity=[int(size) - 1], **one)[-1].totals["token_hit_rate"] < 0.4


def test_more_traffic_has_an_interval(place: Path) -> None:
    """Sessions are drawn with their copies; the change lies in its interval."""
    _, twice = _tried(place, "plain", growth="2")
    more = _tried(place, "plain", growth="2", routing="prefix-hash", replicas="+1,+2")
    assert [cell.axes["replicas"] for cell in more if cell.axes["routing"] != "as-logged"] == [2, 3, 2, 3]
    with pytest.raises(UsageError, match="has 1 replicas, and -1 leaves none"):
        _tried(place, "plain", routing="prefix-hash", replicas="-1")
    assert twice.interval is not None
    assert twice.interval.clusters == "session"
    assert twice.interval.low <= twice.totals["change_pp"] <= twice.interval.high


STAMPED = """\
format = "jsonl"
block_size = 16
block_ids = "floor"
[columns]
started_at = { from = "at", unit = "s" }
prompt_tokens = "n"
block_ids = "ids"
parts = "parts"
"""


def test_what_varies_is_moved_to_the_end(tmp_path: Path) -> None:
    """As many hits as a log in which the stamp stands behind all else, and the same prompts."""
    stamp, head, tail = 16, 160, 48
    for name in ("first", "last"):
        rows = []
        for n in range(20):
            parts = [
                {"kind": "system", "text": f"It is 2026-11-16T08:{n:02d}:00Z.", "tokens": stamp},
                {"kind": "system", "digest": f"head-{n % 2}", "tokens": head},
                {"digest": f"tail-{n}", "tokens": tail},
            ]
            order = parts if name == "first" else [*parts[1:], parts[0]]
            ids, before = [], ""
            for part in order:
                for block in range(int(str(part["tokens"])) // 16):
                    before += f"/{part.get('digest', n)}.{block}"
                    ids.append(hash(before) & (2**60 - 1))
            rows.append({"at": 60 * n, "n": stamp + head + tail + 3, "ids": ids, "parts": order})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "map.toml").write_text(STAMPED, encoding="utf-8")
    read = {"map": tmp_path / "map.toml"}
    today, moved = api.whatif(
        [tmp_path / "first.jsonl"], workspace=tmp_path / "a", layout="volatile-last", **read
    ).cells
    wanted = api.replay([tmp_path / "last.jsonl"], workspace=tmp_path / "b", **read).replays[0]
    assert _hits(today) == 0
    assert _hits(moved) == wanted.hit_tokens == 18 * head


def test_memory_is_in_blocks_of_the_log_whatever_the_blocks_of_a_cell() -> None:
    """30 blocks of 8 are 240 tokens, and 15 blocks of 16; what is not known is not compared."""
    axes = [
        {"block_size": 8, "capacity": "30 blocks", "replicas": 2},
        {"block_size": 16, "capacity": "240 tokens", "replicas": 2},
        {"block_size": 16, "capacity": "15 blocks", "replicas": 2},
        {"block_size": 16, "capacity": "10 blocks", "replicas": 2},
        {"block_size": 16, "capacity": "unlimited", "replicas": 2},
    ]
    totals = {"token_hit_rate": 0.5, "imbalance_prefill": 1.0}
    cells = [Cell(each, totals, {"by_cause": {}}, None, (), ()) for each in axes]
    (memory,) = measures(cells)
    assert memory.values == (60.0, 60.0, 60.0, 40.0, None)


class _Told:
    """Keeps the names of phases."""

    def __init__(self, said: list[str]) -> None:
        self.phase = lambda name, *_: said.append(name)

    def advance(self, amount: int, rejects: int = 0) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""
