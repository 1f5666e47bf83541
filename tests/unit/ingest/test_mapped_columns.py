"""Records of mapped logs read as columns say the same as when they are read one by one, whatever is in them."""

from __future__ import annotations

import json
import random
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prefixledger.ingest import mapped_columns, parse
from prefixledger.ingest.batch import Batch
from prefixledger.ingest.chunks import Chunk, lines
from prefixledger.ingest.overrides import Overrides
from prefixledger.ingest.plan import FieldPlan, MapPlan
from prefixledger.ingest.reader import Context
from prefixledger.ingest.text.plan import TextPlan

if TYPE_CHECKING:
    from collections.abc import Callable

NOON_MS = 1_795_953_600_000
HOSTILE: tuple[Any, ...] = (
    None, "", "null ", " NA", True, False, 0, 1, -1, 7, 2**31, 2**32, 2**63, 2**64 - 1, 2**64, 10**30, 0.0, 1.0, -0.5, 1e300,
    "7", "7.5", " 8 ", "-1", "x", "é" * 3, "x" * 65, "y" * 1_001, [], {}, [1], [True], [1, "2"], [[1]], {"a": 1}, "[1, 2]",
    "2026-11-28T12:00:00Z", "2026-11-28T12:00:00+02:00", "2026-11-28T12:00:00", " 2026-11-28 12:00:00.123456789Z", "2026-02-30",
    "1969-12-31T23:59:59Z", "2101-01-01T00:00:00Z", "error", 499, "timeout", "\ud800",
)  # fmt: skip
LINES: tuple[bytes, ...] = (
    b"", b" ", b"[1]", b"12", b"null", b"{", b"{}", b'{"t":1,"t":2}', b'{"t":NaN}', b"\xff", b'{"t":"\xff"}', b"\0",
    b'[2026-11-28 12:00:00] {"t":1795953600000,"n":5}', b'{"log":"{\\"t\\":1795953600000,\\"n\\":5}\\n"}', b'{"t":1795953600000}x',
    b'{"t":1795953600000,"n":4,"path":[1],"path":[2]}', b'{"t":1795953600000,"n":4,"path":[1],"p\\u0061th":[2]}',
    b'{"t":1795953600000,"n":4,"o":{"path":[1]},"path":[ 7 ]}', b'{"t":1795953600000,"n":4,"path":[1', b'{"path":[1],"n":4]',
    b'{"t":1795953600000,"n":4,"path":[1]}{}', b'{"t":1795953600000,"n":4,"path" :\t[1 , 2],"parts":["\\"path\\":[3]"]}',
    b'2026-11-28T12:00:00.1Z stdout P {"t":1795953600000,\n2026-11-28T12:00:00.2Z stdout F "n":4,"path":[1]}',
    b'{"log":"{\\"t\\":1795953600000,\\"n\\":4,\\"path\\":[1]}\\n","path":[2],"n":4,"t":1795953600000}',
    b'{"t":1795953600000,"n":5}\r', b'  {"t":1795953600000,"n":5}',
)  # fmt: skip
TEXTS = ("request_id", "provider", "model", "tenant", "session_id", "replica", "cache_salt", "namespace")
COUNTS = ("prompt_tokens", "output_tokens", "cached_tokens_observed", "cache_write_5m_tokens_observed")


def _field(draw: random.Random, name: str, unit: Any = "iso") -> FieldPlan:
    """Return a field, sometimes one inside an object, or of a zone."""
    source = name if draw.random() < 0.8 else f"o.{name}"
    zone = ZoneInfo("Europe/Berlin") if draw.random() < 0.1 else None
    return FieldPlan(source, tuple(source.split(".")), unit, zone)


def _plan(draw: random.Random) -> MapPlan:
    def some(name: str, unit: Any = "iso", share: float = 0.3) -> FieldPlan | None:
        return _field(draw, name, unit) if draw.random() < share else None

    units = ("iso", "ms", "ms", "s", "us", "ns")
    kind = draw.choice(("none", "block_ids", "block_ids", "token_ids", "text"))
    times = [("started_at", FieldPlan("t", ("t",), draw.choice(units)))]
    times += [(name, _field(draw, name[:2], draw.choice(units))) for name in ("first_token_at", "finished_at") if draw.random() < 0.2]  # fmt: skip
    texts = [(name, _field(draw, name)) for name in TEXTS if draw.random() < 0.5]
    texts += [("release", FieldPlan("", value="v1"))] * (draw.random() < 0.2)
    counts = [("prompt_tokens", FieldPlan("n", ("n",)))] if draw.random() < 0.85 else []
    counts += [(name, _field(draw, name)) for name in COUNTS[1:] if draw.random() < 0.5]
    return MapPlan(
        times=tuple(times), texts=tuple(texts), counts=tuple(counts),
        path_kind=kind, path=None if kind == "none" else _field(draw, "path"),
        duration=some("d", draw.choice(units[1:])), weight=some("w", share=0.1), status=some("status"),
        prompt_complete=some("whole", share=0.2), bypassed=some("by", share=0.1),
        images=some("mm", share=0.3) if kind == "token_ids" else None,
        parts=some("parts", share=0.6) if kind != "text" else None,
    )  # fmt: skip


def _part(draw: random.Random) -> Any:
    """Return a part, most of them good."""
    part: dict[str, Any] = {
        draw.choice(("text", "digest")): draw.choice(("a", "b", "It is 2026-11-28 12:00:00.", "é"))
    }
    part["tokens"] = draw.choice((0, 1, 2, 5))
    for name, values in (
        ("kind", ("system", "tools", "message")), ("role", ("user", "", None)), ("canonical", ("c", None)),
        ("breakpoint", ("ephemeral/1h", "", None)),
    ):  # fmt: skip
        if draw.random() < 0.3:
            part[name] = draw.choice(values)
    if draw.random() < 0.03:
        part[draw.choice(("text", "digest", "tokens", "kind", "role", "canonical", "breakpoint"))] = (
            draw.choice(HOSTILE)
        )
    return part if draw.random() < 0.98 else draw.choice(HOSTILE)


def _good(draw: random.Random, plan: MapPlan) -> dict[str, Any]:
    """Return a record that fits a map, by name of the field."""
    n_tokens = draw.choice((0, 1, 4, 5, 8, 9, 17, 40))
    n_ids = {"block_ids": n_tokens // 4 + (draw.random() < 0.2), "token_ids": n_tokens}.get(plan.path_kind, 0)
    at: dict[str, Callable[[], Any]] = {
        "iso": lambda: f"2026-11-28T12:00:01.5{draw.choices(('Z', '+00:00', '-00:30', ''), (20, 9, 9, 1))[0]}",
        "ms": lambda: NOON_MS + draw.randrange(9), "s": lambda: NOON_MS // 1_000,
        "us": lambda: NOON_MS * 1_000, "ns": lambda: NOON_MS * 1_000_000 + draw.randrange(9_999),
    }  # fmt: skip
    ids: Any = [draw.choice((0, 1, 2, 9, 2**32 - 1)) for _ in range(n_ids)]
    if ids and draw.random() < 0.03:
        ids[draw.randrange(len(ids))] = draw.choice(HOSTILE)
    text = draw.choice(
        (
            "hello",
            "[1]",
            '{"messages": [{"role": "user", "content": "hi"}]}',
            [{"role": "user", "content": "x"}],
        )
    )
    made: dict[str, Any] = {
        "t": at[plan.times[0][1].unit](),
        "n": n_tokens,
        "d": 5,
        "w": draw.choice((1, 2.5)),
        "status": "ok",
    }
    made |= {
        name: at[field.unit]() for (_, field), name in ((one, one[1].steps[-1]) for one in plan.times[1:])
    }
    made |= {"whole": True, "by": False, "path": text if plan.path_kind == "text" else ids, "mm": None}
    made |= {"parts": [_part(draw) for _ in range(draw.randrange(4))], "output_tokens": draw.randrange(3)}
    made |= {"cached_tokens_observed": 0, "cache_write_5m_tokens_observed": 0}
    made |= {name: draw.choice((name, "x", None)) for name in TEXTS}
    return made


def _line(draw: random.Random, plan: MapPlan, hostile: float) -> bytes:
    if draw.random() < hostile / 2:
        return draw.choice(LINES)
    record = _good(draw, plan)
    for name in list(record):
        if draw.random() < hostile / 4:
            record[name] = draw.choice(HOSTILE)
        elif draw.random() < hostile / 4:
            del record[name]
    if draw.random() < 0.3:
        record |= {"extra": draw.choice(HOSTILE), "": 1}
    one = plan.fields
    nested = {name: record.pop(name) for name in list(record) if f"o.{name}" in one and draw.random() < 0.95}
    if nested:
        record["o"] = nested
    end = b"\r" * (draw.random() < 0.1)
    return json.dumps(record, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass") + end


def _by_rows(chunk: Chunk, context: Context) -> Batch:
    parser = parse._Parser(context)
    end = chunk.offset + len(chunk.data)
    for line, offset, raw in lines(chunk):
        parser.json_line(line, offset, raw, chunk.cut != "no" and offset + len(raw) == end)
    return parser.batch


@given(st.integers(0, 1 << 40), st.sampled_from((0.0, 0.02, 0.3)), st.sampled_from((3, 64)))
@example(0, 0.3, 3)
def test_columns_equal_rows(seed: int, hostile: float, group: int) -> None:
    """Any map over any lines: every record has the same fate, reason and values, and every part the same number."""
    draw = random.Random(seed)
    plan = _plan(draw)
    rule: Any = draw.choice((None, None, "floor", "ceil"))
    overrides = Overrides(*((("tenant", "t"),), (("x", "gpt"), ("m*", "m"))) if draw.random() < 0.2 else ())
    context = Context(
        "mapped", "log.jsonl", "json", block_size=draw.choice((None, 4)), fallback_block_size=4, block_ids=rule, plan=plan,
        text=TextPlan(keep_text=draw.random() < 0.5), overrides=overrides,
    )  # fmt: skip
    assert mapped_columns.in_columns(context)
    written = [_line(draw, plan, hostile) for _ in range(draw.randrange(1, 30))]
    chunk = Chunk(
        b"\n".join(written) + b"\n" * draw.randrange(2), 5, 100, draw.choice(("no", "perhaps", "surely"))
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parse, "_GROUP_LINES", group)
        found = parse.parse_chunk(chunk, context)
    wanted = _by_rows(chunk, context)
    for one in fields(Batch):
        assert getattr(found, one.name) == getattr(wanted, one.name), one.name


def test_what_is_plain_is_read_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of good lines none goes the slow way; of others just those."""
    plan = MapPlan(
        times=(("started_at", FieldPlan("t", ("t",), "ms")),),
        texts=(("request_id", FieldPlan("id", ("id",))),),
        counts=(("prompt_tokens", FieldPlan("n", ("n",))),),
        path_kind="block_ids",
        path=FieldPlan("ids", ("ids",)),
        parts=FieldPlan("parts", ("parts",)),
    )
    context = Context("mapped", "log.jsonl", "json", fallback_block_size=4, plan=plan)
    record = {
        "t": NOON_MS,
        "id": "a",
        "n": 9,
        "ids": [0, 1],
        "parts": [{"digest": "a", "tokens": 9}],
        "label": 1,
    }
    odd = record | {"ids": [0, True]}
    text = b"\n".join(json.dumps(one).encode() for one in (record, record, odd, record | {"ids": [7, 8, 9]}))
    slow: list[int] = []
    read = parse._Parser.json_line

    def noted(parser: Any, line: int, *given: Any) -> None:
        slow.append(line)
        read(parser, line, *given)

    monkeypatch.setattr(parse._Parser, "json_line", noted)
    batch = parse.parse_chunk(Chunk(text, 1, 0), context)
    assert slow == [3]
    assert [reason for _, reason, _ in batch.rejects] == ["wrong type: block ids holds a boolean"]
    assert (list(batch.id_counts), list(batch.ids)) == ([2, 2, 2], [0, 1, 0, 1, 7, 8])
    assert (batch.fit.floor, batch.fit.ceil) == (2, 1)
