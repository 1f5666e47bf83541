"""How long requests are in flight for a router: it needs a load even where caches are replayed one request at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prefixledger.errors import UsageError
from prefixledger.replay.lookups import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prefixledger.config.scenario import Pool
    from prefixledger.replay.lookups import Lookups


@dataclass(frozen=True, slots=True)
class FlightTimes:
    """When the requests of a pool leave, as its router sees it.

    Attributes:
        first_token_us: int64[k], microseconds since 1970.
        end_us: int64[k].
        source: ``logged`` or ``estimated``.
        notes: What the reader must know, one sentence each.
    """

    first_token_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    source: str
    notes: tuple[str, ...]


def flight_times(pool: Pool, lookups: Lookups, mine: NDArray[np.int64]) -> FlightTimes | None:
    """Settle when each request leaves: as logged, else by the rates of the scenario, from its arrival on.

    A router counts what it has sent, waiting or not, so queueing that was logged belongs to it. Queueing that this
    routing would cause, or spare, is known only after it.

    Args:
        pool: What the scenario says of residence and rates.
        lookups: All lookups.
        mine: int64[k], those of the pool.

    Returns:
        None where neither the log nor the scenario tells.
    """
    wanted = pool.in_flight
    started, finished, first = (
        times[mine] for times in (lookups.started_us, lookups.finished_us, lookups.first_token_us)
    )
    has_rates = wanted.prefill_ms_per_token is not None
    has_end = (finished != NO_TIME) & (wanted.residence != "estimated")
    if not has_rates and not has_end.any():
        return None
    prefill = np.rint(1000.0 * (wanted.prefill_ms_per_token or 0.0) * lookups.prompt_tokens[mine])
    decode = np.rint(
        1000.0 * (wanted.decode_ms_per_token or 0.0) * np.maximum(lookups.output_tokens[mine], 0)
    )
    end = np.where(has_end, np.maximum(finished, started), started + (prefill + decode).astype(np.int64))
    known = has_end & (first != NO_TIME)
    token = np.where(known, np.clip(first, started, end), np.minimum(end, started + prefill.astype(np.int64)))
    source = "logged" if has_end.any() else "estimated"
    seen = (
        f"pool {pool.name!r}: the router sees requests in flight from arrival to their {source} end; queueing that the "
        "replay adds or spares is not fed back to it"
    )
    notes = [seen]
    endless = int((~has_end).sum())
    if endless and not has_rates:
        notes.append(
            f"pool {pool.name!r}: {endless} lookups have no logged end and are no load to the router"
        )
    return FlightTimes(token, end, source, tuple(notes))


def no_load(pool: Pool, routing: str) -> UsageError:
    """Return the refusal of a router that needs a load and has none."""
    return UsageError(
        f"pool {pool.name!r}: routing {routing!r} goes by the requests in flight, and nothing says how long one lasts",
        hint="map finished_at or duration, or give prefill_ms_per_token and decode_ms_per_token under in_flight",
    )
