"""vLLM server logs: requests with the token ids of their prompts, among everything else a server says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.bypass import is_bypassed_text
from prefixledger.ingest.engine_lines import engine_fact
from prefixledger.ingest.prompts import text_parts
from prefixledger.ingest.pyrepr import may_have_length, numbers, string_span, unquoted
from prefixledger.ingest.reader import FormatInfo
from prefixledger.ingest.records import BadRecordError, Reject, Row, Skip
from prefixledger.ingest.status import status_of
from prefixledger.ingest.text_lines import nominal_us, plain_line

if TYPE_CHECKING:
    from prefixledger.ingest.reader import Context, Head
    from prefixledger.ingest.records import Outcome

_LINE: Final = re.compile(
    r"(?:.*?\s)??(?:\((?P<proc>[\w.-]+) pid=(?P<pid>\d+)\) )?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?P<at>\d\d-\d\d \d\d:\d\d:\d\d) \[?(?P<src>[\w./-]+:\d+)\] (?P<text>.*)",
    re.DOTALL,
)
_HEAD_LINE: Final = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+\.py:\d+\] "
)
_RECEIVED: Final = re.compile(r"Received request (?P<id>\S+): ")
_DETAILS: Final = re.compile(r"Request (?P<id>\S+) details: ")
_GENERATED: Final = re.compile(
    r"Generated response (?P<id>\S+?)(?P<part> \(streaming (?:delta|complete)\))?(?P<details> details)?: "
)
_IDS: Final = re.compile(r"prompt[_ ]token[_ ]ids: (?P<ids>\[[^\]]*\]|None)")
_OUTPUT_IDS: Final = re.compile(r"output_token_ids: (?P<ids>\[[^\]]*\])")
_REASON: Final = re.compile(r"finish_reason: (?P<reason>\w+)")
_LORA: Final = re.compile(r"lora_request: LoRARequest\(.*?lora_name='(?P<name>[^']+)'")
_MODEL: Final = re.compile(r"(?:'(?:model|model_tag)': |\bmodel=)'(?P<model>[^']+)'")
_SERVED: Final = re.compile(
    r"'served_model_name': \[?'(?P<name>[^']+)'|served_model_name='?(?P<other>[^',\s]+)"
)
_SHORTEST_CUT: Final = 16
"""Below this a prompt may by chance have as many characters as tokens."""
_UNNAMED: Final = frozenset({"None", "none"})


class VLLMTextReader:
    """A request is told of in one to three lines with one id; starts of the server and its cache size are kept, too."""

    info = FormatInfo(
        name="vllm-text",
        title="vLLM server log with logged requests",
        shape="text",
        keys="token ids",
        clock="absolute",
        id_scope="global",
        provider="vllm",
        answers=(
            "hits and misses of any simulated cache",
            "adapters",
            "the cache size that the engine printed, and its starts",
        ),
        lacks=(
            "observed hits and latency: no usage is logged",
            "prompts, unless VLLM_LOGGING_LEVEL=DEBUG (by default before 0.10)",
            "year and zone of its times, and the order within a second beyond that of the lines",
            "replicas, but for the file name",
        ),
        fields=frozenset({"Received", "request", "details", "prompt", "params", "prompt_token_ids", "lora_request",
                          "Generated", "response", "INFO", "DEBUG", "pid", "output_token_ids", "finish_reason"}),
        sample="vllm_text.log",
    )  # fmt: skip

    def recognise(self, head: Head) -> str | None:
        """Take text with vLLM's line prefix; the first 50 lines are often about the start alone."""
        if head.document and head.values:
            return None
        lines = [line for line in head.text.split(b"\n")[:200] if line.strip()]
        fit = sum(1 for line in lines if _HEAD_LINE.search(line))
        if fit == 0 or 5 * fit < len(lines):
            return None
        return f"{fit} of the first {len(lines)} lines begin like INFO 11-29 10:00:00 [logger.py:49]"

    def read(self, value: Any, context: Context) -> Outcome:  # noqa: ARG002
        """Turn a line about a request into a piece of a row."""
        held = plain_line(value)
        if held.partial:
            return Reject("cut line: the container runtime split it, and its rest stands in the next line")
        match = _LINE.match(held.text)
        if match is None:
            return Skip("line without a time: a banner, a traceback, an access log")
        text = match["text"]
        for pattern, read in ((_RECEIVED, _received), (_DETAILS, _details), (_GENERATED, _generated)):
            told = pattern.match(text)
            if told is not None:
                return read(text, told, _row(told["id"], match["at"]))
        return _other(text, match)


def _row(request_id: str, at: str) -> Row:
    return Row(
        started_us=nominal_us(at),
        prompt_tokens=None,
        request_id=request_id,
        provider="vllm",
        join=request_id,
        part="piece",
        local_clock=True,
        yearless=True,
    )


def _received(text: str, told: re.Match[str], row: Row) -> Outcome:
    """Read ``Received request ID: prompt: …, params: …, prompt_token_ids: […], lora_request: …``; later ones lack the prompt."""
    end = _set_prompt(row, text, told.end())
    lora = _LORA.search(text, end)
    row.adapter = lora["name"] if lora else None
    quoted = string_span(text, told.end() + len("prompt: "))
    row.bypassed = is_bypassed_text(text[told.end() if quoted is None else quoted[1] :])
    return row


def _details(text: str, told: re.Match[str], row: Row) -> Outcome:
    """Read ``Request ID details: prompt: …, prompt_token_ids: […], …``."""
    _set_prompt(row, text, told.end())
    return row


def _set_prompt(row: Row, text: str, start: int) -> int:
    """Put a prompt on a row and return where the line goes on behind its text.

    The text comes first and may hold anything, a list of token ids too, so it is stepped over before those are sought.

    Raises:
        BadRecordError: The line ends within it.
    """
    quoted, end = None, start
    if text.startswith("prompt: ", start):
        begin = start + len("prompt: ")
        if text[begin : begin + 1] in ("'", '"'):
            span = string_span(text, begin)
            if span is None:
                raise BadRecordError("cut line: the prompt has no end")
            quoted, end = text[span[0] : span[1]], span[1]
    match = _IDS.search(text, end)
    if match is None or match["ids"] == "None":
        if quoted is not None:
            row.text_parts = text_parts({"prompt": unquoted(quoted) or ""}) or None
        return end
    ids = numbers(match["ids"])
    if ids is None:
        raise BadRecordError("wrong type: prompt_token_ids is no list of numbers")
    row.token_ids, row.prompt_tokens = ids, len(ids)
    row.prompt_complete = not _is_cut(quoted, len(ids))
    return match.end()


def _is_cut(quoted: str | None, n_ids: int) -> bool:
    """Return whether ``--max-log-len`` cut both prompt and ids, which then have the same length."""
    if quoted is None or n_ids < _SHORTEST_CUT or not may_have_length(quoted, n_ids):
        return False
    return len(unquoted(quoted) or "") == n_ids


def _generated(text: str, told: re.Match[str], row: Row) -> Outcome:
    """Read ``Generated response ID: output: …, finish_reason: …`` and ``… details: output_token_ids: […]``."""
    if told["part"] is not None and "delta" in told["part"]:
        return Skip("part of a streamed answer")
    row.finished_us, row.rough_start = row.started_us, True
    ids = _OUTPUT_IDS.search(text, told.end()) if told["details"] else None
    row.output_tokens = len(numbers(ids["ids"]) or []) if ids else None
    span = (
        string_span(text, told.end() + len("output: ")) if text.startswith("output: ", told.end()) else None
    )
    reason = _REASON.search(text, span[1] if span else told.end())
    if reason is not None and reason["reason"] not in _UNNAMED:
        row.status = status_of(reason["reason"])
    return row


def _other(text: str, match: re.Match[str]) -> Skip:
    """Keep what a line says of the engine: its start, its model, the size of its cache."""
    fact = engine_fact(match.string)
    carry: dict[str, str] = {}
    named, served = _MODEL.search(text), _SERVED.search(text)
    if named is not None or served is not None:
        name = (served["name"] or served["other"]) if served is not None else None
        if name is None or name in _UNNAMED:
            name = named["model"] if named is not None else None
        carry = {} if name is None else {"model": name}
    if fact is None:
        return Skip("line that is no request", carry=carry)
    return Skip(
        "line that is no request", at_us=nominal_us(match["at"]), carry=carry, fact=fact, yearless=True
    )
