"""What a reader makes of one record: a row, a reject or a skip."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prefixledger.ingest.kv_parse import KVRow
    from prefixledger.ingest.readers.prometheus import SeriesRow

UsageState = Literal["absent", "null", "present"]
Status = Literal["ok", "failed", "cut"]
Part = Literal["whole", "request", "answer", "piece"]


class BadRecordError(Exception):
    """A record cannot be used; the text is its reason: a short name, then ``: `` and the value or field at fault."""


UNFORESEEN = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, RecursionError)
"""What reading a record of a shape that nobody foresaw may raise in place of it."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that cannot be used.

    Attributes:
        reason: Short name of the reason, then ``: `` and the value or field at fault.
        value: The part of the record at fault, where a record holds several requests.
    """

    reason: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Skip:
    """A record that is no request: a health check, a tool event, a repeated header.

    It may still tell something of the requests around it.

    Attributes:
        reason: What it is; counted by this text, so it names no value.
        mark: Name by which a row may refer to this record, see ``Row.after``.
        at_us: Time of the record.
        carry: Values for the rows that follow in the input and lack them, until another record says otherwise; an
            empty mapping says nothing. ``anchor`` comes before the request id of such rows and makes it unique.
        fact: What it says of the engine itself: a start, the size of its cache; kept in the manifest.
        span: Its own id in a tree of calls.
        parent_span: The id above it.
        yearless: True where ``at_us`` lies in ``years.NOMINAL_YEAR``, because the log writes no year.
        local_clock: True where ``at_us`` is local time, without a zone; what has no year always is.
        kv: Blocks that it says were stored or removed.
        series: Samples of a counter that it holds.
    """

    reason: str
    mark: str | None = None
    at_us: int | None = None
    carry: Mapping[str, Any] = field(default_factory=dict)
    fact: Mapping[str, Any] | None = None
    span: str | None = None
    parent_span: str | None = None
    yearless: bool = False
    local_clock: bool = False
    kv: tuple[KVRow, ...] = ()
    series: tuple[SeriesRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """An image, or another item that is not text, in a prompt.

    Attributes:
        key: What tells it from others (a hash).
        first_token: 0-based position of its first placeholder token.
        n_tokens: Placeholder tokens.
    """

    key: str
    first_token: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a prompt given as text; parts stand in prompt order: tools, system, messages.

    Attributes:
        kind: What it is; a prompt that is one text is one message without a role.
        role: Who speaks, as sent; None for tools and for a prompt that is one text.
        text: Its content as sent, UTF-8, key order of JSON included, without what is no content: ``cache_control``,
            ``prompt_cache_breakpoint``, signatures, ids of messages, metadata of the request.
        canonical: The same with what two senders write differently made equal (sorted keys and tools); None if equal.
        breakpoint: Cache mark behind it, as sent and short (``ephemeral/1h``); None where there is none. ``server_tool/5m``
            is one that the service sets itself, ``off`` says that it is to set none at the end of the prompt.
        content_blocks: Tools or content blocks in it; the look-back of a cache counts these.
        n_tokens: Its length where the log says it; the ids of such a row are logged beside its parts.
        fingerprint: Whether ``text`` is no text but a name that the log gives it.
        goes_on: Whether it is a content block of the same message as the part before it.
    """

    kind: Literal["tools", "system", "message"]
    role: str | None
    text: bytes
    canonical: bytes | None = None
    breakpoint: str | None = None
    content_blocks: int = 1
    n_tokens: int | None = None
    fingerprint: bool = False
    goes_on: bool = False


class Convention(NamedTuple):
    """What a row says of how its prompt count relates to cached tokens; the rows of a source settle it together.

    Attributes:
        dialect: How its usage is spelt.
        rule: ``inclusive`` where the dialect's prompt count has cached tokens in it, else ``exclusive``.
        flags: Evidence, see ``usage``.
        prompt: The prompt count as logged.
        read: Tokens read from cache.
        parts: Tokens read and written: what is added to the prompt count if it leaves them out.
    """

    dialect: str
    rule: Literal["inclusive", "exclusive"]
    flags: int
    prompt: int
    read: int
    parts: int


@dataclass(slots=True)
class Row:
    """One request as one record tells it; a request logged in several parts is several rows with the same ``join``.

    A ``request`` and an ``answer`` pair up, first with first; what the answer says is stronger. Any number of ``piece``
    rows become one: the earliest start, the largest count, and of everything else what was said last.

    Absent values are None. Times are microseconds since 1970, or since the zero of a relative clock.

    Attributes:
        started_us: Arrival at the service.
        prompt_tokens: Tokens the model had to see; may be None in one part of a request logged in two.
        request_id: Id as logged.
        block_ids: Hashed block ids, u64, of the full blocks and perhaps the trailing partial one.
        block_size: Tokens a block, where the record itself says so.
        token_ids: Ids of the prompt, in place of ``block_ids``; at least as many as ``prompt_tokens`` unless
            ``prompt_complete`` is false.
        text_parts: The prompt as text; where it has ``block_ids`` or ``token_ids``, too, those make its keys.
        bypassed: True where it told the engine not to read its cache; None where the record does not say.
        images: Items that tell blocks of equal token ids apart.
        scope: ``file`` or ``global`` where the record says over what its block ids are unique.
        space: Narrower scope of its block ids inside the file: the conversation that numbered them.
        timeline: Conversation with a clock of its own; conversations are placed 30 s apart in order of this name.
        parent: Id of the request before it in the conversation; the first of the chain names the session.
        join: What all parts of a request have in common.
        part: Which part this is.
        rough_start: True where ``started_us`` is derived; the other part's is better.
        local_clock: True where its times were written in the local time of the machine, without a zone.
        zone_hint_us: Local time less UTC of the same moment, where the record has both.
        cache_write_other_tokens: Tokens written with another TTL, or one that is not known.
        usage_state: What the record says of cached tokens.
        router_expected_tokens: Tokens that the router took to be cached where it sent the request.
        convention: What it says of the meaning of ``prompt_tokens``, where that is not certain by itself.
        untimed: True where the record has no time: it is put where the timed row before it stands, and its other
            times count from there.
        retry_id: Id of the logical request, where ``request_id`` names one answer to it: attempts without an answer
            of their own are the same request.
        after: Mark of the record whose time is the start of this request, where this one only knows its end.
        mark: Name by which a later row may refer to the end of this one.
        span: Its own id in a tree of calls; of calls inside each other the innermost is the request.
        parent_span: The id above it.
        recorder: Which of several integrations wrote it; the same call from two of them is one request.
        yearless: True where its times lie in ``years.NOMINAL_YEAR``, because the log writes no year.
        extras: Other scalar fields of the envelope: candidates for ``labels``.
    """

    started_us: int
    prompt_tokens: int | None
    request_id: str | None = None
    admitted_us: int | None = None
    first_token_us: int | None = None
    finished_us: int | None = None
    provider: str | None = None
    model: str | None = None
    release: str | None = None
    client: str | None = None
    tenant: str | None = None
    session_id: str | None = None
    replica: str | None = None
    adapter: str | None = None
    cache_salt: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    namespace: str | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_write_other_tokens: int | None = None
    usage_state: UsageState = "absent"
    router_expected_tokens: int | None = None
    weight: float = 1.0
    prompt_complete: bool = True
    bypassed: bool | None = None
    status: Status = "ok"
    block_ids: Sequence[int] | None = None
    block_size: int | None = None
    token_ids: Sequence[int] | None = None
    text_parts: Sequence[TextPart] | None = None
    images: tuple[Image, ...] = ()
    scope: str | None = None
    space: str | None = None
    timeline: str | None = None
    parent: str | None = None
    join: str | None = None
    part: Part = "whole"
    rough_start: bool = False
    local_clock: bool = False
    zone_hint_us: int | None = None
    convention: Convention | None = None
    untimed: bool = False
    retry_id: str | None = None
    after: str | None = None
    mark: str | None = None
    span: str | None = None
    parent_span: str | None = None
    recorder: str | None = None
    yearless: bool = False
    extras: Mapping[str, Any] = field(default_factory=dict)


Outcome = Row | Reject | Skip
