"""A tree with pages of several blocks: what it does is what it does with a log that was written in pages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefixledger import attribute
from prefixledger.config.match import Match
from prefixledger.config.scenario import Cache, Pool, Scenario, Tier, parse_scenario
from prefixledger.errors import UsageError
from prefixledger.replay import run
from prefixledger.replay.pages import in_pages
from prefixledger.replay.stage import replay_log
from stage_laws import logs, rows_of
from stage_support import SECOND, make_log, read, write_workspace


def _scenario(page_size: int | None, capacity: str = "unlimited", **fields) -> Scenario:
    cache = Cache(profile="sglang", capacity=capacity, page_size=page_size)
    return Scenario(pool=(Pool(cache=cache, **fields),))


def _written_in_pages(rows, blocks: int):
    """Return the same rows with one id for every whole page: a number for its ids and all before them."""
    known: dict[tuple[int, ...], int] = {}
    paged = []
    for row in rows:
        ends = range(blocks, len(row["ids"]) + 1, blocks)
        ids = [known.setdefault(tuple(row["ids"][:end]), len(known)) for end in ends]
        paged.append({**row, "ids": ids, "block_size": blocks * row["block_size"]})
    return paged


@settings(max_examples=30)
@given(
    logs(ends=True),
    st.sampled_from([2, 3]),
    st.sampled_from(["2 blocks", "4 blocks", "unlimited"]),
    st.booleans(),
)
def test_pages_of_blocks_are_what_a_log_in_pages_gives(rows, blocks, capacity, tiered):
    """Hits, admissions, causes and ladder equal those of a log that knows nothing but pages, with a tier and without."""
    tier = Tier(capacity="3 blocks") if tiered else None
    paged = in_pages(make_log(rows), _scenario(2 * blocks))
    assert paged.number is not None

    found, summary = replay_log(paged.log, _scenario(2 * blocks, capacity, tier=tier), ())
    expected, told = replay_log(
        make_log(_written_in_pages(rows, blocks)), _scenario(None, capacity, tier=tier), ()
    )

    assert summary.pools[0].hit_tokens == told.pools[0].hit_tokens
    names = (
        "full_blocks",
        "cap_blocks",
        "hit_blocks",
        "hit_host_blocks",
        "refused",
        "admitted_at",
        "finished_at",
    )
    for mine, theirs in zip(rows_of(found, "lookup_facts"), rows_of(expected, "lookup_facts"), strict=True):
        assert [mine[name] for name in names] == [theirs[name] for name in names]
    assert rows_of(found, "ladder") == rows_of(expected, "ladder")
    names = ("lookup", "first_block", "n_blocks", "hit", "own_previous", "resident_replica", "removed_at")
    for mine, theirs in zip(rows_of(found, "facts"), rows_of(expected, "facts"), strict=True):
        assert [mine[name] for name in names] == [theirs[name] for name in names]


def test_books_of_pages_close_and_name_blocks_of_the_index(tmp_path):
    """Four blocks of 16 make a page of 64: 5 shared blocks hit as one page, the rest of the prompt is a partial page."""
    rows = [{"at_us": n * SECOND, "ids": [1, 2, 3, 4, 5, 10 + n], "prompt_tokens": 97} for n in range(3)]
    workspace = write_workspace(tmp_path, rows)

    summary = run(workspace, _scenario(64))
    attribute.run(workspace, "as-is")

    books = read(summary, "lookups")
    assert [row["hit_tokens"] for row in books] == [0, 64, 64]
    assert [row["miss_cold_tokens"] for row in books] == [64, 0, 0]
    assert [row["miss_uncacheable_tokens"] for row in books] == [33, 33, 33]
    blocks = run(workspace, _scenario(None), name="blocks")
    first = {row["n_blocks"]: row["last_block"] for row in read(blocks, "facts") if row["lookup"] == 1}
    (page,) = [row["last_block"] for row in read(summary, "facts") if row["lookup"] == 1]
    assert page == first[5] - 1  # the fourth block, where the log's own pages hit up to the fifth


def test_what_cannot_be_cut_into_pages_is_refused():
    """A page that is no multiple of the log's blocks, pools in pages of different size, a profile without pages."""
    log = make_log([{"at_us": n, "ids": [1], "replica": f"r{n}"} for n in range(2)])
    cache = Cache(profile="sglang", page_size=32)
    two = Scenario(pool=(Pool(match=Match(replica="r0"), cache=cache), Pool(name="rest")))

    with pytest.raises(UsageError, match="page_size = 24, but the log knows prompts in blocks of 16"):
        in_pages(log, _scenario(24))
    with pytest.raises(UsageError, match="1 in 'rest', 2 in 'pool-1'"):
        in_pages(log, two)
    with pytest.raises(UsageError, match="'vllm' has no pages"):
        parse_scenario("[cache]\npage_size = 32\n")
    assert in_pages(log, _scenario(16)).log is log
