"""Hostile logs made from the fixtures: what is changed in them, and what each must do to a reader."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import orjson

from ingest_support import FIXTURES
from prefixledger import api
from prefixledger.config.mapping import load_mapping
from prefixledger.errors import InternalError, PrefixledgerError
from prefixledger.ingest import IngestOptions
from prefixledger.ingest.batch import REJECT, ROW
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.container import Stream
from prefixledger.ingest.detect import detect
from prefixledger.ingest.formats import READERS
from prefixledger.ingest.parse import NOT_UNDERSTOOD, parse_chunk
from prefixledger.ingest.reader import Head
from prefixledger.ingest.sources import Source
from prefixledger.samples import generator
from support import ROOT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from prefixledger.ingest.reader import Context, FormatInfo

NAMES = tuple(reader.info.name for reader in READERS)
MAPPED, MAP = "mapped", ROOT / "sample_traces" / "story.map.toml"
"""The one format without a fixture of its own, and the map that it is read by."""
_ROWS_APART = 600

HOSTILE: tuple[Any, ...] = (
    None, True, False, "", "\0", "\ud800", "\udfff\ud800", "../../etc/passwd", "'; DROP TABLE requests; --",
    "{{ 7 * 7 }}", "{% for x in y %}", "<script>alert(1)</script>", "$(reboot)", "`id`", "a\nb\r\nc", "\u2028\u2029",
    "%s%n", '"', "\\", "x" * 5_000, "9" * 5_000, "-", "NaN", "1e999", "0x10", "\uff11\uff12", "\u22125", "2026-13-45T99:99:99Z",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+14:00", "2026-11-29T10:00:00+99:99", "1970-01-01",
    -1, 0, 1, 1.5, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    -(2**63), 10**30, 10**400, 1_795_953_600, 1_795_953_600_000, 1_795_953_600_000_000, 1_795_953_600_000_000_000,
    [], {}, [[]], [None], [1, "2", None, {}], [1.5, 2.5], [True], list(range(300)), {"": ""}, {"role": 1}, [[[[[[]]]]]],
    {"usage": {"prompt_tokens": -1}}, {"content": [{"type": "text", "text": 5}]}, [{"role": None, "content": [1]}],
)  # fmt: skip
"""Values put in the place of others."""


@dataclass(slots=True)
class Found:
    """What a reader did with its inputs.

    Attributes:
        inputs: How many it was given.
        kinds: How many records became rows, rejects and skips.
        faults: Inputs that raised anything, or left no record; with the traceback.
    """

    inputs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[bytes, str]] = field(default_factory=list)


def info_of(name: str) -> FormatInfo:
    """Return the description of a format."""
    return next(reader.info for reader in READERS if reader.info.name == name)


@cache
def _story() -> bytes:
    """Return some rows of a made-up week, with block ids, and parts by digest and by text."""
    story = generator("story")
    rows = islice(story.rows(story.Story()), 0, None, _ROWS_APART)
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def sample_of(name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a good log of a format."""
    if name == MAPPED:
        return "story.jsonl", _story()
    path = FIXTURES / str(info_of(name).sample)
    return path.name, path.read_bytes()


def context_of(name: str) -> tuple[Context, bytes]:
    """Return what detection says of a good log of a format, and its bytes."""
    file, data = sample_of(name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(data)
        stream = Stream(Source(path, path.name, named=True))
        try:
            if name == MAPPED:
                found = detect(stream, IngestOptions(map_file=MAP), load_mapping(MAP))
            else:
                found = detect(stream, IngestOptions(format=name), None)
        finally:
            stream.close()
    assert found is not None
    return found.context, data


def records_of(context: Context, data: bytes) -> list[bytes]:
    """Return what is mutated: lines, or a document as a whole."""
    if context.document:
        return [data]
    return [line for line in data.split(b"\n") if line.strip()]


def mutated(record: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """Return a record with one to three things changed."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        change: Callable[[bytes, list[bytes], random.Random], bytes] = draw.choice(CHANGES)
        record = change(record, others, draw)
    return record


def read_one(record: bytes, context: Context, found: Found) -> None:
    """Give a record to a reader and count what it becomes."""
    found.inputs += 1
    try:
        batch = parse_chunk(Chunk(record, 2, 100, "no"), context)
    except PrefixledgerError:
        found.kinds["refused"] += 1
        return
    except Exception:  # noqa: BLE001  # any kind is what is looked for
        found.faults.append((record, traceback.format_exc()))
        return
    fates = list(batch.fates)
    odd = [reason for _, reason, _ in batch.rejects if reason.startswith(NOT_UNDERSTOOD)]
    if odd:
        found.faults.append((record, odd[0]))
    found.kinds.update("row" if fate == ROW else "reject" if fate == REJECT else "skip" for fate in fates)
    if not fates and not context.document and record.strip():
        found.faults.append((record, "no record came of it"))


def recognise_one(records: list[bytes], found: Found) -> None:
    """Show the beginning of an input to every reader: one odd record must keep none from the others."""
    values = tuple(value for record in records if isinstance(value := _parsed(record), dict) and value)
    head = Head("log.jsonl", b"\n".join(records), values, len(records))
    for reader in READERS:
        found.inputs += 1
        try:
            found.kinds["no" if reader.recognise(head) is None else "yes"] += 1
        except Exception:  # noqa: BLE001  # any kind is what is looked for
            found.faults.append((head.text, traceback.format_exc()))


def whole_line(name: str, folder: Path, records: int, draw: random.Random, found: Found) -> None:
    """Take a log half of which is hostile through every stage to the report; only errors of ours may end it."""
    context, data = context_of(name)
    own = records_of(context, data)
    log = folder / sample_of(name)[0]
    if context.document:
        log.write_bytes(mutated(own[0], own, draw))
    else:
        lines = [mutated(draw.choice(own), own, draw).replace(b"\n", b" ") for _ in range(records)]
        kept = [own[at % len(own)] for at in range(records)]
        header = [own[0]] if context.shape == "csv" else []
        log.write_bytes(
            b"\n".join([*header, *(line for pair in zip(kept, lines, strict=True) for line in pair)])
        )
    found.inputs += 1
    named = {"map": MAP} if name == MAPPED else {"format": draw.choice((name, None))}
    try:
        api.report(
            [log], workspace=folder / "ws", output=folder / "out.html", max_rejects="100%", jobs=1, t0="2026-11-24T10:00:00Z",
            force=True, **named,
        )  # fmt: skip
        found.kinds["report"] += 1
    except PrefixledgerError as error:
        found.kinds["refused"] += 1
        if isinstance(error, InternalError):
            found.faults.append((log.read_bytes(), traceback.format_exc()))
    except Exception:  # noqa: BLE001  # any kind is what is looked for
        found.faults.append((log.read_bytes(), traceback.format_exc()))


def _flip(record: bytes, _: list[bytes], draw: random.Random) -> bytes:
    data = bytearray(record)
    for _ in range(draw.randint(1, 8)):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def _cut(record: bytes, _: list[bytes], draw: random.Random) -> bytes:
    return record[: draw.randrange(len(record) + 1)]


def _splice(record: bytes, others: list[bytes], draw: random.Random) -> bytes:
    other = draw.choice(others)
    start, end = sorted(draw.randrange(len(other) + 1) for _ in range(2))
    at = draw.randrange(len(record) + 1)
    return record[:at] + other[start : min(end, start + 2_000)] + record[at + draw.randrange(20) :]


def _insert(record: bytes, _: list[bytes], draw: random.Random) -> bytes:
    at = draw.randrange(len(record) + 1)
    what = draw.choice(
        (b"\0", b"\r", b"\r\r", "\u2028".encode(), b"\xef\xbb\xbf", b"\xff", b"\\ud800", b"[" * 1_100, b'{"a":' * 900,
         b"x" * 50_000, b'"', b",", b"\t", b"-", b"e9", b"9" * 400, b"\x1b[31m")
    )  # fmt: skip
    return record[:at] + what + record[at:]


def _double_key(record: bytes, _: list[bytes], draw: random.Random) -> bytes:
    value = _loaded(record)
    if not isinstance(value, dict) or not value:
        return record
    key = draw.choice(sorted(value))
    text = f"{json.dumps(key)}: {json.dumps(draw.choice(HOSTILE))}, "
    return record.replace(b"{", b"{" + text.encode(), 1)


def _change_value(record: bytes, _: list[bytes], draw: random.Random) -> bytes:
    """Change one value somewhere inside a JSON record, or one field of a line of text."""
    start = record.find(b"{")
    value = _loaded(record[start:]) if start >= 0 else None
    if value is None:
        return _change_field(record, draw)
    places: list[tuple[Any, Any]] = []
    _collect(value, places)
    if not places:
        return record
    _change_place(*draw.choice(places), places, draw)
    try:
        return record[:start] + json.dumps(value).encode()
    except (ValueError, RecursionError):  # it holds itself now
        return record


def _change_place(holder: Any, key: Any, places: list[tuple[Any, Any]], draw: random.Random) -> None:
    held = holder[key]
    how = draw.randrange(8)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[str(key) + draw.choice(("", "_", "\0", "é", "__class__"))] = holder.pop(key)
    elif how == 2:
        other, name = draw.choice(places)
        with contextlib.suppress(KeyError, IndexError, TypeError):
            holder[key], other[name] = other[name], held
    elif how == 3 and isinstance(held, int | float):
        near = float(held) if abs(held) < 1e300 else 0.0  # an integer that was put here may be of 400 digits
        holder[key] = draw.choice((near + 0.5, -held, near, held * 1_000_000, [held] * 3))
    elif how == 4:
        holder[key] = draw.choice(
            ([held], str(held), {"a": held, "type": held if isinstance(held, str) else "x"})
        )
    else:
        holder[key] = draw.choice(HOSTILE)


def _change_field(record: bytes, draw: random.Random) -> bytes:
    mark = draw.choice((b",", b" ", b"=", b": ", b"|"))
    parts = record.split(mark)
    at = draw.randrange(len(parts))
    try:
        new = str(draw.choice(HOSTILE)).encode("utf-8", "surrogatepass")
    except ValueError:  # an integer of more digits than Python writes
        new = b"9" * 4_400
    parts[at] = draw.choice((new, b"", parts[at] * 2, draw.choice(parts)))
    return mark.join(parts)


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            places.append((value, key))
            _collect(inner, places)
    elif isinstance(value, list):
        for at, inner in enumerate(value[:40]):
            places.append((value, at))
            _collect(inner, places)


def _parsed(record: bytes) -> Any:
    try:
        return orjson.loads(record)
    except orjson.JSONDecodeError:
        return None


def _loaded(record: bytes) -> Any:
    try:
        return json.loads(record)
    except (ValueError, RecursionError):
        return None


CHANGES = (_flip, _cut, _splice, _insert, _double_key, *[_change_value] * 6)
