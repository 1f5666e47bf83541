"""Access logs in JSON of Envoy and the Envoy AI gateway; the operator chose the names of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.cells import cell_number
from prefixledger.ingest.envelope import user_key
from prefixledger.ingest.fields import extras, mapping, required
from prefixledger.ingest.gateway_rows import present, set_status
from prefixledger.ingest.nested import short_text
from prefixledger.ingest.providers import provider_name
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import Row, Skip
from prefixledger.ingest.time_units import stamp_us
from prefixledger.ingest.times import span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_ENVELOPE: Final = ("start_time", "duration", "response_code")
_OTEL: Final = "gen_ai.usage."
_ENDINGS: Final = (
    ("cached_input_token", f"{_OTEL}cache_read.input_tokens"),
    ("cache_creation_input_token", f"{_OTEL}cache_creation.input_tokens"),
    ("cache_read.input_token", f"{_OTEL}cache_read.input_tokens"),
    ("cache_creation.input_token", f"{_OTEL}cache_creation.input_tokens"),
    ("cached_token", f"{_OTEL}cache_read.input_tokens"),
    ("input_token", f"{_OTEL}input_tokens"),
    ("output_token", f"{_OTEL}output_tokens"),
    ("total_token", f"{_OTEL}total_tokens"),
)
"""Ends of column names, longest first, and what they count: operators put any prefix before them."""
_TENANTS: Final = (
    "tenant",
    "x-tenant-id",
    "x-team-id",
    "x-gateway-inference-fairness-id",
    "x-organization-id",
)
_USERS: Final = ("x-user-id", "user.id", "user")
_CALLS: Final = (
    "/completions",
    "/responses",
    "/messages",
    "generateContent",
    "/invoke",
    "/converse",
    "/chat",
)
_USED: Final = frozenset(
    {*_ENVELOPE, *_TENANTS, *_USERS, "x-request-id", "upstream_host", "upstream_cluster", "x-envoy-upstream-service-time",
     "x-forwarded-for", "user-agent", "x-envoy-origin-path", "path", "session.id", "response_flags", "bytes_sent",
     "bytes_received", "connection_termination_details", "downstream_local_address", "downstream_remote_address",
     "gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name", "upstream_local_address"}
)  # fmt: skip


class EnvoyReader:
    """One call a line; calls of tools over MCP share the stream and are none."""

    info = FormatInfo(
        name="envoy",
        title="Envoy / AI gateway access log (JSON)",
        shape="json",
        keys="none",
        clock="absolute",
        id_scope="global",
        answers=(
            "replicas",
            "latency",
            "failures",
            "tokens, and observed hits where a cached-token column is logged",
        ),
        lacks=(
            "keys: no prompts are logged",
            "observed hits in the default columns",
            "which llm-d decision chose the replica",
        ),
        fields=_USED | {target for _, target in _ENDINGS} | {"llm_cached_input_token", "method"},
        sample="envoy.jsonl",
    )

    def recognise(self, head: Head) -> str | None:
        """Take access logs with a model, tokens or a request id."""
        said = head.having(*_ENVELOPE)
        marks = (b'"gen_ai.', b"input_token", b'"x-request-id"')
        return said if said is not None and any(mark in head.text for mark in marks) else None

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn one line into one row."""
        record = {name: present(cell) for name, cell in mapping(value).items()}
        if any(name.startswith("mcp.") and cell is not None for name, cell in record.items()):
            return Skip("call of a tool")
        path = short_text(record, "x-envoy-origin-path", "path") or ""
        counts = _counts(record)
        known = any(count is not None for count in counts.values())
        if (
            not known
            and short_text(record, "gen_ai.request.model") is None
            and not any(call in path for call in _CALLS)
        ):
            return Skip("no call to a model")
        return _row(record, counts)


def _counts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a line by their names in the OpenTelemetry conventions; a dash is a null."""
    counts: dict[str, Any] = {}
    for name, value in record.items():
        plain = name.removesuffix("s")
        target = next((target for ending, target in _ENDINGS if plain.endswith(ending)), None)
        if target is not None and "reasoning" not in name and counts.get(target) is None:
            counts[target] = None if value is None else cell_number(value, name)
    return counts


def _row(record: Mapping[str, Any], counts: Mapping[str, Any]) -> Row:
    started = stamp_us(required(record, "start_time"), "start_time")[0]
    took = record.get("duration")
    user = short_text(record, *_USERS)
    row = Row(
        started_us=started,
        prompt_tokens=None,
        finished_us=None
        if took is None
        else started + span_us(cell_number(took, "duration"), "ms", "duration"),
        request_id=short_text(record, "x-request-id"),
        provider=_provider(record),
        model=short_text(record, "gen_ai.response.model", "gen_ai.request.model"),
        client=short_text(record, "user-agent"),
        tenant=short_text(record, *_TENANTS) or (None if user is None else user_key(user)),
        session_id=short_text(record, "session.id"),
        replica=short_text(record, "upstream_host"),
        extras=extras(
            {k: v for k, v in record.items() if not any(k.rstrip("s").endswith(e) for e, _ in _ENDINGS)},
            _USED,
        ),
    )
    apply_usage(row, counts, "otel")
    code = record.get("response_code")
    flags = short_text(record, "response_flags") or ""
    if "DC" in flags.split(","):  # the client went away
        row.status = "cut"
    else:
        set_status(row, None if code is None else cell_number(code, "response_code"))
    return row


def _provider(record: Mapping[str, Any]) -> str | None:
    """Return the provider, where the name of the backend (``namespace/name``) is the name of one."""
    named = short_text(record, "gen_ai.provider.name")
    return None if named is None or "/" in named else provider_name(named)
