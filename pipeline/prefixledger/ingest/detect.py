"""Finds the format of an input from its first 50 records, and everything else that must be known to parse it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from zoneinfo import ZoneInfo

import orjson

from prefixledger.errors import InputError, UsageError
from prefixledger.ingest.chunks import Chunk
from prefixledger.ingest.chunks import lines as whole_lines
from prefixledger.ingest.container import Stream
from prefixledger.ingest.documents import Broken, json_values
from prefixledger.ingest.formats import READERS, reader_named, recognise
from prefixledger.ingest.nested import inner
from prefixledger.ingest.parse import csv_cells, unprefixed
from prefixledger.ingest.plan import FieldPlan, MapPlan, PathKind
from prefixledger.ingest.reader import Context, Head
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.sources import named_source
from prefixledger.ingest.streams import is_capture
from prefixledger.ingest.time_units import common_unit
from prefixledger.objects import is_url

if TYPE_CHECKING:
    from prefixledger.config.mapping import Mapping
    from prefixledger.config.mapping import Source as MapSource
    from prefixledger.ingest.options import IngestOptions
    from prefixledger.ingest.reader import FormatInfo, Reader, Shape

_ENGINES_TELL: Final = ("kv-events", "prometheus")
BOM: Final = b"\xef\xbb\xbf"
_ROWS: Final = 50
_MAX_HEAD: Final = 8 << 20
_FIRST_LOOK: Final = 1 << 16
_DELIMITERS: Final = ",;\t|"
_NAMED_SIZE = re.compile(r"blksz_(\d+)")
_MIN_JSON_SHARE: Final = 0.2
_COLUMNAR: Final[dict[bytes, Literal["parquet", "arrow"]]] = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_MAP_SHAPES: Final[dict[str, Shape]] = {"jsonl": "json", "csv": "csv", "parquet": "table"}


@dataclass(frozen=True, slots=True)
class Detected:
    """What an input is.

    Attributes:
        reader: Its format.
        why: Why it was taken for that.
        context: What parsing needs to know.
        size_origin: Where the block size comes from.
        columnar: ``parquet`` or ``arrow`` where it is such a file.
    """

    reader: Reader
    why: str
    context: Context
    size_origin: str
    columnar: str | None = None


def detect(stream: Stream, options: IngestOptions, mapping: Mapping | None) -> Detected | None:
    """Look at the beginning of an input.

    Args:
        stream: The input, not yet used up.
        options: Choices of the caller; the format among them is final.
        mapping: The map file, where one is given.

    Returns:
        What it is; None where it is empty.

    Raises:
        InputError: No format fits.
        UsageError: The format that was asked for does not exist, or the map does not fit the file.
    """
    head = look(stream)
    if not head.text.strip() and head.columnar is None:
        return None
    if mapping is not None:
        return _mapped(head, mapping, options, stream)
    if options.format is not None:
        reader, why = reader_named(options.format), "asked for"
    else:
        found = recognise(head)
        if found is None:
            raise _unknown(stream, head)
        reader, why = found
    info = reader.info
    if info.name == "mapped":
        raise UsageError("format 'mapped' needs a map file", hint="give --map FILE")
    shape = _shape(head, info)
    size, origin = _fallback_size(head.name, info.block_size)
    context = Context(
        format=info.name,
        file_name=head.name,
        shape=shape,
        document=head.document and shape == "json",
        block_size=options.block_size,
        fallback_block_size=size,
        block_ids=options.block_ids,
        cells=head.cells,
        delimiter=head.delimiter,
        header_line=head.header_line,
        time_unit=_time_unit(head, info),
    )
    if info.sizes_in_records:
        origin = "from the records"
    return Detected(reader, why, context, "asked for" if options.block_size else origin, head.columnar)


def engine_format(source: str) -> str:
    """Return the format of a file in which engines tell of themselves: events or counters, else their log.

    A log may hold requests too and be taken for a request log, so it is told by what it is not.
    """
    if not is_url(source) and not Path(source).is_file():
        return "engine-log"
    stream = Stream(named_source(source))
    try:
        found = recognise(look(stream))
    finally:
        stream.close()
    name = "" if found is None else found[0].info.name
    return name if name in _ENGINES_TELL else "engine-log"


def look(stream: Stream) -> Head:
    """Return the beginning of an input from all sides; nothing of it is used up."""
    raw = stream.head(_FIRST_LOOK)
    for magic, kind in _COLUMNAR.items():
        if raw.startswith(magic):
            names, rows = _first_rows(stream, kind)
            return Head(stream.source.name, raw, rows, len(rows), cells=names, columnar=kind)
    n_bytes = _FIRST_LOOK
    while raw.count(b"\n") <= _ROWS and len(raw) >= n_bytes and n_bytes < _MAX_HEAD:
        n_bytes *= 4
        raw = stream.head(n_bytes)
    text = raw.removeprefix(BOM)
    complete = len(raw) < n_bytes
    lines = [raw for _, _, raw in whole_lines(Chunk(text, 1, 0))]
    if not complete and len(lines) > 1:
        lines.pop()  # it may go on behind the look
    lines = lines[:_ROWS]
    values = [value for line in lines if isinstance(value := _value(line), dict) and value]
    first_is_json = bool(values) and _value(lines[0]) == values[0]
    if first_is_json or len(values) > _MIN_JSON_SHARE * len(lines):
        return Head(stream.source.name, text, tuple(values), len(lines))
    if text.lstrip()[:1] in (b"{", b"[") or is_capture(text):
        found = tuple(islice(_document_values(text), _ROWS)) if complete or is_capture(text) else ()
        if not found and _one_to_a_line(lines):
            return Head(stream.source.name, text, tuple(values), len(lines))
        return Head(stream.source.name, text, found, len(found), document=True)
    cells, delimiter = _header(lines[0]) if lines else ((), ",")
    line = 1 + text[: text.find(lines[0])].count(b"\n") if lines else 0
    return Head(
        stream.source.name, text, lines=len(lines), cells=cells, delimiter=delimiter, header_line=line
    )


def make_plan(mapping: Mapping) -> MapPlan:
    """Turn a map file into the plain form that parsing uses."""
    columns = mapping.columns
    from prefixledger.config.mapping import COUNTS, PATHS, TEXTS, TIMES  # noqa: PLC0415  # keeps pydantic out of workers

    def chosen(names: tuple[str, ...]) -> tuple[tuple[str, FieldPlan], ...]:
        return tuple((name, _field(columns[name])) for name in names if name in columns)

    single = {
        name: _field(columns[name])
        for name in ("duration", "weight", "status", "prompt_complete", "bypassed", "images", "parts")
        if name in columns
    }
    path: PathKind | None = next((name for name in PATHS if name in columns), None)
    return MapPlan(
        times=chosen(TIMES),
        texts=chosen(TEXTS),
        counts=chosen(COUNTS),
        path_kind=path or "none",
        path=None if path is None else _field(columns[path]),
        **single,
    )


def _field(source: MapSource) -> FieldPlan:
    name = source.from_ or ""
    return FieldPlan(
        source=name,
        steps=tuple(name.split(".")) if "." in name else (),
        unit=source.unit or "iso",
        zone=ZoneInfo(source.zone) if source.zone else None,
        value=source.value,
    )


def _mapped(head: Head, mapping: Mapping, options: IngestOptions, stream: Stream) -> Detected:
    assert options.map_file is not None
    plan = make_plan(mapping)
    shape = _MAP_SHAPES[mapping.format]
    if (shape == "table") != (head.columnar is not None):
        what = "is no Parquet or Arrow file" if shape == "table" else "is a Parquet or Arrow file"
        raise UsageError(f"the map says {mapping.format}, but the file {what}", place=stream.source.place)
    if shape == "csv":
        _check_header(head, plan, stream)
    if shape == "json" and not head.values and not stream.source.named:
        raise InputError("it holds no JSON", place=stream.source.place)
    size, origin = _fallback_size(head.name, None)
    stated = options.block_size or mapping.block_size
    context = Context(
        format="mapped",
        file_name=head.name,
        shape=shape,
        document=shape == "json" and head.document,
        block_size=stated,
        fallback_block_size=size,
        block_ids=options.block_ids or mapping.block_ids,
        cells=head.cells,
        delimiter=head.delimiter,
        header_line=head.header_line,
        plan=plan,
    )
    if stated:
        origin = "asked for" if options.block_size else "from the map"
    return Detected(
        reader_named("mapped"), f"map file {options.map_file.name}", context, origin, head.columnar
    )


def _check_header(head: Head, plan: MapPlan, stream: Stream) -> None:
    mapped = {plan.times[0][1].source, *((plan.path.source,) if plan.path else ())}
    mapped |= {field.source for _, field in (*plan.times, *plan.texts, *plan.counts) if field.source}
    lacking = sorted(mapped - set(head.cells))
    if lacking:
        raise UsageError(
            f"the file has no column {lacking[0]!r}",
            place=stream.source.place,
            hint=f"columns: {', '.join(head.cells)}",
        )
    doubled = sorted(name for name in mapped if head.cells.count(name) > 1)
    if doubled:
        raise UsageError(f"the file has two columns {doubled[0]!r}", place=stream.source.place)


def _shape(head: Head, info: FormatInfo) -> Shape:
    """Return the shape in which a format comes this time."""
    if head.columnar is not None:
        return "table" if "table" in info.also else info.shape
    is_csv = "csv" in info.also and head.cells and not head.values and not head.document
    return "csv" if is_csv else info.shape


def _time_unit(head: Head, info: FormatInfo) -> str | None:
    """Return the unit of times that are numbers, by the median of the first records, never by single rows."""
    if info.time_field is None:
        return None
    return common_unit(
        inner(value, *info.time_field.split("/")) for value in head.values if isinstance(value, dict)
    )


def _first_rows(stream: Stream, kind: Literal["parquet", "arrow"]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return column names and first rows of a columnar file; none where it is packed, or comes through a pipe."""
    path = stream.source.path
    if path is None or stream.state.layers or not path.is_file():
        return (), ()
    from prefixledger.ingest.columnar import first_rows  # noqa: PLC0415  # only columnar files pay for it

    return first_rows(path, kind, _ROWS)


def _fallback_size(name: str, own: int | None) -> tuple[int, str]:
    match = _NAMED_SIZE.search(name)
    if match is not None and int(match[1]) > 0:
        return int(match[1]), "from the file name"
    return (own, "the format's own") if own else (16, "the default")


def _value(line: bytes) -> Any:
    try:
        return orjson.loads(unprefixed(line))
    except orjson.JSONDecodeError:
        return None


def _one_to_a_line(lines: list[bytes]) -> bool:
    """Say whether lines that hold no JSON are objects one to a line, cut off or broken, and not lines of a longer value.

    In a value over several lines most begin with a name or a bracket of their own, or are elements with a comma behind them.
    """
    bare = [unprefixed(line).rstrip() for line in lines]
    alone = sum(line.startswith(b"{") and len(line) > 1 for line in bare)
    element = any(line.endswith(b",") and _value(line[:-1]) is not None for line in bare)
    return len(bare) > 1 and 2 * alone > len(bare) and not element


def _document_values(text: bytes) -> Any:
    return (value for value in json_values(text) if not isinstance(value, Broken))


def _header(line: bytes) -> tuple[tuple[str, ...], str]:
    delimiter = max(_DELIMITERS, key=lambda mark: line.count(mark.encode()))
    try:
        return tuple(csv_cells(line, delimiter)), delimiter
    except BadRecordError:
        return (), delimiter


def _unknown(stream: Stream, head: Head) -> InputError:
    names = ", ".join(reader.info.name for reader in READERS if reader.info.name != "mapped")
    what = (
        "columns of this file need names"
        if head.columnar or len(head.cells) > 1
        else "it looks like none of the formats that are known"
    )
    return InputError(
        "no known format fits",
        place=stream.source.place,
        hint=f"{what}; give --map FILE for another JSONL, CSV or Parquet, or --format NAME, one of {names}",
    )
