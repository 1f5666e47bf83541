"""What people report of caches, replicas, blocks and the shapes that a log takes, each as a small log: the right cause or finding."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from prefixledger import api
from prompt_logs import replayed
from replayed import booked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prefixledger.attribute.investigated import Investigation

SECOND, HOUR = 1_000_000, 3_600_000_000
BLOCK = 16
PLAIN = 'name = "as-is"'


def ask(at_us: int, name: str, ids: tuple[int, ...], **columns: Any) -> dict[str, Any]:
    """Return a request of whole blocks and a few tokens more."""
    return {
        "at_us": at_us + 1,
        "request_id": name,
        "ids": ids,
        "prompt_tokens": BLOCK * len(ids) + 5,
        **columns,
    }


def ids(name: int, count: int) -> tuple[int, ...]:
    """Return blocks that no other name has."""
    return tuple(1_000 * name + at for at in range(count))


def rotating() -> list[dict[str, Any]]:
    """Conversations stay on the replica that a fixed start gave them; from hour 15 on a release breaks ties by turns."""
    rows = []
    for n in range(30 * 5):
        late = n >= 15 * 5
        rows += [
            ask(n * HOUR // 5 + turn * 40 * SECOND, f"c{n}t{turn}", ids(n, 10 * (turn + 1)), session_id=f"s{n}",
                replica=f"r{(n + turn * late) % 3}", release="v2" if late else "v1")
            for turn in range(3)
        ]  # fmt: skip
    return rows


def chats_and_batches() -> list[dict[str, Any]]:
    """Chats come back after a minute, batches after 25, and the cache keeps five."""
    return [
        ask(n * HOUR // 4 + turn * gap_s * SECOND, f"{client}{n}t{turn}", ids(2 * n + (gap_s > 60), 8 * (turn + 1)),
            session_id=f"{client}{n}", client=client)
        for n in range(60) for client, gap_s in (("chat", 60), ("batch", 1_500)) for turn in range(3)
    ]  # fmt: skip


def by_day_and_night() -> list[dict[str, Any]]:
    """By day three times as many tenants ask as by night, and a replica has room for those of the night."""
    rows, draw = [], random.Random(4)
    for hour in range(60):
        load = max(0.0, math.sin(hour / 24 * 2 * math.pi))
        for k in range(each := round(5 + 18 * load)):
            tenant = draw.randrange(4 + round(10 * load))
            own = ids(tenant, 20) + ids(100 + len(rows), 6)
            rows.append(ask(hour * HOUR + k * HOUR // each, f"q{len(rows)}", own, tenant=f"t{tenant}"))
    return rows


def resumed() -> list[dict[str, Any]]:
    """After ten minutes idle half of the sessions go on in a new process, whose prompts begin otherwise."""
    rows = []
    for n in range(60):
        again = n % 2
        own = ids(500 + n, 20) if again else ids(n, 20)
        rows.append(ask(n * 30 * SECOND, f"s{n}a", ids(n, 18), session_id=f"s{n}", client="p0"))
        rows.append(ask((n * 30 + 600) * SECOND, f"s{n}b", own, session_id=f"s{n}", client=f"p{again}"))
    return rows


def investigated(folder: Path, rows: list[dict[str, Any]], scenario: str) -> Investigation:
    """Replay a log and return what an investigation of it finds by itself."""
    rows = sorted(rows, key=lambda row: row["at_us"])
    return api.investigate(workspace=booked(folder / "ws", rows, BLOCK, scenario).root, jobs=1).found


def test_routing_that_changed_with_a_release_is_found_in_a_log(tmp_path: Path) -> None:
    """The moment, the release, and that nobody's content changed; turns that moved beside turns that stayed."""
    found = investigated(tmp_path, rotating(), PLAIN)
    (one,) = found.incidents
    assert (one.at.day, one.at.hour) == (1, 15)
    assert "more misrouted" in one.sentence
    assert "release v2 began" in one.sentence
    assert one.shape == (
        "routing: hits fell while the content stayed the same: 100% of turns stayed on their replica before, 0% after"
    )
    (moved,) = [each for each in found.matched if each.field == "replica" and each.p is not None]
    assert moved.changed_share is not None
    assert moved.same_share is not None
    assert moved.high is not None
    assert moved.changed_share < 0.2
    assert moved.same_share > 0.9
    assert moved.high < -0.7


@pytest.mark.parametrize(
    ("rows", "scenario", "says"),
    [
        (chats_and_batches, f'{PLAIN}\n[cache]\nttl = "5m"', "lifetime: good for client chat (comes back after 60 s) and bad for batch"),
        (by_day_and_night, f'{PLAIN}\n[cache]\ncapacity = "240 blocks"', "sags at peak: evictions rise with the number of requests"),
        pytest.param(by_day_and_night, f'{PLAIN}\n[cache]\ncapacity = "3000 blocks"', None, marks=pytest.mark.slow),
    ],
    ids=["a lifetime for some", "no room at peak", "room enough"],
)  # fmt: skip
def test_shapes_are_recognised_in_logs(
    tmp_path: Path, rows: Callable[[], list[dict[str, Any]]], scenario: str, says: str | None
) -> None:
    """By what the log as a whole looks like, and no moment is blamed for what happens every day."""
    found = investigated(tmp_path, rows(), scenario)
    assert [shape for shape in found.shapes if says is None or not shape.startswith(says)] == []
    assert bool(found.shapes) == (says is not None)
    assert found.incidents == ()


def reported(at_s: int, session: str, host: str, prompt_tokens: int, cached: int) -> dict[str, Any]:
    """Return a row of usage alone."""
    return {
        "at_us": at_s * SECOND + 1, "request_id": f"{session}@{at_s}", "session_id": session, "replica": host, "keyed": False,
        "usage_state": "present", "prompt_tokens": prompt_tokens, "cached_tokens_observed": cached, "provider": "openai",
        "model": "gpt-5.4",
    }  # fmt: skip


@pytest.fixture(scope="module")
def usage_alone(tmp_path_factory: pytest.TempPathFactory) -> Investigation:
    """Return what is found in usage alone: sessions that stay on a host or wander, one that snaps back and one that grows."""
    rows = [
        reported(n * 60 + turn * 5, f"s{n}", f"host-{0 if n % 2 else turn}", 20_000 + 500 * turn, 19_968 * (n % 2) * (turn > 0))
        for n in range(60) for turn in range(3)
    ]  # fmt: skip
    for name, reads in (
        ("snaps", (18, 26, 34, 22, 31, 22, 35, 22)),
        ("grows", (18, 26, 34, 42, 46, 50, 54, 58)),
    ):
        rows += [
            reported(turn * 100 + 7, name, "host-0", 42_000 + 4_000 * turn, 1_000 * read)
            for turn, read in enumerate(reads)
        ]
    return investigated(tmp_path_factory.mktemp("usage"), rows, PLAIN)


def test_hosts_behind_a_gateway_are_told_by_what_the_service_reports(usage_alone: Investigation) -> None:
    """Turns that another host answers read nothing, turns that stay read nearly all."""
    (pair,) = [each for each in usage_alone.matched if (each.field, each.gap_from_s) == ("replica", 0)]
    assert (pair.changed_pairs, pair.same_pairs) == (60, 60)
    assert pair.changed_share == 0
    assert pair.same_share is not None
    assert pair.same_share > 0.95


def test_reads_that_snap_back_to_one_length_are_a_floor(usage_alone: Investigation) -> None:
    """While prompts grow by 4k a turn something behind the floor changes, and nobody is named for it."""
    (said,) = [shape for shape in usage_alone.shapes if shape.startswith("a floor")]
    assert "22,000 tokens while prompts grow, 3 times in 1 conversation, 34,000 tokens in all" in said
    assert usage_alone.burdens == ()


def served(model: str, alone: int, beside: int) -> list[dict[str, Any]]:
    """Return requests of ten seconds that share a prefix, 30 one by one and 24 in eights, and what they report."""
    head = ids(len(model), 10)
    return [
        ask(at_s * SECOND, f"{model}{n}", (*head, head[0] + 100 + n), model=model, usage_state="present", provider="vllm",
            cached_tokens_observed=read, finished_at=(at_s + 10) * SECOND)
        for n, (at_s, read) in enumerate([*((60 * n, alone) for n in range(30)), *((2_000 + 60 * (n // 8), beside) for n in range(24))])
    ]  # fmt: skip


def test_reads_that_need_company_are_a_mode_not_capacity(tmp_path: Path) -> None:
    """Alone nothing is read, among eight a tenth; where a reader ran alone, too, or nobody reads, nothing is said."""
    one_alone = served("chance", 0, 16)
    one_alone[20]["cached_tokens_observed"] = 16
    rows = [
        *served("hybrid", 0, 16),
        *one_alone,
        *served("off", 0, 0),
        *served("clean", 160, 160),
    ]
    found = investigated(tmp_path, sorted(rows, key=lambda row: row["at_us"]), PLAIN)
    (told,) = [shape for shape in found.shapes if shape.startswith("reads rise with load")]
    assert "hybrid reads nothing for 29 requests that ran alone" in told
    assert "but for 100% of 24 beside 4 to 7 others" in told


def test_a_router_that_gets_no_events_expects_nothing(tmp_path: Path) -> None:
    """Two workers serve reads by luck; of one the router never expects any, of the other it does, and of a third nobody reads."""
    events = []
    for n in range(60):
        worker, at_ms = n % 3, 1_795_953_600_000 + 1_000 * n
        read = 16 if worker < 2 and n > 2 else 0
        request = {"request_id": f"r{n}", "model": "m", "request_received_ms": at_ms, "input_tokens": 40, "cached_tokens": read,
                   "kv_hit_rate": 0.5 if worker == 1 and n > 30 else 0.0, "worker": {"decode_worker_id": worker},
                   "replay": {"trace_block_size": 16, "input_length": 40, "input_sequence_hashes": [7, 100 + n, 1_000 + n]}}  # fmt: skip
        events.append({"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": at_ms, "request": request})  # fmt: skip
    log = tmp_path / "trace.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    found = api.investigate([log], workspace=tmp_path / "ws", jobs=1).found
    (told,) = [shape for shape in found.shapes if shape.startswith("a router")]
    assert (
        "it expected nothing of replica 0 for any of 20 requests, while 19 of them were served from a cache"
        in told
    )


def test_a_resume_is_told_by_pairs_of_equal_gaps(tmp_path: Path) -> None:
    """Ten minutes in the same process hit what was there, ten minutes and a new process do not."""
    (pair,) = [each for each in investigated(tmp_path, resumed(), PLAIN).matched if each.field == "client"]
    assert (pair.gap_from_s, pair.changed_pairs, pair.same_pairs) == (300, 30, 30)
    assert pair.changed_share == 0
    assert pair.same_share is not None
    assert pair.same_share > 0.9


def test_isolation_has_a_price_in_tokens_and_money(tmp_path: Path) -> None:
    """Seven of eight salts compute what another has; a GPU hour of 3.6 at 100 tokens a second prices a token at 0.00001."""
    draw = random.Random(2)
    head = [draw.randrange(50_000) for _ in range(400)]
    rows = [
        {"id": f"q{n}", "ts": f"2026-11-20T10:{n:02}:00Z", "tenant": f"t{n // 3}", "salt": f"k{n // 3}",
         "ids": head + [draw.randrange(50_000) for _ in range(40)]}
        for n in range(24)
    ]  # fmt: skip
    replayed(tmp_path, rows, 'token_ids = "ids"')
    (tmp_path / "priced.toml").write_text("[pricing]\ngpu_hour = 3.6\nprefill_tokens_per_s = 100\n", "utf-8")
    found = api.investigate(workspace=tmp_path / "workspace", scenario=tmp_path / "priced.toml", jobs=1).found
    assert {split.differs for split in found.splits} == {"cache_salt"}
    assert sum(split.tokens for split in found.splits) == 7 * 400
    assert float(sum(split.cost for split in found.splits)) == pytest.approx(7 * 400 * 1e-5)
    assert found.side_channels == ()


@pytest.mark.parametrize(("size", "told"), [(320, True), pytest.param(BLOCK, False, marks=pytest.mark.slow)])
def test_a_head_that_is_shorter_than_a_block_hits_nothing_and_says_why(
    tmp_path: Path, size: int, told: bool
) -> None:
    """Zero hits, and correct: what prompts share is no whole block. With shorter blocks there is nothing to say."""
    draw = random.Random(2)
    head = [draw.randrange(50_000) for _ in range(120)]
    rows = [
        {"id": f"q{n}", "ts": f"2026-11-20T10:{n:02}:00Z", "tenant": "t", "ids": head + [draw.randrange(50_000) for _ in range(280)]}
        for n in range(6)
    ]  # fmt: skip
    misses = replayed(tmp_path, rows, 'token_ids = "ids"', block_size=size)
    assert {row["cause"] for row in misses} == {"cold", "uncacheable"}
    (file,) = (tmp_path / "workspace" / "replays").glob("*/summary.json")
    notes = json.loads(file.read_text(encoding="utf-8"))["notes"]
    assert any("shorter blocks would hit" in note and "6 of 6 prompts" in note for note in notes) == told


def test_an_exact_repeat_hits_all_but_its_last_token_in_whole_blocks(tmp_path: Path) -> None:
    """Of 500 tokens 496 are asked again; of 496 only 480, as the last token is always computed."""
    rows = [
        {**ask(2 * n * SECOND + tokens, f"q{n}/{tokens}", ids(tokens, tokens // BLOCK)), "prompt_tokens": tokens}
        for n in range(3) for tokens in (496, 500)
    ]  # fmt: skip
    workspace = booked(tmp_path / "ws", rows, BLOCK, PLAIN)
    lookups = pq.read_table(workspace.replay("as-is") / "lookups.parquet", columns=["hit_tokens"])
    assert lookups["hit_tokens"].to_pylist() == [0, 0, 480, 496, 480, 496]


def test_workers_that_start_together_wait_for_nobody(tmp_path: Path) -> None:
    """Two that ask while the first computes the same prefix miss it in flight; the one that comes after its answer hits."""
    hosted = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
    rows = [
        ask(at_us, f"w{n}", ids(1, 130), first_token_at=at_us + 4 * SECOND, finished_at=at_us + 6 * SECOND, **hosted)
        for n, at_us in enumerate((0, 200_000, 300_000, 9 * SECOND))
    ]  # fmt: skip
    workspace = booked(tmp_path / "ws", rows, BLOCK, f'{PLAIN}\n[cache]\nprofile = "anthropic"')
    columns = ["hit_tokens", "miss_in_flight_tokens"]
    lookups = pq.read_table(workspace.replay("as-is") / "lookups.parquet", columns=columns).to_pylist()
    whole = BLOCK * 130
    assert [tuple(row.values()) for row in lookups] == [(0, 0), (0, whole), (0, whole), (whole, 0)]
