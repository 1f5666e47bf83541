"""Spans of traces in the forms in which collectors and libraries write them, brought into one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.fields import integer, wrong_type
from prefixledger.ingest.nested import decoded, short_text
from prefixledger.ingest.records import BadRecordError
from prefixledger.ingest.time_units import stamp_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ATTRIBUTES: Final = "attributes."
_ERRORS: Final = frozenset({"2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR", "Error", "error"})
_NO_ERROR: Final = frozenset({"", "0", "false", "none"})


@dataclass(frozen=True, slots=True)
class Span:
    """One span.

    Attributes:
        attributes: Its attributes by full dotted name, values plain.
        name: Its name.
        key: Id within the file: trace and span; None where it has none.
        parent: Key of the span above it.
        start_us: Its start, microseconds since 1970; None where it was left out.
        end_us: Its end.
        failed: Whether its status is an error.
        events: Name, attributes and time of each event.
        scope: Instrumentation that made it.
        resource: Attributes of what was instrumented.
    """

    attributes: Mapping[str, Any]
    name: str = ""
    key: str | None = None
    parent: str | None = None
    start_us: int | None = None
    end_us: int | None = None
    failed: bool = False
    events: tuple[tuple[str, Mapping[str, Any], int | None], ...] = ()
    scope: str | None = None
    resource: Mapping[str, Any] = field(default_factory=dict)

    def texts(self, *names: str) -> str | None:
        """Return the first of some attributes that holds a short text or a whole number."""
        return short_text(self.attributes, *names)


@dataclass(frozen=True, slots=True)
class Group:
    """Spans of one instrumentation in one process, not yet looked at.

    Attributes:
        spans: As written.
        scope: Instrumentation.
        resource: Attributes of the process.
    """

    spans: list[Any]
    scope: str | None = None
    resource: Mapping[str, Any] = field(default_factory=dict)


def groups_of(value: Any) -> Iterator[Group]:
    """Yield the spans in one JSON value: an OTLP export, a Jaeger export, or a span by itself.

    Raises:
        BadRecordError: It holds no spans in any known form.
    """
    if not isinstance(value, dict):
        raise wrong_type("the record", value, "an object")
    if "resourceSpans" in value:
        for part in objects_of(value, "resourceSpans"):
            resource = attributes_of(part.get("resource") or {})
            name = "scopeSpans" if "scopeSpans" in part else "instrumentationLibrarySpans"
            for scoped in objects_of(part, name):
                scope = scoped.get("scope") or scoped.get("instrumentationLibrary") or {}
                told = scope.get("name") if isinstance(scope, dict) else None
                named = told if isinstance(told, str) and told else None
                yield Group(list(objects_of(scoped, "spans")), named, resource)
    elif isinstance(value.get("data"), list):
        for trace in objects_of(value, "data"):
            processes = trace.get("processes") or {}
            for span in objects_of(trace, "spans"):
                yield Group([span], None, _process(processes, span.get("processID")))
    else:
        yield Group([value])


def is_span(value: Any) -> bool:
    """Return whether a JSON value is a span by itself, in any form but inside an export."""
    if not isinstance(value, dict):
        return False
    held = value.get("attributes")
    if isinstance(held, (dict, list)):
        return "name" in value
    return isinstance(value.get("tags"), (dict, list)) or any(name.startswith(_ATTRIBUTES) for name in value)


def is_export(value: Any) -> bool:
    """Return whether a JSON value is an export with spans, logs or metrics inside."""
    return isinstance(value, dict) and any(
        f"resource{kind}" in value for kind in ("Spans", "Logs", "Metrics")
    )


def span_of(value: Any, group: Group) -> Span:
    """Read one span.

    Raises:
        BadRecordError: It is no object, or has a time that cannot be one.
    """
    if not isinstance(value, dict):
        raise wrong_type("a span", value, "an object")
    context = value.get("context") if isinstance(value.get("context"), dict) else value
    attributes = attributes_of(value)
    start = _time(value, "startTimeUnixNano", "start_time", "startTime", "timestamp")
    end = _time(value, "endTimeUnixNano", "end_time", "endTime")
    took = value.get("duration")
    if (
        end is None
        and start is not None
        and isinstance(took, (int, float))
        and not isinstance(took, bool)
        and took >= 0
    ):
        end = start + round(took)  # Jaeger and Zipkin: microseconds
    trace = _name(context, "traceId", "trace_id", "traceID", "context.trace_id") or ""
    parent = _name(value, "parentSpanId", "parent_id", "parentId", "parent_span_id") or _reference(value)
    own = _name(context, "spanId", "span_id", "spanID", "id", "context.span_id")
    return Span(
        attributes=attributes,
        name=_name(value, "name", "operationName") or "",
        key=None if own is None else f"{trace}:{own}",
        parent=None if parent is None else f"{trace}:{parent}",
        start_us=start,
        end_us=end,
        failed=_failed(value, attributes),
        events=tuple(_events(value)),
        scope=_scope(value) or group.scope,
        resource=group.resource or attributes_of(value.get("resource") or {}),
    )


def objects_of(record: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a list.

    Raises:
        BadRecordError: It is no list of objects.
    """
    items = record.get(name)
    if not isinstance(items, list):
        raise wrong_type(name, items, "a list")
    for item in items:
        if not isinstance(item, dict):
            raise wrong_type(f"an item of {name}", item, "an object")
        yield item


def attributes_of(record: Any) -> dict[str, Any]:
    """Return attributes by name: OTLP key-value pairs, an object, Jaeger tags, or flat columns ``attributes.…``."""
    if not isinstance(record, dict):
        return {}
    held = decoded(record.get("attributes", record.get("tags")))
    if isinstance(held, list):
        pairs = (item for item in held if isinstance(item, dict) and isinstance(item.get("key"), str))
        return {item["key"]: _plain(item.get("value")) for item in pairs}
    if isinstance(held, dict):
        return dict(_flat(held, ""))
    if any(name.startswith(_ATTRIBUTES) for name in record):
        flat = ((name[len(_ATTRIBUTES) :], v) for name, v in record.items() if name.startswith(_ATTRIBUTES))
        return {name: value for name, value in flat if value is not None}
    return {}


def _plain(value: Any) -> Any:
    """Return the value inside an OTLP value; proto3 JSON writes integers as text."""
    if not isinstance(value, dict):
        return value
    if "intValue" in value:
        held = value["intValue"]
        number = integer(held) if isinstance(held, str) else None
        return held if number is None else number
    for name in ("stringValue", "doubleValue", "boolValue", "bytesValue"):
        if name in value:
            return value[name]
    if "arrayValue" in value:
        return [_plain(item) for item in (value["arrayValue"] or {}).get("values", [])]
    if "kvlistValue" in value:
        return {
            item.get("key"): _plain(item.get("value"))
            for item in (value["kvlistValue"] or {}).get("values", [])
        }
    return value


def _flat(held: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    """Yield dotted names; objects inside are opened, as some exporters nest ``{"llm": {"token_count": …}}``."""
    for name, value in held.items():
        if isinstance(value, dict) and value:
            yield f"{before}{name}", value
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _process(processes: Any, name: Any) -> dict[str, Any]:
    process = processes.get(name) if isinstance(processes, dict) and isinstance(name, str) else None
    if not isinstance(process, dict):
        return {}
    return {"service.name": process.get("serviceName"), **attributes_of(process)}


def _time(record: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = record.get(name)
        if value not in (None, "", 0, "0"):
            return stamp_us(value, name)[0]
    return None


def _name(record: Any, *names: str) -> str | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _reference(span: Mapping[str, Any]) -> str | None:
    """Return the parent that a Jaeger span refers to."""
    references = span.get("references")
    for item in references if isinstance(references, list) else ():
        if isinstance(item, dict) and item.get("refType") == "CHILD_OF":
            return _name(item, "spanID")
    return None


def _scope(span: Mapping[str, Any]) -> str | None:
    for name in ("scope", "instrumentation_scope", "instrumentationScope"):
        scope = span.get(name)
        if isinstance(scope, dict) and isinstance(scope.get("name"), str):
            return str(scope["name"]) or None
    return None


def _failed(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    status = span.get("status")
    code = span.get("status_code")
    if isinstance(status, dict):
        code = status.get("code", status.get("status_code"))
    return str(code) in _ERRORS or str(attributes.get("error", "")).lower() not in _NO_ERROR


def _events(span: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], int | None]]:
    held = decoded(span.get("events"))
    for event in held if isinstance(held, list) else ():
        if isinstance(event, dict):
            try:
                at_us = _time(event, "timeUnixNano", "timestamp", "time")
            except BadRecordError:
                at_us = None
            yield str(event.get("name", "")), attributes_of(event), at_us
