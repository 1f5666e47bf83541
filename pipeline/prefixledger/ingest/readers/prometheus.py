"""Answers of Prometheus to range queries: counters of prefix caches over time, and never requests."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prefixledger.ingest.fields import mapping, shown, wrong_type
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Skip
from prefixledger.ingest.times import clock_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_METRICS: Final = {
    "vllm:prefix_cache_hits": "hit_tokens",
    "vllm:gpu_prefix_cache_hits": "hit_tokens",
    "vllm:prefix_cache_queries": "query_tokens",
    "vllm:gpu_prefix_cache_queries": "query_tokens",
    "vllm:num_preemptions": "preemptions",
}
_NO_HITS: Final = {
    "vllm:kv_cache_usage_perc": "gauge of the memory that running requests hold: 0 between requests, whatever is cached",
    "vllm:gpu_cache_usage_perc": "gauge of the memory that running requests hold: 0 between requests, whatever is cached",
    "sglang:token_usage": "gauge of the memory that running requests hold: 0 between requests, whatever is cached",
    "vllm:gpu_prefix_cache_hit_rate": "hit rate over the last requests: the counters behind it are needed",
    "sglang:cache_hit_rate": "hit rate of one batch: the counters behind it are needed",
    "vllm:external_prefix_cache_hits": "counter of a lower tier: some versions count a lookup twice",
    "vllm:external_prefix_cache_queries": "counter of a lower tier: some versions count a lookup twice",
}
"""What looks like a measure of the cache and is none that a replay can stand beside."""
_REPLICA_LABELS: Final = ("replica", "pod", "pod_name", "hostname", "instance")
_RANK_LABELS: Final = ("dp_rank", "engine")
_ERRORS: Final = frozenset(
    {
        "timeout",
        "canceled",
        "execution",
        "bad_data",
        "internal",
        "unavailable",
        "not_found",
        "too_many_requests",
    }
)
_RANK: Final = re.compile(r"\d{1,4}")


class SeriesRow(NamedTuple):
    """One sample; see ``schema.SERIES``."""

    at_us: int
    metric: str
    replica: str | None
    rank: int | None
    value: float


class PrometheusReader:
    """Every series is a record."""

    info = FormatInfo(
        name="prometheus",
        title="Prometheus range query (vLLM's prefix cache counters)",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=(
            "hit rates and preemptions that an engine counted, by hour, beside the replay of a request log",
        ),
        lacks=("requests: counters do not say what was asked",),
        fields=frozenset(
            {"status", "data", "resultType", "result", "metric", "values", "__name__", *_REPLICA_LABELS}
        ),
        note="counters tell how much an engine hit, not what it was asked for: give the request log as well",
        sample="prometheus.json",
    )

    def recognise(self, head: Head) -> str | None:
        """Take answers of the API, also those that say that something went wrong."""
        fit = sum(1 for value in head.values if _is_matrix(value) or _complaint(value))
        if fit == 0 or 2 * fit < len(head.values):
            return None
        return "it is the answer to a query of Prometheus"

    def read(self, value: Any, context: Context) -> Iterator[Outcome]:  # noqa: ARG002
        """Turn each series of an answer into samples."""
        if complaint := _complaint(value):
            raise BadRecordError(complaint)
        if not _is_matrix(value):
            raise BadRecordError("no range query: data.resultType is no matrix")
        result = mapping(value, "data")["result"]
        if not result:
            yield Skip("answer without series")
        for one in result:
            try:
                yield _series(mapping(one))
            except BadRecordError as bad:
                yield Reject(str(bad), {"metric": None})


def _is_matrix(value: Any) -> bool:
    data = value.get("data") if isinstance(value, dict) else None
    return (
        isinstance(data, dict) and data.get("resultType") == "matrix" and isinstance(data.get("result"), list)
    )


def _complaint(value: Any) -> str | None:
    """Return why an answer has no range of samples, or None."""
    status, data = (value.get("status"), value.get("data")) if isinstance(value, dict) else (None, None)
    if status == "error" and "errorType" in value:
        kind = value["errorType"]
        return f"an error in place of an answer: {kind if isinstance(kind, str) and kind in _ERRORS else 'of an unknown type'}"
    if (
        status == "success"
        and isinstance(data, dict)
        and data.get("resultType") in ("vector", "scalar", "string")
    ):
        return "the answer to a query of one moment: ask query_range"
    return None


def _series(one: dict[str, Any]) -> Skip:
    labels = mapping(one, "metric")
    name = str(labels.get("__name__", "")).removesuffix("_total")
    if not name:
        return Skip("series without a name: a rate or sum, where the counter itself is needed")
    metric = _METRICS.get(name)
    if metric is None:
        return Skip(_NO_HITS.get(name, "series of another metric"))
    replica = next((str(labels[key]) for key in _REPLICA_LABELS if labels.get(key)), None)
    rank = next((str(labels[key]) for key in _RANK_LABELS if labels.get(key)), "")
    number = int(rank) if _RANK.fullmatch(rank) else None
    values = one.get("values")
    if not isinstance(values, list):
        raise wrong_type("values", values, "a list of samples")
    return Skip(
        "series of a counter",
        series=tuple(row for pair in values if (row := _sample(pair, metric, replica, number)) is not None),
    )


def _sample(pair: Any, metric: str, replica: str | None, rank: int | None) -> SeriesRow | None:
    """Return a sample; None for one that says that there is no value, which says nothing of the others."""
    if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004  # [time, value]
        raise wrong_type("values", pair, "pairs of time and value")
    try:
        value = float(pair[1])
    except (TypeError, ValueError):
        raise wrong_type("value", pair[1], "a number") from None
    if math.isnan(value):
        return None
    if not 0 <= value < 1 << 62:
        raise BadRecordError(f"absurd number: a counter is {shown(pair[1])}")
    return SeriesRow(clock_us(pair[0], "s", "time"), metric, replica, rank, value)
