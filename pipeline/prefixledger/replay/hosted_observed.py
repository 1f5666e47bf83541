"""What the usage in a log says against the rules that a hosted pool is replayed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prefixledger.replay.lookups import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prefixledger.replay.lookups import Log

FEWEST = 3
"""Requests on either side from which on a threshold is told."""
FEWEST_SILENT = 20
"""Requests of a model from which on silence is told."""
SLOWEST = 4
SLOWEST_US = 10_000_000
"""A first token that is not logged came after so many times that and 10 s at the latest, 16 s for 32,000 tokens, and before
the end. Whoever asked until then and did not read what he wrote himself shows that it had not come yet; later that is no proof:
an answer may go on for minutes."""
_STEP_TOKENS = 128
"""What services that store at intervals round reads down to."""
_ALIKE = 0.9
"""Share of the reads of a model that end at one place of an interval before that is taken for where intervals end."""
WRITES = (
    "cache_write_5m_tokens_observed",
    "cache_write_1h_tokens_observed",
    "cache_write_other_tokens_observed",
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the log says of the lookups of a pool.

    Attributes:
        model: Who answered each, provider and model.
        read: int64[m], tokens read from cache, -1 where the log does not say.
        written: int64[m], tokens written to it, -1 where the log does not say.
    """

    model: NDArray[np.object_]
    read: NDArray[np.int64]
    written: NDArray[np.int64]


def told(log: Log, mine: NDArray[np.int64]) -> Told:
    """Take what the log says out of it.

    Args:
        log: All lookups.
        mine: int64[m], those of the pool.
    """
    table = log.rows.table.select(["provider", "model", "cached_tokens_observed", *WRITES])
    table = table.take(pa.array(log.lookups.request_row[mine]))
    parts = [np.asarray(pc.fill_null(table[name], -1).to_numpy(), np.int64) for name in WRITES]
    known = np.any([part >= 0 for part in parts], axis=0)
    names = zip(table["provider"].to_pylist(), table["model"].to_pylist(), strict=True)
    return Told(
        model=np.asarray([f"{provider}/{model}" for provider, model in names], dtype=object),
        read=np.asarray(pc.fill_null(table["cached_tokens_observed"], -1).to_numpy(), np.int64),
        written=np.where(known, np.sum([np.maximum(part, 0) for part in parts], axis=0), -1),
    )


def read_and_wanted(said: Told, block_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return int64[m] twice: down to which block each lookup read, and read or wrote, by its usage; -1 where it has none.

    What reaches nine tenths of an entry reaches its end: lengths that were made out of bytes are that far off. Of a service
    that does not count writes, all that was not read was wanted.
    """
    read = np.where(said.read < 0, -1, 10 * said.read // (9 * block_size))
    wrote = 10 * (said.read + said.written) // (9 * block_size)
    wanted = np.where(said.written < 0, np.iinfo(np.int32).max, np.minimum(wrote, np.iinfo(np.int32).max))
    return read, np.where(said.read < 0, -1, wanted)


def readable_us(
    started_us: NDArray[np.int64], finished_us: NDArray[np.int64], prefill_ms: NDArray[np.floating[Any]]
) -> NDArray[np.int64]:
    """Return int64[m], when the first token had come for sure, ``NO_TIME`` where no end is known."""
    slowest = started_us + SLOWEST_US + np.rint(1000 * SLOWEST * prefill_ms).astype(np.int64)
    return np.where(finished_us == NO_TIME, NO_TIME, np.minimum(finished_us, slowest))


def first_ends(said: Told, interval_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[m], where the first interval of each prompt ends, 0 where that is at its full length.

    Services count intervals from the beginning of what they put in front of a prompt, which no log shows; reads do, if
    nearly all of a model end at one place between two multiples. Shorter ones than two steps tell nothing.
    """
    first = np.zeros(said.read.size, np.int64)
    asked = (said.read > 0) & (said.read % _STEP_TOKENS == 0) & (interval_tokens >= 2 * _STEP_TOKENS)
    for model in sorted(set(said.model[asked].tolist())):
        own = said.model == model
        places, counts = np.unique((said.read % interval_tokens)[own & asked], return_counts=True)
        if counts.sum() >= FEWEST and counts.max() >= _ALIKE * (own & (said.read > 0)).sum():
            first[own] = places[counts.argmax()]
    return first


def minimum_notes(
    said: Told, minimum_tokens: NDArray[np.int64], marked_tokens: NDArray[np.int64]
) -> Iterator[str]:
    """Say where prompts are stored from another length on than the rules have it.

    Args:
        said: What the log says.
        minimum_tokens: int64[m], shortest prefix that is stored by the rules.
        marked_tokens: int64[m], length up to the last mark, 0 for none.
    """
    counted = (said.read >= 0) & (said.written >= 0) & (marked_tokens > 0)
    touched = (said.read > 0) | (said.written > 0)
    for model in sorted(set(said.model[counted].tolist())):
        own = counted & (said.model == model)
        rule = int(minimum_tokens[own][0])
        # What was read and written is what is stored, to the token, however the lengths of prompts were made out.
        stored = (said.read + said.written)[own & touched]
        if (below := stored[stored < rule]).size >= FEWEST:
            yield (
                f"{model}: the service stored prefixes of {below.size} prompts that are shorter than the {rule} tokens of the "
                f"rules, from {below.min()} tokens on; minimum_tokens in [pool.cache] replays another one"
            )
            continue
        left, kept = marked_tokens[own & ~touched], marked_tokens[own & touched]
        if min(left.size, kept.size) < FEWEST or left.max() >= kept.min():
            continue
        if left.max() < rule <= kept.min():
            continue
        yield (
            f"{model}: the service stored nothing of {left.size} marked prompts up to {left.max()} tokens and something of "
            f"{kept.size} from {kept.min()} tokens on, but its shortest stored prefix is {rule} tokens by the rules; "
            "minimum_tokens in [pool.cache] replays another one"
        )


def silence_notes(
    said: Told, hit_tokens: NDArray[np.int64], stored_tokens: NDArray[np.int64]
) -> Iterator[str]:
    """Say where a service neither read nor wrote what its rules let one expect.

    Args:
        said: What the log says.
        hit_tokens: int64[m], what each lookup hits in the replay.
        stored_tokens: int64[m], up to where it is stored in the replay.
    """
    counted = said.read >= 0
    silent = counted & (said.read == 0) & (said.written <= 0)
    expected = stored_tokens > 0
    for model in sorted(set(said.model[counted].tolist())):
        own = counted & expected & (said.model == model)
        quiet = own & silent
        could = int(hit_tokens[quiet].sum())
        if quiet.sum() < FEWEST_SILENT or not could:
            continue
        if quiet.sum() == own.sum():
            yield (
                f"{model}: the service read and wrote nothing of any of {own.sum()} prompts, of which {could} tokens should have "
                "hit: the marks do not reach it, are in the words of another API, or it does not cache this model at all"
            )
        elif (said.written[own] > 0).any():
            yield (
                f"{model}: the service read and wrote nothing of {quiet.sum()} of {own.sum()} prompts that should be stored, of "
                f"which {could} tokens should have hit: marks that are sent there do not all take effect"
            )
