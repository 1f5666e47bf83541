"""Writes the lookups of a workspace as a Mooncake or Bailian trace: lengths, times and salted block ids, no names."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from prefixledger.errors import InputError, Place, UsageError
from prefixledger.export.salt import salt_of, salted_ids
from prefixledger.index import load
from prefixledger.kernels.paths import expand_paths
from prefixledger.workspace import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.workspace import Workspace

FORMS: Final = ("mooncake", "bailian")
_DEFAULT_SIZE: Final = {"mooncake": 512, "bailian": 16}
_COLUMNS: Final = (
    "started_at", "admitted_at", "first_token_at", "finished_at", "provider", "model", "session_id", "replica", "weight",
    "status", "keyed", "block_size", "prompt_tokens", "output_tokens", "n_blocks",
)  # fmt: skip
_SPANS: Final = {"queue_ms": "admitted_at", "ttft_ms": "first_token_at", "duration_ms": "finished_at"}
_GROUP_IDS: Final = 1 << 20
_OURS: Final = ".exports.json"
_TELLING: Final = frozenset(":/@")
"""Characters of a model name that is an address: an ARN, a path, an account."""


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What was exported.

    Attributes:
        path: The trace.
        form: ``mooncake`` or ``bailian``.
        rows: Requests in it.
        blocks: Distinct blocks in it.
        block_size: Tokens a block.
        left_out: Requests that are not in it, by reason.
        notes: Sentences for people.
    """

    path: Path
    form: str
    rows: int
    blocks: int
    block_size: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]


def export(
    workspace: Workspace,
    output: Path,
    *,
    form: str = "mooncake",
    block_size: int | None = None,
    salt: str | None = None,
    force: bool = False,
) -> ExportSummary:
    """Write a trace that replays as the log did and names nobody.

    Args:
        workspace: An indexed workspace.
        output: The trace; ``.gz`` and ``.zst`` are packed.
        form: ``mooncake`` or ``bailian``.
        block_size: Export only requests with blocks of so many tokens; None where all have one size.
        salt: See ``salt.salt_of``.
        force: Also replace a file that no export of this workspace wrote.

    Returns:
        What was written.

    Raises:
        UsageError: The form does not exist, block sizes differ, or something of somebody else is in the way.
        InputError: No request can be exported.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"forms: {', '.join(FORMS)}")
    _check_ours(workspace, output, force=force)
    index = load(workspace, columns=_COLUMNS)
    table, left_out, size = _chosen(index.requests, block_size, output)
    last = table["last_block"].fill_null(-1).to_numpy()
    counts = table["n_blocks"].to_numpy().astype(np.int64)
    used = np.zeros(index.forest.parent.size, np.bool_)
    for _, blocks in _groups(index.forest.parent, last, counts):
        used[blocks] = True
    ids = np.zeros(used.size, np.int64)
    ids[used] = salted_ids(index.forest.key[used], salt_of(workspace, salt))
    digest = blake2b(digest_size=16)
    with _opened(output) as out:
        rows = _records(table, form)
        for chosen, blocks in _groups(index.forest.parent, last, counts):
            start = 0
            for n_blocks in counts[chosen].tolist():
                record = next(rows)
                record["hash_ids"] = ids[blocks[start : start + n_blocks]]
                start += n_blocks
                out.write(orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
    digest.update(output.read_bytes())
    _remember(workspace, digest.hexdigest())
    notes = tuple(_notes(output, form, size))
    return ExportSummary(output, form, table.num_rows, int(used.sum()), size, left_out, notes)


def _chosen(requests: pa.Table, block_size: int | None, output: Path) -> tuple[pa.Table, dict[str, int], int]:
    """Return the rows to export, what is left out, and the block size."""
    failed = pc.equal(requests["status"], "failed").to_numpy()
    keyed = requests["keyed"].to_numpy()
    lookup = keyed & ~failed
    size = requests["block_size"].to_numpy()
    sizes = Counter(size[lookup].tolist())
    if not sizes:
        raise InputError(
            "no request of the workspace has keys, so there is nothing to export", place=Place(str(output))
        )
    if block_size is None and len(sizes) > 1:
        named = ", ".join(f"{one} ({n:,} requests)" for one, n in sorted(sizes.items()))
        raise UsageError(
            f"a trace has one block size, and the workspace has {named}",
            hint=f"--block-size {max(sizes, key=lambda one: sizes[one])}",
        )
    wanted = block_size or next(iter(sizes))
    if wanted not in sizes:
        raise UsageError(
            f"no request has blocks of {wanted} tokens", hint=f"sizes: {', '.join(map(str, sorted(sizes)))}"
        )
    kept = lookup & (size == wanted)
    reasons = {
        "failed call": int(failed.sum()),
        "no keys": int((~failed & ~keyed).sum()),
        "another block size": int((lookup & ~kept).sum()),
    }
    return requests.filter(pa.array(kept)), {name: n for name, n in reasons.items() if n}, wanted


def _groups(
    parent: NDArray[np.int64], last: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yield some rows, and their blocks one row after the other."""
    group = np.cumsum(counts) // _GROUP_IDS
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), counts.size]
    for begin, end in pairwise(cuts):
        yield slice(begin, end), expand_paths(parent, last[begin:end], counts[begin:end])


def _records(table: pa.Table, form: str) -> Iterator[dict[str, Any]]:
    """Yield the records without their ids, keys in the order of the published traces."""
    micros = {name: pc.cast(table[name], pa.int64()) for name in ("started_at", *_SPANS.values())}
    started = micros["started_at"].to_numpy()
    begin = int(started[0])
    spans = {
        name: pc.subtract(micros[column], micros["started_at"]).to_pylist() for name, column in _SPANS.items()
    }
    sessions = _numbered(table["session_id"].to_pylist())
    replicas = _ranked(table["replica"].to_pylist())
    models = _models(table["model"].to_pylist())
    weights = table["weight"].to_pylist()
    providers = table["provider"].to_pylist()
    tokens, outputs = table["prompt_tokens"].to_pylist(), table["output_tokens"].to_pylist()
    complete = (table["n_blocks"].to_numpy() >= np.array(tokens) // table["block_size"].to_numpy()).tolist()
    turns: dict[int, tuple[int, int]] = {}
    for row in range(table.num_rows):
        lengths = {"input_length": tokens[row], "output_length": outputs[row], "hash_ids": None}
        at_us = int(started[row]) - begin
        if form == "mooncake":
            record = {"timestamp": _number(at_us, 1_000), **lengths}
            if sessions[row] is not None:
                record["session_id"] = f"s{sessions[row]}"
        else:
            before, turn = (-1, 1) if sessions[row] is None else turns.get(sessions[row], (-1, 1))
            record = {
                "chat_id": row,
                "parent_chat_id": before,
                "timestamp": _number(at_us, 1_000_000),
                **lengths,
            }
            record |= {"type": "text", "turn": turn}
            if sessions[row] is not None:
                turns[sessions[row]] = (row, turn + 1)
        added: dict[str, Any] = {
            name: None if values[row] is None else _number(values[row], 1_000)
            for name, values in spans.items()
        }
        added |= {"replica": replicas[row], "provider": providers[row], "model": models[row]}
        record |= {name: value for name, value in added.items() if value is not None}
        if not complete[row]:
            record["prompt_complete"] = False
        if weights[row] != 1.0:
            record["weight"] = weights[row]
        yield record


def _number(us: int, unit_us: int) -> float | int:
    """Return microseconds in a larger unit, without losing one."""
    whole, rest = divmod(us, unit_us)
    return us / unit_us if rest else whole


def _numbered(names: list[str | None]) -> list[Any]:
    """Number names in order of appearance."""
    numbers: dict[str, int] = {}
    return [None if name is None else numbers.setdefault(name, len(numbers)) for name in names]


def _ranked(names: list[str | None]) -> list[str | None]:
    """Give replicas names that sort as their own do, since ties between replicas go by name."""
    ranks = {name: rank for rank, name in enumerate(sorted({name for name in names if name is not None}))}
    width = len(str(max(len(ranks) - 1, 0)))
    return [None if name is None else f"r{ranks[name]:0{width}}" for name in names]


def _models(names: list[str | None]) -> list[str | None]:
    """Return names of models; an address becomes a number, since it may name an account."""
    numbers: dict[str, int] = {}
    return [
        name
        if name is None or _TELLING.isdisjoint(name)
        else f"model-{numbers.setdefault(name, len(numbers) + 1)}"
        for name in names
    ]


@contextmanager
def _opened(output: Path) -> Iterator[Any]:
    """Open a file that appears when it is whole."""
    try:
        with replacing(output) as temporary, temporary.open("wb") as raw:
            if output.suffix == ".zst":
                with zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False) as packed:
                    yield packed
            elif output.suffix == ".gz":
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped:
                    yield zipped
            else:
                yield raw
    except OSError as error:
        raise UsageError(f"it cannot be written: {error.strerror}", place=Place(str(output))) from error


def _check_ours(workspace: Workspace, output: Path, *, force: bool) -> None:
    """Refuse to replace a file that no export of this workspace wrote.

    Raises:
        UsageError: There is one.
    """
    if force or not output.exists():
        return
    found = blake2b(output.read_bytes(), digest_size=16).hexdigest() if output.is_file() else None
    if found not in _written(workspace):
        raise UsageError(
            "it is there, and this workspace did not write it",
            place=Place(str(output)),
            hint="--force replaces it",
        )


def _written(workspace: Workspace) -> list[str]:
    path = workspace.root / _OURS
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def _remember(workspace: Workspace, digest: str) -> None:
    known = sorted({*_written(workspace), digest})
    (workspace.root / _OURS).write_text(json.dumps(known), encoding="utf-8")


def _notes(output: Path, form: str, size: int) -> Iterator[str]:
    if size != _DEFAULT_SIZE[form] and f"blksz_{size}" not in output.name:
        yield (
            f"the form does not say that blocks have {size} tokens: read it with --block-size {size}, "
            f"or put blksz_{size} into its name"
        )
    yield "observed cache use, tenants, labels and ids of requests are not in it; sessions and replicas are numbers"
