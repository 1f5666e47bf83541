"""What a line of an engine's log, or of its metrics, says of the engine: the size of its cache, and that it started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_OVERRIDE: Final = re.compile(r"num_gpu_blocks_override=(?P<blocks>\d{1,15})")
_BLOCKS: Final = re.compile(
    r"# GPU blocks: (?P<blocks>[\d,]{1,20})|\bnum_gpu_blocks(?: is)?[:=] ?(?P<named>\d{1,15})"
)
_TOKENS: Final = re.compile(r"GPU KV cache size: (?P<tokens>[\d,]{1,20}) tokens")
_BLOCK_SIZE: Final = re.compile(
    r"Setting attention block size to (?P<size>\d{1,15}) tokens|'block_size': (?P<named>\d{1,15})"
)
_VLLM_START: Final = re.compile(
    r"vLLM API server version (?P<version>\S+)|Initializing (?:a V\d )?LLM engine \(v(?P<engine>[^)]+)\)"
)
_VLLM_METRIC: Final = re.compile(r"vllm:cache_config_info\{(?P<labels>.*)\}")
_DIGITS: Final = re.compile(r"\d{1,15}")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_SGLANG_SLOTS: Final = re.compile(r"\bmax_total_num_tokens=(?P<slots>\d{1,15})")
_SGLANG_METRIC: Final = re.compile(
    r"sglang:max_total_num_tokens(?:\{(?P<labels>.*)\})? (?P<slots>\d{1,15}(?:\.\d{0,15})?(?:e\+?\d\d?)?)"
)
_SGLANG_START: Final = re.compile(r"\bserver_args=ServerArgs\(")
_PAGE_SIZE: Final = re.compile(r"\bpage_size=(?P<size>\d{1,15})")
_RANK: Final = re.compile(r"\((?P<proc>[\w.-]+) pid=\d+\)|\b(?P<rank>DP\d+)\b")


def engine_fact(text: str) -> dict[str, Any] | None:
    """Return what a line says, or None where it says nothing of the engine.

    Args:
        text: The line, without colours and what a container runtime puts around it.

    Returns:
        ``kind`` is ``capacity``, ``start`` or ``block_size``. A capacity has ``blocks`` or ``tokens`` (vLLM: all of them,
        the one that it keeps for itself included) or ``slots`` (SGLang: tokens, all usable), and ``block_size`` where the
        same line says it; ``process`` is the data-parallel rank or process that wrote it.
    """
    for read in (_vllm_metric, _sglang, _vllm):
        fact = read(text)
        if fact is not None:
            process = _RANK.search(text)
            if process is not None and "process" not in fact:
                fact["process"] = process["proc"] or process["rank"]
            return fact
    return None


def _vllm_metric(text: str) -> dict[str, Any] | None:
    match = _VLLM_METRIC.search(text)
    if match is None:
        return None
    labels = dict(_LABEL.findall(match["labels"]))
    if not _DIGITS.fullmatch(labels.get("num_gpu_blocks", "")):
        return None  # "None" while the engine is still measuring
    fact: dict[str, Any] = {"kind": "capacity", "engine": "vllm", "blocks": int(labels["num_gpu_blocks"])}
    if _DIGITS.fullmatch(labels.get("block_size", "")):
        fact["block_size"] = int(labels["block_size"])
    if "engine" in labels:
        fact["process"] = f"engine {labels['engine']}"
    return fact


def _sglang(text: str) -> dict[str, Any] | None:
    start, slots, metric = (p.search(text) for p in (_SGLANG_START, _SGLANG_SLOTS, _SGLANG_METRIC))
    if start is not None:
        size = _PAGE_SIZE.search(text)
        return {"kind": "start", "engine": "sglang"} | (
            {} if size is None else {"block_size": int(size["size"])}
        )
    if slots is not None:
        return {"kind": "capacity", "engine": "sglang", "slots": int(slots["slots"])}
    if metric is None:
        return None
    rank = dict(_LABEL.findall(metric["labels"] or "")).get("dp_rank")
    fact = {"kind": "capacity", "engine": "sglang", "slots": int(float(metric["slots"]))}
    return fact if rank is None else {**fact, "process": f"DP{rank}"}


def _vllm(text: str) -> dict[str, Any] | None:
    readers: tuple[tuple[re.Pattern[str], str, Callable[[str], Any]], ...] = (
        (_TOKENS, "tokens", _number),
        (_OVERRIDE, "blocks", _number),  # the line names the measured number too, which no longer holds
        (_BLOCKS, "blocks", _number),
        (_VLLM_START, "version", str),
        (_BLOCK_SIZE, "tokens", _number),
    )
    for pattern, name, of in readers:
        match = pattern.search(text)
        if match is None:
            continue
        value = of(next(part for part in match.groups() if part is not None))
        kind = {_VLLM_START: "start", _BLOCK_SIZE: "block_size"}.get(pattern, "capacity")
        return {"kind": kind, "engine": "vllm", name: value}
    return None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
