"""The shipped generators tell the story that they promise."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from prefixledger.samples import generator

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def story_rows() -> list[dict[str, object]]:
    """The whole week, generated once."""
    story = generator("story")
    return list(story.rows(story.Story()))


def test_story_has_the_promised_size(story_rows: list[dict[str, object]]) -> None:
    """Twenty tenants, about 5,000 requests a day, seven days in order of time, over four replicas and a hosted API."""
    assert len({row["tenant"] for row in story_rows}) == 20
    assert len(story_rows) == pytest.approx(7 * 5_000, rel=0.03)
    times = [row["ts"] for row in story_rows]
    assert times == sorted(times)
    assert len({str(t)[:10] for t in times}) == 7
    assert {row["pod"] for row in story_rows if row["provider"] == "vllm"} == {f"pod-{i}" for i in range(4)}
    assert any(row["provider"] == "anthropic" for row in story_rows)


def test_story_has_a_giant_and_rare_tenants(story_rows: list[dict[str, object]]) -> None:
    """One tenant is far larger than the rest and some come less than once an hour."""
    per_hour = sorted((n / 168 for n in Counter(row["tenant"] for row in story_rows).values()), reverse=True)
    assert per_hour[0] > 2 * per_hour[1]
    assert sum(1 for rate in per_hour if rate < 1) >= 3


def test_stamped_release_shares_nothing(story_rows: list[dict[str, object]]) -> None:
    """Under the broken release no block id repeats; before and after it a tenant's prefix is 156 equal ids."""
    broken = [row for row in story_rows if row["release"] == "v42"]
    ids = [i for row in broken for i in row["hash_ids"]]  # type: ignore[attr-defined]
    assert len(broken) > 3_000
    assert len(ids) == len(set(ids))
    heads = {(row["tenant"], tuple(row["hash_ids"][:156])) for row in story_rows if row["release"] != "v42"}  # type: ignore[index]
    assert len(heads) == 20


def test_story_is_the_same_every_time(story_rows: list[dict[str, object]]) -> None:
    """A seed decides everything, and block ids fit the prompt length by `floor`."""
    story = generator("story")
    for again, row in zip(story.rows(story.Story()), story_rows[:500], strict=False):
        assert again == row
        assert len(again["hash_ids"]) == again["in"] // 64


def test_lesson_has_the_known_lengths(tmp_path: Path) -> None:
    """Each run has 2,000 requests; the third has one word more on top of every prompt."""
    paths = generator("lesson").write(tmp_path)
    totals = []
    for path in paths:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert len(rows) == 2_000
        totals.append(sum(len(row["ids"]) for row in rows))
    assert totals == [4_120_000, 4_120_000, 4_122_000]


def test_lesson_hash_gives_the_known_load(tmp_path: Path) -> None:
    """The prefix hash of the lesson sends 244, 511, 233 and 1,012 requests to the four replicas."""
    path = generator("lesson").write(tmp_path)[1]
    load = Counter(json.loads(line)["replica"] for line in path.read_text(encoding="utf-8").splitlines())
    assert [load[f"r{i}"] for i in range(4)] == [244, 511, 233, 1_012]


def test_story_has_the_known_bytes(tmp_path: Path) -> None:
    """Two small stories, one of them with batches: figures that are published of the full one rest on its bytes."""
    story = generator("story")
    sizes = {
        "0": story.Story(requests_per_day=100),
        "1": story.Story(
            tenants=7, requests_per_day=200, replicas=3, days=4, batch_calls=2, single_rare=True
        ),
    }
    found = [
        sha256(story.write(tmp_path / name, size).read_bytes()).hexdigest()[:16]
        for name, size in sizes.items()
    ]
    assert found == ["7d6949f291c70ca9", "03aae148d2e7118f"]
