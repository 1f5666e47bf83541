"""How far a replay is from what the service itself reports, over the lookups that have both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from prefixledger.attribute.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.attribute.window import Window
    from prefixledger.workspace import Workspace

_STEP, _ENGINE_STEP = "60_marts/gap", "60_marts/engine_hours"
_ENGINE_FILES = ("kv_changes", "kv_lookups", "counters")
_COLUMNS = (
    "basis", "usage_state", "started_at", "pool", "replica", "prompt_tokens", "hit_tokens", "observed_hit_tokens", "unexplained_tokens",
    "unpredicted_hit_tokens", "ideal_hit_tokens",
)  # fmt: skip
_FOR_EVER_US = 2**62


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lookups that have both keys and usage; what does not have both is not compared.

    Attributes:
        requests: How many there are, at least one.
        prompt_tokens: Their prompt tokens, at least one.
        simulated_hit_tokens: What the replay gives them.
        reported_hit_tokens: What the service says it read from its cache.
        agreement: ``1 - sum |simulated - reported hit| / sum prompt_tokens``.
        replicas_apart_tokens: What each replica hits more or less in all, signs left out.
    """

    requests: int
    prompt_tokens: int
    simulated_hit_tokens: int
    reported_hit_tokens: int
    agreement: float
    replicas_apart_tokens: int = 0

    @property
    def replicas_apart_pp(self) -> float:
        """How far apart the hit rates of one replica are, in the mean over all, in percentage points; no sign."""
        return 100 * self.replicas_apart_tokens / self.prompt_tokens

    @property
    def gap_pp(self) -> float:
        """Simulated less reported hit rate, in percentage points."""
        return 100 * (self.simulated_hit_tokens - self.reported_hit_tokens) / self.prompt_tokens

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        simulated, reported = (
            f"{100 * hits / self.prompt_tokens:.1f} %"
            for hits in (self.simulated_hit_tokens, self.reported_hit_tokens)
        )
        return (
            f"over the {self.requests:,} lookups that have both, the replay hits {simulated} and the service reports "
            f"{reported}: {_apart(self.gap_pp)}; request by request they agree to {100 * self.agreement:.1f} %"
        )


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """Counters of engines beside the replay of the lookups in the same hours and replicas.

    Attributes:
        simulated_hit_tokens: What the replay gives them.
        prompt_tokens: Their prompt tokens, at least one.
        counted_hit_tokens: Growth of the counters of tokens hit.
        counted_query_tokens: Growth of the counters of tokens asked, at least one.
        replicas_apart_pp: How far apart the hit rates of one replica are, in the mean over all, in percentage points; no
            sign.
    """

    simulated_hit_tokens: int
    prompt_tokens: int
    counted_hit_tokens: int
    counted_query_tokens: int
    replicas_apart_pp: float = 0.0

    @property
    def gap_pp(self) -> float:
        """Simulated less counted hit rate, in percentage points."""
        counted = self.counted_hit_tokens / self.counted_query_tokens
        return 100 * (self.simulated_hit_tokens / self.prompt_tokens - counted)

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        return (
            "over the hours and replicas that counters cover, the replay hits "
            f"{100 * self.simulated_hit_tokens / self.prompt_tokens:.1f} % and the engines count "
            f"{100 * self.counted_hit_tokens / self.counted_query_tokens:.1f} %: {_apart(self.gap_pp)}"
        )


def compare(
    workspace: Workspace, name: str, window: Window | None = None
) -> Comparison | CounterComparison | None:
    """Compare a replay that has books with the usage in the log, or else with counters of engines.

    Args:
        workspace: Where it is.
        name: Name of the scenario.
        window: A filter on arrivals; None compares the whole log.

    Returns:
        None where no lookup has both, and no counter covers any.
    """
    folder = workspace.replay(name)
    lookups = pq.read_table(folder / "lookups.parquet", columns=list(_COLUMNS))
    within = {"from_us": -_FOR_EVER_US, "to_us": _FOR_EVER_US}
    if window is not None:
        within = {"from_us": window.from_us, "to_us": window.to_us}
    with Session() as session:
        session.bind({"lookups": lookups})
        session.run([_STEP], within)
        found = comparison(session.table("gap").to_pylist()[0])
        if found is not None or pq.read_metadata(folder / "counters.parquet").num_rows == 0:
            return found
        session.bind(
            {"asked": lookups, **{file: pq.read_table(folder / f"{file}.parquet") for file in _ENGINE_FILES}}
        )
        session.run([_ENGINE_STEP], within)
        return counter_comparison(session.table("engine_hours").to_pylist())


def counter_comparison(hours: Sequence[Mapping[str, Any]]) -> CounterComparison | None:
    """Return the rows of the mart ``engine_hours`` as a comparison; None where counters cover no lookup."""
    both = [hour for hour in hours if hour["counted_query_tokens"] and hour["prompt_tokens"]]
    if not both:
        return None
    names = ("simulated_hit_tokens", "prompt_tokens", "counted_hit_tokens", "counted_query_tokens")
    replicas = dict.fromkeys((hour["pool"], hour["replica"]) for hour in both)
    parts = [
        CounterComparison(
            *(
                sum(hour[name] or 0 for hour in both if (hour["pool"], hour["replica"]) == replica)
                for name in names
            )
        )
        for replica in replicas
    ]
    whole = CounterComparison(*(sum(getattr(part, name) for part in parts) for name in names))
    apart = sum(abs(part.gap_pp) * part.prompt_tokens for part in parts) / whole.prompt_tokens
    return replace(whole, replicas_apart_pp=apart)


def comparison(row: Mapping[str, Any]) -> Comparison | None:
    """Return the one row of the mart ``gap`` as a comparison; None where there is nothing to compare."""
    if not row["prompt_tokens"]:
        return None
    differing = row["unexplained_tokens"] + row["unpredicted_hit_tokens"]
    return Comparison(
        requests=row["requests"],
        prompt_tokens=row["prompt_tokens"],
        simulated_hit_tokens=row["simulated_hit_tokens"],
        reported_hit_tokens=row["reported_hit_tokens"],
        agreement=1 - differing / row["prompt_tokens"],
        replicas_apart_tokens=row["replicas_apart_tokens"],
    )


def _apart(gap_pp: float) -> str:
    return "the same" if gap_pp == 0 else f"{abs(gap_pp):.1f} points {'more' if gap_pp > 0 else 'less'}"
