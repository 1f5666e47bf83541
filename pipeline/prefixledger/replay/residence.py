"""How long each request holds its blocks, and what its output adds: from the log, from rates, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from prefixledger.config.registry import PROFILES
from prefixledger.errors import UsageError
from prefixledger.replay.lookups import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import InFlight, Pool
    from prefixledger.replay.lookups import Lookups


Mode = Literal["logged", "estimated", "none"]
OutputMode = Literal["as_decoded", "at_release", "ignore"]

STEP_TOKENS = 8192
"""Prompt tokens that an engine schedules in one step (vLLM's server on GPUs of 70 to 160 GiB)."""


@dataclass(frozen=True, slots=True)
class Residence:
    """The time that the lookups of one pool hold their blocks.

    Attributes:
        mode: ``logged``, ``estimated`` or ``none``: what ``auto`` came to.
        output: ``as_decoded``, ``at_release`` or ``ignore``: what ``auto`` came to.
        queued_us: int64[k], when each asks to be admitted: its arrival, or under ``logged`` its logged admission.
        hold_us: int64[k], from admission to release if nothing hits.
        prefill_us: int64[k], the part of it before the first output token.
        hit_saves_us: How much a hit block shortens both.
        most_running: Requests that may run on a replica at a time; None: as many as fit.
        notes: What the reader must know, one sentence each.
    """

    mode: Mode
    output: OutputMode
    queued_us: NDArray[np.int64]
    hold_us: NDArray[np.int64]
    prefill_us: NDArray[np.int64]
    hit_saves_us: float
    most_running: int | None = None
    notes: tuple[str, ...] = ()


def decide_residence(pool: Pool, lookups: Lookups, mine: NDArray[np.int64], block_size: int) -> Residence:
    """Settle residence and output of one pool.

    Args:
        pool: Its profile and what the scenario asks for.
        lookups: All lookups.
        mine: int64[k], those of the pool.
        block_size: Tokens per block of the pool.

    Raises:
        UsageError: The log has no ends but they are asked for, or the profile knows no running requests.
    """
    wanted = pool.in_flight
    if not PROFILES[pool.cache.profile].overlaps:
        if wanted.residence not in ("auto", "none") or wanted.output not in ("auto", "ignore"):
            raise UsageError(
                f"pool {pool.name!r}: profile {pool.cache.profile!r} knows neither running requests nor output",
                hint='set residence = "none" and output = "ignore", or replay profile "vllm"',
            )
        _refuse_limit(pool)
        return _none(lookups.started_us[mine], "ignore")
    has_end = lookups.finished_us[mine] != NO_TIME
    mode = _mode(wanted, has_end=bool(has_end.any()))
    if mode == "logged" and not has_end.any():
        raise UsageError(
            f"pool {pool.name!r}: residence 'logged' needs an end of each request, and the log has none",
            hint='map finished_at or duration, give rates for residence = "estimated", or set residence = "none"',
        )
    automatic = "ignore" if mode == "none" else "as_decoded"
    output = cast("OutputMode", automatic if wanted.output == "auto" else wanted.output)
    if mode == "none":
        _refuse_limit(pool)
        return _none(lookups.started_us[mine], output)
    hold, prefill = _estimated(pool, lookups, mine)
    if mode == "estimated":
        saves = 1000.0 * (wanted.prefill_ms_per_token or 0.0) * block_size * wanted.hits_shorten_prefill
        return Residence(mode, output, lookups.started_us[mine], hold, prefill, saves, wanted.max_running)
    return _logged(pool, lookups, mine, output, (hold, prefill))


def _refuse_limit(pool: Pool) -> None:
    if pool.in_flight.max_running is not None:
        raise UsageError(
            f"pool {pool.name!r}: max_running = {pool.in_flight.max_running} changes nothing: one request at a time is replayed",
            hint='it takes residence "logged", or "estimated" with rates, and a profile that knows running requests',
        )


def _mode(wanted: InFlight, *, has_end: bool) -> Mode:
    if wanted.residence != "auto":
        return cast("Mode", wanted.residence)
    if has_end:
        return "logged"
    return "none" if wanted.prefill_ms_per_token is None else "estimated"


def _none(queued_us: NDArray[np.int64], output: OutputMode) -> Residence:
    zeros = np.zeros(queued_us.size, np.int64)
    return Residence("none", output, queued_us, zeros, zeros, 0.0)


def _estimated(
    pool: Pool, lookups: Lookups, mine: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    prefill_us = 1000.0 * (pool.in_flight.prefill_ms_per_token or 0.0)
    decode_us = 1000.0 * (pool.in_flight.decode_ms_per_token or 0.0)
    prefill = np.rint(prefill_us * lookups.prompt_tokens[mine]).astype(np.int64)
    decode = np.rint(decode_us * np.maximum(lookups.output_tokens[mine], 0)).astype(np.int64)
    return prefill + decode, prefill


def _logged(
    pool: Pool,
    lookups: Lookups,
    mine: NDArray[np.int64],
    output: OutputMode,
    estimate: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Residence:
    """Take the logged times; a row without an end is estimated, or holds nothing where no rates are given.

    A logged admission is the step in which the engine looked the request up, so that is when it is looked up here:
    to let it queue again from its arrival would delay what the engine had already delayed.
    """
    admitted, finished, first_token = (
        times[mine] for times in (lookups.admitted_us, lookups.finished_us, lookups.first_token_us)
    )
    begin = np.where(admitted == NO_TIME, lookups.started_us[mine], admitted)
    has_end = finished != NO_TIME
    hold = np.where(has_end, np.maximum(finished - begin, 0), estimate[0])
    known = has_end & (first_token != NO_TIME)
    # Else in steps of equal length, as many as chunks of the prompt and then one for each further token.
    chunks = np.maximum(-(-lookups.prompt_tokens[mine] // STEP_TOKENS), 1)
    steps = chunks + np.maximum(lookups.output_tokens[mine] - 1, 0)
    inferred = np.where(has_end, hold * chunks // steps, estimate[1])
    prefill = np.where(known, np.clip(first_token - begin, 0, hold), inferred)
    notes = []
    if pool.in_flight.max_running is not None:
        notes.append(
            f"pool {pool.name!r}: requests ask when the log admitted them, so a limit on running requests can delay them "
            "but not let them run sooner than they did"
        )
    if not has_end.all():
        how = (
            "are estimated from the given rates"
            if pool.in_flight.prefill_ms_per_token is not None
            else "hold no memory"
        )
        notes.append(
            f"pool {pool.name!r}: {int((~has_end).sum())} of {mine.size} lookups have no logged end and {how}"
        )
    if (admitted[has_end] == NO_TIME).any():
        notes.append(
            f"pool {pool.name!r}: the log does not tell queueing from service, so under load queueing is counted twice: "
            "once in the logged duration, once in the simulation"
        )
    if (begin > lookups.started_us[mine]).any():
        notes.append(
            f"pool {pool.name!r}: where the log tells its admission a request is looked up then, its logged wait "
            "included; room that a scenario adds admits nobody earlier"
        )
    return Residence("logged", output, begin, hold, prefill, 0.0, pool.in_flight.max_running, tuple(notes))
