"""SGLang request logs in text form: the ``repr`` of what was received and of what finished."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.bypass import is_bypassed
from prefixledger.ingest.engine_lines import engine_fact
from prefixledger.ingest.fields import maybe_count, maybe_text
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.pyrepr import balanced_end, keywords, literal, numbers, string_span, unquoted
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.readers.engine_log import engine_skip
from prefixledger.ingest.readers.sglang_exporter import set_engine_times
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.text_lines import plain_line
from prefixledger.ingest.times import iso_us, span_us
from prefixledger.ingest.usage import apply_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_CALL: Final = re.compile(r"(?P<event>Receive|Finish): obj=(?P<name>\w+)\(")
_AT: Final = re.compile(r"\[?(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)[^\]]{0,40}\]?\s")
_CUT: Final = " ... "
_OUT: Final = re.compile(r",? ?out=")
_META: Final = re.compile(r"'meta_info': \{")
_EVENT: Final = re.compile(rb"(?:Receive|Finish): obj=\w+\(")
_LIST: Final = re.compile(r"\[[^\]]*\]")
_LOGPROBS: Final = ("return_logprob", "logprob_start_len")


class SGLangTextReader:
    """Two lines a request, either of which is one by itself; the other lines of a server are skipped."""

    info = FormatInfo(
        name="sglang-text",
        title="SGLang request log, text, level 3",
        shape="text",
        keys="token ids",
        clock="absolute",
        id_scope="global",
        provider="sglang",
        answers=("hits and misses of any simulated cache", "observed hits", "adapters"),
        lacks=(
            "times before 0.5.23, unless metrics or a container runtime write them",
            "the zone of local times",
            "the page size of the engine",
            "prompts of level 2 past 1,024 tokens",
        ),
        fields=frozenset({"Receive", "Finish", "obj", "out", "rid", "text", "input_ids", "meta_info", "prompt_tokens",
                          "cached_tokens", "completion_tokens", "GenerateReqInput"}),
        sample="sglang_text.log",
    )  # fmt: skip

    def recognise(self, head: Head) -> str | None:
        """Take text with a request that was received or finished."""
        found = len(_EVENT.findall(head.text))
        if found == 0 or (head.values and not head.text.startswith(b'{"log":')):
            return None
        return f"{found} of its first lines say Receive: obj= or Finish: obj="

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn a line about a request into half a row."""
        held = plain_line(value)
        if held.partial:
            return Reject("cut line: the container runtime split it, and its rest stands in the next line")
        match = _CALL.search(held.text)
        if match is None:
            fact = engine_fact(held.text)
            if fact is not None:
                return engine_skip(held.text, held.at_us, fact, "line that is no request")
            return Skip("line that is no request")
        fields, end = keywords(held.text, match.end() - 1)
        rid = unquoted(fields.get("rid", ""))
        if not rid:
            raise BadRecordError("missing field: rid")
        if "HEALTH_CHECK" in rid:
            return Skip("health check")
        row = _row(rid, fields)
        logged = _AT.match(held.text)
        meta = _meta(held.text, end) if match["event"] == "Finish" else {}
        if match["event"] == "Finish":
            _set_answer(row, meta)
        _set_times(row, meta, None if logged is None else logged["at"], held.at_us)
        return row


def _row(rid: str, fields: Mapping[str, str]) -> Row:
    row = Row(started_us=0, prompt_tokens=None, request_id=rid, provider="sglang", join=rid, part="request")
    row.adapter, row.cache_salt = (unquoted(fields.get(name, "")) for name in ("lora_path", "extra_key"))
    row.session_id = unquoted(fields.get("conversation_id", "")) or unquoted(fields.get("routing_key", ""))
    rank = fields.get("routed_dp_rank", fields.get("data_parallel_rank", ""))
    row.replica = f"dp{rank}" if rank.isdecimal() else None
    row.bypassed = is_bypassed({name: literal(fields.get(name, "None")) for name in _LOGPROBS})
    listed = fields.get("input_ids", "None")
    match = _LIST.match(listed)
    if match is not None and fields.get("image_data", "None") == "None":
        row.token_ids = numbers(match[0])
        row.prompt_complete = _CUT not in listed[match.end() :] and row.token_ids is not None
        if row.token_ids is None:
            raise BadRecordError("wrong type: input_ids is no list of numbers")
        if row.prompt_complete:
            row.prompt_tokens = len(row.token_ids)
    elif match is None:
        _set_text(row, fields.get("text", "None"))
    return row


def _set_text(row: Row, written: str) -> None:
    span = string_span(written, 0)
    text = unquoted(written[span[0] : span[1]]) if span is not None else None
    if text:
        row.text_parts = text_parts({"prompt": text})
        row.prompt_complete = span is not None and span[1] == len(written)


def _meta(text: str, start: int) -> dict[str, Any]:
    """Return ``meta_info`` of the answer.

    Raises:
        BadRecordError: The line ends within it.
    """
    out = _OUT.match(text, start)
    match = _META.search(text, out.end() if out else start)
    if match is None:
        return {}
    end = balanced_end(text, match.end() - 1)
    if end < 0:
        raise BadRecordError("cut line: meta_info has no end")
    meta = literal(text[match.end() - 1 : end])
    return meta if isinstance(meta, dict) else {}


def _set_answer(row: Row, meta: Mapping[str, Any]) -> None:
    row.part = "answer"
    length = row.prompt_tokens
    apply_usage(row, meta, "sglang")
    if row.prompt_tokens is None:
        row.prompt_tokens = length
    reason = meta.get("finish_reason")
    row.status = status_of(
        reason.get("type") if isinstance(reason, dict) else reason, produced=bool(row.output_tokens)
    )
    rank = maybe_count(meta, "dp_rank")
    row.replica = row.replica if rank is None else f"dp{rank}"
    row.model = maybe_text(meta, "model")


def _set_times(row: Row, meta: Mapping[str, Any], logged: str | None, taken_us: int | None) -> None:
    """Set the start: the engine's own unix times, else the time of the line, its own or that of the runtime.

    Raises:
        BadRecordError: The line has no time at all.
    """
    if meta.get("request_received_ts") is not None or meta.get("request_finished_ts") is not None:
        set_engine_times(row, meta)
        return
    if taken_us is not None:
        at_us, known = taken_us, True
    elif logged is not None:
        at_us, known = iso_us(logged.replace(",", "."), "the time of the line")
    else:
        raise BadRecordError("missing field: a time; 0.5.10 writes none, --log-requests-format json does")
    took = meta.get("e2e_latency")
    row.started_us, row.local_clock = at_us, not known
    if row.part == "answer":
        row.started_us = at_us - (0 if took is None else span_us(took, "s", "e2e_latency"))
        row.finished_us, row.rough_start = at_us, True
