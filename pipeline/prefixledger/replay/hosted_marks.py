"""Up to where each prompt is stored: at the marks that it was sent with, at its end, or at intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from prefixledger.config.units import parse_duration_us
from prefixledger.errors import UsageError
from prefixledger.kernels.arrays import read_only
from prefixledger.replay.block_numbers import ancestors, number_blocks
from prefixledger.replay.hosted import Marks
from prefixledger.replay.hosted_entries_kernel import served_before
from prefixledger.replay.hosted_observed import told
from prefixledger.replay.hosted_rules import BLOCKS, CREATED, MARKS, MESSAGES, NO_LIMIT, UNITS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prefixledger.replay.chains import Chains
    from prefixledger.replay.hosted_rules import LookupRules
    from prefixledger.replay.lookups import Log

UNKNOWN = -1
OFF = "off"
"""In place of a mark: the service is not to set one at the end of the prompt."""
_COLUMNS = ("source_line", "part", "first_token", "n_tokens", "breakpoint", "content_blocks")


@dataclass(frozen=True, slots=True)
class FoundMarks:
    """The marks of a pool's lookups.

    Attributes:
        marks: Where they stand.
        depth: int64[k], blocks from the start of the prompt down to each.
        ttl_us: int64[k], lifetime of what is stored there; -1: none.
        sent: bool[m], whether the log shows the marks of the lookup; else it is cached to its last full block.
        asked: bool[m], whether marks decide where the lookup is stored.
        ttls: Lifetimes that the marks name, in order.
    """

    marks: Marks
    depth: NDArray[np.int64]
    ttl_us: NDArray[np.int64]
    sent: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    ttls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Places:
    """Marks in any order: whose, how deep in blocks, at which position, and for how long (-1: as the lookup has it)."""

    owner: NDArray[np.int64]
    blocks: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    ttl_us: NDArray[np.int64]


def find_marks(
    log: Log,
    chains: Chains,
    mine: NDArray[np.int64],
    block_size: int,
    rules: LookupRules,
    *,
    as_sent: bool,
    given_tokens: tuple[int, ...] = (),
    head_ttl_us: int | None = None,
    off: bool = False,
) -> FoundMarks:
    """Find the marks of the lookups of one pool.

    A mark inside a block stands behind the last full block before it: where the block ends its key is known.

    Args:
        log: All lookups.
        chains: The forest, cut into chains.
        mine: int64[m], lookups of the pool.
        block_size: Tokens per block.
        rules: What holds for each.
        as_sent: Whether marks live as long as they ask for; else as long as the rules say.
        given_tokens: Tokens behind which every lookup whose marks are not in the log has one, besides its last full block.
        head_ttl_us: How long all marks of a prompt but its last live; None: as long as that one.
        off: Whether nothing is marked: then nothing is stored.

    Raises:
        UsageError: Heads are to be created, and nobody says how long they are.
    """
    known, kind = log.lookups, rules.entries
    if off:
        return _unmarked(mine.size)
    keyed = known.n_blocks[mine]
    if (kind == CREATED).any() and not given_tokens:
        raise UsageError(
            "a cached content is the head of a prompt, and nobody says how long it is",
            hint="give marks = TOKENS in [pool.cache]: the length of the head that is created, one or several",
        )
    sent = np.zeros(mine.size, np.bool_)
    by_part, words = _sent(
        log, mine, block_size, keyed, np.isin(kind, (MARKS, MESSAGES)), kind == MESSAGES, sent
    )
    bare = sent & (kind == MARKS)
    bare[by_part.owner] = False
    sent &= ~_unshown(log, mine, bare)
    unsent = np.flatnonzero(~sent & np.isin(kind, (MARKS, MESSAGES)) & (keyed > 0))
    places = [by_part, _at(unsent, keyed[unsent])]
    for depth_blocks in sorted({tokens // block_size for tokens in given_tokens} - {0}):
        longer = np.flatnonzero(~sent & np.isin(kind, (MARKS, MESSAGES, CREATED)) & (keyed >= depth_blocks))
        longer = longer[(keyed[longer] > depth_blocks) | (kind[longer] == CREATED)]
        places.append(_at(longer, np.full(longer.size, depth_blocks)))
    every_tokens = np.where(kind == BLOCKS, rules.interval_tokens, 0)
    places.append(_intervals(np.flatnonzero(every_tokens), rules, keyed, block_size))
    places += [*_units(log, mine, kind, keyed)]
    owner, blocks, ordinal, ttl_us = (
        np.concatenate([getattr(place, name) for place in places])
        for name in ("owner", "blocks", "ordinal", "ttl_us")
    )
    most = rules.most_tokens[owner]
    blocks = np.where(most == NO_LIMIT, blocks, np.minimum(blocks, most // block_size))
    ttl_us = np.where((ttl_us >= 0) & as_sent, ttl_us, rules.ttl_us[owner])
    order = np.lexsort((ordinal, blocks, owner))
    if head_ttl_us is not None:
        ttl_us[order[:-1][owner[order[1:]] == owner[order[:-1]]]] = head_ttl_us
    owner, blocks, ordinal, ttl_us = owner[order], blocks[order], ordinal[order], ttl_us[order]
    block = ancestors(chains, number_blocks(chains), known.last_block[mine][owner], blocks)
    offset = np.searchsorted(owner, np.arange(mine.size + 1)).astype(np.int64)
    named = {word.rpartition("/")[2] for word in words if "/" in word}
    asked = np.isin(kind, (MARKS, MESSAGES))
    return FoundMarks(
        Marks(offset, block, ordinal, every_tokens, rules.first_tokens),
        blocks,
        ttl_us,
        sent,
        asked,
        tuple(sorted(named)),
    )


def _unmarked(lookups: int) -> FoundMarks:
    none, everybody = np.empty(0, np.int64), np.ones(lookups, np.bool_)
    nothing = np.zeros(lookups, np.int64)
    marks = Marks(np.append(nothing, 0), none, none, nothing, nothing)
    return FoundMarks(marks, none, none, everybody, everybody, ())


def _at(owner: NDArray[np.int64], blocks: NDArray[np.int64]) -> _Places:
    unknown = np.full(owner.size, UNKNOWN)
    return _Places(owner, blocks, unknown, unknown)


def _sent(
    log: Log,
    mine: NDArray[np.int64],
    block_size: int,
    keyed: NDArray[np.int64],
    asked: NDArray[np.bool_],
    implicit: NDArray[np.bool_],
    sent: NDArray[np.bool_],
) -> tuple[_Places, list[str]]:
    """Return the marks that the log shows, those at the end of prompts that the service sets among them; tick whose."""
    parts = [_of_source(log, mine, rows, sent) for rows in _by_source(log, mine)]
    sent &= asked
    none = np.empty(0, np.int64)
    parts.append((none, none, none, np.empty(0, object)))
    owner, end, ordinal, words = (np.concatenate(column) for column in zip(*parts, strict=True))
    marked = np.asarray([word is not None and word != OFF for word in words], np.bool_)
    off = np.asarray([word == OFF for word in words], np.bool_)
    last = np.append(owner[1:] != owner[:-1], True)[: owner.size]
    chosen = marked | (last & implicit[owner] & ~off)
    blocks = np.minimum(end // block_size, keyed[owner])
    chosen &= asked[owner] & (blocks > 0)
    ttl_us = np.asarray([_ttl_us(word) for word in words], np.int64)
    places = _Places(owner[chosen], blocks[chosen], ordinal[chosen], ttl_us[chosen])
    return places, sorted({str(word) for word in words[marked & asked[owner]]})


def _unshown(log: Log, mine: NDArray[np.int64], bare: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tick prompts that were cached, or may have been, although the log shows their text without a mark.

    Whoever reads or writes was marked behind the log, by a gateway or a client. Of the others of that model only those
    whose service counts writes are known to be unmarked: they neither read nor wrote.

    Args:
        log: All lookups.
        mine: int64[m], lookups of the pool.
        bare: bool[m], those whose text is in the log and bears no mark.
    """
    if not bare.any():
        return bare
    said = told(log, mine)
    cached = bare & ((said.read > 0) | (said.written > 0))
    of_such = np.isin(said.model, np.unique(said.model[cached].astype(str)))
    return cached | (bare & of_such & (said.written < 0))


def _ttl_us(word: str | None) -> int:
    """Return the lifetime that a mark names, -1 where it names none that can be read."""
    try:
        named = parse_duration_us((word or "").rpartition("/")[2])
    except UsageError:
        return UNKNOWN
    return UNKNOWN if named is None else named


def _intervals(
    own: NDArray[np.int64], rules: LookupRules, keyed: NDArray[np.int64], block_size: int
) -> _Places:
    """Return the last of the places at which prompts are stored that are stored every so many tokens."""
    every, first = rules.interval_tokens[own], rules.first_tokens[own]
    last_tokens = np.maximum((keyed[own] * block_size - first) // every * every + first, 0)
    last = np.where(every > block_size, last_tokens // block_size, keyed[own])
    return _at(own[last > 0], last[last > 0])


def _units(
    log: Log, mine: NDArray[np.int64], kind: NDArray[np.int8], keyed: NDArray[np.int64]
) -> list[_Places]:
    """Return the ends of prompts that are stored as a whole, and of what each shares with an earlier one of them."""
    own = np.flatnonzero((kind == UNITS) & (keyed > 0))
    shared = np.empty(own.size, np.int64)
    served_before(
        read_only(log.forest.parent, np.int64),
        read_only(log.lookups.last_block[mine][own], np.int64),
        read_only(keyed[own], np.int64),
        np.zeros(len(log.forest.parent), np.bool_),
        shared,
    )
    some = (shared > 0) & (shared < keyed[own])
    return [_at(own, keyed[own]), _at(own[some], shared[some])]


def _by_source(log: Log, mine: NDArray[np.int64]) -> list[tuple[Path, NDArray[np.int64]]]:
    """Return the files of parts of the pool's sources, with the lookups of each."""
    if log.parts is None or not log.parts.is_dir():
        return []
    column = log.rows.table["source"].take(pa.array(log.lookups.request_row[mine]))
    encoded = column.combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(), np.int64)
    files = [
        (log.parts / f"{name}.parquet", code) for code, name in enumerate(encoded.dictionary.to_pylist())
    ]
    return [(path, np.flatnonzero(codes == code)) for path, code in sorted(files) if path.is_file()]


def _of_source(
    log: Log, mine: NDArray[np.int64], of: tuple[Path, NDArray[np.int64]], sent: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.object_]]:
    """Return owner, end in tokens, position and mark of every part of a source; tick the lookups that have parts."""
    path, rows = of
    lines = log.rows.table["source_line"].take(pa.array(log.lookups.request_row[mine[rows]])).to_numpy()
    order = np.argsort(lines, kind="stable")
    table = pq.read_table(path, columns=list(_COLUMNS))
    table = table.filter(pc.is_valid(table["first_token"]))
    line = table["source_line"].to_numpy()
    if rows.size == 0 or line.size == 0:
        none = np.empty(0, np.int64)
        return none, none, none, np.empty(0, object)
    at = np.searchsorted(lines[order], line).clip(max=rows.size - 1)
    ours = lines[order][at] == line
    owner = rows[order][at[ours]]
    sent[owner] = True
    end = (table["first_token"].to_numpy() + table["n_tokens"].to_numpy())[ours]
    part = table["part"].to_numpy()[ours]
    words = table["breakpoint"].to_numpy(zero_copy_only=False)[ours]
    by_lookup = np.lexsort((part, owner))
    owner = owner[by_lookup]
    position = _positions(owner, table["content_blocks"].to_numpy()[ours][by_lookup].astype(np.int64))
    return owner, end[by_lookup], position, words[by_lookup]


def _positions(owner: NDArray[np.int64], content_blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the last content block of each part in its prompt; parts stand in order of owner and part."""
    if owner.size == 0:
        return content_blocks
    total = np.cumsum(content_blocks)
    first = np.append(True, owner[1:] != owner[:-1])
    before = (total - content_blocks)[first]
    return np.asarray(total - before[np.cumsum(first) - 1], np.int64)
