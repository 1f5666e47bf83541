"""Text becomes blocks: equal beginnings, equal keys, whatever comes behind and however prompts fall into parts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest_support import ingest, tree, write_lines
from prefixledger.ingest.records import TextPart
from prefixledger.ingest.text.batch import TextBatch
from prefixledger.ingest.text.cutters import ByteCutter
from prefixledger.ingest.text.keys import add_blocks
from prefixledger.ingest.text.plan import TextPlan, split_header, units_of
from prefixledger.ingest.text.scale import MIN_TOKENS, Scale, choose_scale
from prefixledger.ingest.text.store import TextStore
from prefixledger.kernels.path_forest import PathForest
from twins import text_blocks

if TYPE_CHECKING:
    from ingest_support import Result

NOON_S = 1_795_953_600
MAP = 'format = "jsonl"\n{more}\n[columns]\nstarted_at = {{ from = "ts", unit = "s" }}\ntext = "prompt"\n{columns}\n'
LENGTH = 'prompt_tokens = "tokens"\nmodel = "model"'


def read(folder: Path, rows: list[Any], columns: str = "", more: str = "", **options: Any) -> Result:
    """Ingest rows with text by a map; rows get a time one second after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map.toml").write_text(MAP.format(columns=columns, more=more))
    timed = [{"ts": NOON_S + at, **row} for at, row in enumerate(rows)]
    log = write_lines(folder / "log.jsonl", timed)
    return ingest(folder / "ws", log, map_file=folder / "map.toml", **options)


def common(one: list[Any], two: list[Any]) -> int:
    """Return the length of the common beginning."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )


_TEXT = st.binary(min_size=0, max_size=40).map(lambda raw: bytes(b"ab"[byte % 2] for byte in raw))
_PARTS = st.lists(st.tuples(st.sampled_from(["system", "user", "tool"]), _TEXT), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), _PARTS), min_size=1, max_size=8),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_blocks_are_those_of_the_joined_text(
    prompts: list[tuple[int, list[tuple[str, bytes]]]], width: int, other: int
) -> None:
    """Any prompts in any parts: labels, lengths and sharing are those of the whole text, cut from its start."""
    batch, plan = TextBatch(), TextPlan()
    for row, (_, parts) in enumerate(prompts):
        batch.add(row, [TextPart("message", role, text) for role, text in parts], plan, 0, hashed=True)
    with TemporaryDirectory() as folder:
        store = TextStore(Path(folder))
        store.add(batch, 0, [namespace for namespace, _ in prompts])
        forest = PathForest()
        scales = {0: Scale(None, 2, width, "default"), 1: Scale("m", 2, other, "default")}
        keys = add_blocks(store, ByteCutter(store, scales), forest)
        store.discard()
    for (namespace, parts), end in zip(prompts, store.unit_node, strict=True):
        whole = b"".join(b"\xff" + role.encode() + b"\xff" + text for role, text in parts)
        size = scales[namespace].bytes_per_block
        path, node = [], int(keys.node[end])
        while node >= 0:
            path.append((int(forest.label_hi[node]), int(forest.label_lo[node])))
            node = int(forest.parent[node])
        assert path[::-1] == text_blocks.labels(whole, size)
        assert keys.n_blocks[end] == len(path)
        assert keys.tokens[end] == len(whole) * 2 // size


def test_parts_cannot_pass_for_each_other() -> None:
    """The same letters in other messages, or said by somebody else, are another text."""

    def joined(*parts: tuple[str, bytes]) -> bytes:
        return b"".join(units_of([TextPart("message", role, text) for role, text in parts], TextPlan(), 0))

    assert joined(("user", b"ab"), ("user", b"c")) != joined(("user", b"a"), ("user", b"bc"))
    assert joined(("user", b"ab")) != joined(("tool", b"ab"))
    assert joined(("user", b"a\xc3\xbf"), ("user", b"")) != joined(("user", b"a"), ("\xbf", b""))
    assert units_of([TextPart("message", None, b"plain")], TextPlan(), 0) == [b"plain"]
    assert split_header(b"\xffuser\xfftext") == (b"\xffuser\xff", b"text")


def test_a_prompt_without_lengths_is_cut_by_64_bytes_for_16_tokens(tmp_path: Path) -> None:
    """Shared text shares blocks up to the last full one, and the account says that this is approximate."""
    rows = [{"prompt": "x" * 200}, {"prompt": "x" * 150 + "y" * 80}, {"prompt": "é" * 64}, {"prompt": "hi"}]
    result = read(tmp_path, rows)
    one, two, three, four = result.requests
    assert [row["prompt_tokens"] for row in result.requests] == [50, 57, 32, 1]
    assert [row["n_blocks"] for row in result.requests] == [3, 3, 2, 0]
    assert common(result.labels(one), result.labels(two)) == 150 // 64
    assert common(result.labels(one), result.labels(three)) == 0
    assert four["keyed"]
    assert json.loads(one["namespace"])["scope"] == "text:bytes:64"
    assert any(note.startswith("approximate keys: ") for note in result.account.notes)
    assert result.account.text_scales[0]["origin"] == "default"


def test_blocks_are_scaled_by_the_logged_lengths_once_for_a_model(tmp_path: Path) -> None:
    """The whole input is measured, so neither order nor repetition of rows changes a key; each model has its own scale."""
    rows = [
        {"model": model, "tokens": size // ratio, "prompt": f"{model}{number:03}" + "z" * (size - 4)}
        for number, size in enumerate(range(600, 6_000, 300))
        for model, ratio in (("a", 2), ("b", 3))
    ]
    result = read(tmp_path / "one", rows, LENGTH)
    scales = {scale["model"]: scale for scale in result.account.text_scales}
    assert (scales["a"]["bytes_per_block"], scales["b"]["bytes_per_block"]) == (32, 48)
    assert {scale["origin"] for scale in scales.values()} == {"measured"}
    for turned in (rows[::-1], rows + rows):
        again = read(tmp_path / str(len(turned)) / turned[0]["model"], turned, LENGTH)
        assert again.account.text_scales == result.account.text_scales
    for row, told in zip(result.requests, rows, strict=True):
        assert row["prompt_tokens"] == told["tokens"]
        assert row["n_blocks"] <= told["tokens"] // 16


def test_a_prompt_never_has_more_keys_than_its_length_has_blocks(tmp_path: Path) -> None:
    """Text that is denser than its model's mean loses the keys of its tail, none of its head."""
    rows = [{"model": "m", "tokens": 1_000, "prompt": "a" * 4_000} for _ in range(9)]
    rows.append({"model": "m", "tokens": 100, "prompt": "a" * 4_000})
    rows.append({"model": "m", "tokens": 1_000, "prompt": "a" * 400})
    result = read(tmp_path, rows, LENGTH)
    long, dense, sparse = result.requests[0], result.requests[9], result.requests[10]
    assert dense["n_blocks"] == 100 // 16
    assert result.labels(dense) == result.labels(long)[: 100 // 16]
    assert sparse["n_blocks"] < 1_000 // 16
    assert result.labels(sparse) == result.labels(long)[: sparse["n_blocks"]]


def test_files_of_one_service_share_keys(tmp_path: Path) -> None:
    """The scale that the first file measures holds for the next, though that one would measure another."""
    (tmp_path / "map.toml").write_text(MAP.format(columns=LENGTH, more=""))
    text = "shared " * 2_000
    for name, tokens in (("h1", 3_500), ("h2", 3_900)):
        rows = [
            {"ts": NOON_S + at, "model": "m", "tokens": tokens, "prompt": text + f"{name}{at}"}
            for at in range(3)
        ]
        write_lines(tmp_path / "logs" / f"{name}.jsonl", rows)
    result = ingest(tmp_path / "ws", tmp_path / "logs", map_file=tmp_path / "map.toml")
    first, later = (account.text_scales[0] for account in result.summary.inputs)
    assert (first["origin"], later["origin"]) == ("measured", "earlier")
    assert first["bytes_per_block"] == later["bytes_per_block"] == 64
    assert len({row["namespace"] for row in result.requests}) == 1
    shared = [result.labels(row) for row in (result.requests[0], result.requests[3])]
    assert common(*shared) == len(text) // 64


@pytest.mark.parametrize(("n_bytes", "n_tokens", "width"), [
    (0, 0, 64), (9_999, MIN_TOKENS - 1, 64), (4 * MIN_TOKENS, 2 * MIN_TOKENS, 32), (MIN_TOKENS // 9, MIN_TOKENS, 16),
    (99 * MIN_TOKENS, MIN_TOKENS, 256),
])  # fmt: skip
def test_a_scale_is_measured_within_reason(n_bytes: int, n_tokens: int, width: int) -> None:
    """Too few tokens measure nothing; images and unlogged parts of prompts cannot stretch a token beyond 1 to 16 bytes."""
    assert choose_scale("m", 16, n_bytes, n_tokens, ()).bytes_per_block == width


def test_no_output_depends_on_chunks(tmp_path: Path) -> None:
    """However the input is cut for parsing: the same bytes everywhere."""
    draw = np.random.default_rng(5)
    texts = ["".join(draw.choice(list("ab \u2028\n"), 90)) for _ in range(6)]
    rows = [{"prompt": "".join(texts[: 1 + at % 6]) + str(at % 11), "tokens": 60 + at} for at in range(60)]
    whole = read(tmp_path / "a", rows, 'prompt_tokens = "tokens"')
    cut = read(tmp_path / "b", rows, 'prompt_tokens = "tokens"', chunk_bytes=700)
    assert tree(whole.root) == tree(cut.root)
    assert whole.account.kept == 60


def test_a_batch_comes_back_from_another_process_as_it_was() -> None:
    """All but the tables that find repeated text, which only the worker needs."""
    batch = TextBatch()
    parts = [TextPart("system", "system", b"s"), TextPart("message", "user", b"hi", b"HI", "ephemeral")]
    batch.add(4, parts, TextPlan(keep_text=True), 0, hashed=True)
    batch.add(5, parts, TextPlan(keep_text=True), 0, hashed=False)
    back = pickle.loads(pickle.dumps(batch))
    for name in (
        "rows",
        "hashed",
        "units",
        "unit_counts",
        "row_units",
        "parts",
        "part_counts",
        "row_parts",
        "marks",
    ):
        assert getattr(back, name) == getattr(batch, name)
    assert (list(back.rows), list(back.unit_counts), back.marks[-1]) == ([4, 5], [2, 0], (1, 1, "ephemeral"))


def test_json_as_sent_is_content_and_envelopes_are_not(tmp_path: Path) -> None:
    """A cache mark or a signature moves no key; another order of the keys of a tool's answer does."""

    def chat(first: dict[str, Any], answer: str = '{"b": 1, "a": 2}') -> dict[str, Any]:
        long = {"role": "user", "content": "tell me " * 40}
        return {
            "prompt": [
                {"role": "system", "content": [first]},
                long,
                {"role": "tool", "content": answer},
                long,
            ]
        }

    plain = {"type": "text", "text": "You are terse. " * 10}
    rows = [
        chat(plain),
        chat({**plain, "cache_control": {"type": "ephemeral"}}),
        chat({**plain, "signature": "Eo4D", "prompt_cache_breakpoint": {"mode": "explicit"}}),
        chat(plain, '{"a": 2, "b": 1}'),
    ]
    result = read(tmp_path, rows)
    one, marked, signed, turned = (result.labels(row) for row in result.requests)
    assert one == marked == signed
    assert 0 < common(one, turned) < len(one)


def test_a_salt_and_a_model_keep_keys_apart(tmp_path: Path) -> None:
    """One head under 3 salts is three heads, though its text is held once."""
    rows = [{"prompt": "head " * 100, "salt": salt} for salt in ("a", "b", None, "a")]
    result = read(tmp_path, rows, 'cache_salt = "salt"')
    assert len({row["namespace"] for row in result.requests}) == 3
    nodes = [row["source_node"] for row in result.requests]
    assert nodes[0] == nodes[3]
    assert len(set(nodes)) == 3


def test_a_block_larger_than_every_prompt_leaves_no_keys_but_lookups(tmp_path: Path) -> None:
    """Blocks of 800 tokens and prompts of 300: keyed, and not one full block."""
    result = read(tmp_path, [{"prompt": "s" * 1_200 + str(at)} for at in range(3)], block_size=800)
    assert [(row["keyed"], row["n_blocks"], row["prompt_tokens"]) for row in result.requests] == [
        (True, 0, 300)
    ] * 3


def test_a_log_may_mix_text_and_ids(tmp_path: Path) -> None:
    """Rows whose prompt is absent are kept without keys, beside those that have text."""
    result = read(tmp_path, [{"prompt": "a" * 100, "tokens": 30}, {"tokens": 40}], 'prompt_tokens = "tokens"')
    assert [row["keyed"] for row in result.requests] == [True, False]
    assert [row["prompt_tokens"] for row in result.requests] == [30, 40]
