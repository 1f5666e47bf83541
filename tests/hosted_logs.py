"""Small hosted logs, their replay and what becomes of them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from prefixledger import attribute
from prefixledger.config.scenario import Cache, Pool, Scenario, default_scenario
from prefixledger.config.units import datetime_us
from prefixledger.replay import run
from prefixledger.schema_contents import PARTS
from prefixledger.workspace import write_table
from stage_support import MINUTE, write_workspace

if TYPE_CHECKING:
    from pathlib import Path
BLOCK = 128
START_US = datetime_us(datetime(2026, 11, 24, tzinfo=UTC))
HOUR = 60 * MINUTE
SONNET = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
}  # 3 a million, w 1.25 and 2, r 0.1, from 1,024 tokens
OPUS = {"provider": "anthropic", "model": "claude-opus-4-7"}  # 5 a million, from 2,048 tokens
HAIKU = {
    "provider": "anthropic",
    "model": "claude-haiku-5-5",
}  # 0.1 a million up to 100,000 tokens, 0.5 above
SONNET_5_5 = {
    "provider": "anthropic",
    "model": "claude-sonnet-5-5",
}  # 2 a million, r 0.1, since 7 October 0.05
SOL = {"provider": "openai", "model": "gpt-6.1-sol"}  # 2 a million, w 1.25 and 2.5, r 0.05
GPT_4O = {"provider": "openai", "model": "gpt-4o"}  # 2.5 a million, r 0.5, writes are free
GPT_5_5 = {"provider": "openai", "model": "gpt-5.5"}  # 5 a million, r 0.1, writes are free
NOVA = {"provider": "bedrock", "model": "amazon.nova-pro-v1:0"}  # 0.8 a million, r 0.25, writes are free
FLASH = {"provider": "deepseek", "model": "deepseek-flash"}  # 0.15 a million off peak, r 0.02
GEMINI = {
    "provider": "gemini",
    "model": "gemini-3.8-flash",
}  # 0.75 a million in 2026, r 0.1, from 4,096 tokens
PRO = {"provider": "gemini", "model": "gemini-2.5-pro"}  # 1.25 a million, r 0.1, from 2,048 tokens
KIMI = {"provider": "moonshot", "model": "kimi-k3"}  # 3 a million, w 1 and 2, r 0.1
PLAIN = tuple(range(10))  # 1,280 tokens in full blocks, and 20 behind them unless a row says otherwise
TAILS = {"uncacheable:partial_block": 40}
TWICE = {"cold:new_content": 1280, **TAILS}


def ask(at_us: int, ids: tuple[int, ...] = PLAIN, tail: int = 20, **columns: Any) -> dict[str, Any]:
    """Return a row of a log: so many blocks, and a tail behind them; its other times count from the start."""
    start_us = columns.pop("start_us", START_US)
    for name in ("first_token_at", "finished_at"):
        if name in columns:
            columns[name] += start_us
    return {
        "at_us": start_us + at_us,
        "ids": list(ids),
        "block_size": BLOCK,
        "prompt_tokens": BLOCK * len(ids) + tail,
        # Without a first token an entry could be read after 65 ms.
        **SONNET,
        **columns,
    }


def replayed(
    root: Path, rows: list[dict[str, Any]], cache: dict[str, Any] | None, parts: Any = (), pricing: Any = None
) -> Any:
    """Return bills, tokens by cause and detail, and written tokens of each request."""
    scenario = default_scenario()
    if cache is not None:
        pool = Pool(cache=Cache(**{"profile": "anthropic", **cache}), pricing=pricing)
        scenario = Scenario(pool=(pool,))
    workspace = write_workspace(root, rows)
    if parts:
        write_table(workspace.parts / "s.parquet", pa.Table.from_pylist(parts, schema=PARTS.arrow()))
    summary = run(workspace, scenario)
    attribute.run(workspace, scenario.name)
    first, last = rows[0]["at_us"], rows[-1]["at_us"]
    marts = attribute.marts(workspace, scenario.name, attribute.Window(first, last + 1))
    causes: Counter[str] = Counter()
    folder = workspace.replay(scenario.name)
    for miss in pq.read_table(folder / "misses.parquet", columns=["cause", "detail", "tokens"]).to_pylist():
        causes[named(miss)] += miss["tokens"]
    lookups = pq.read_table(folder / "lookups.parquet")
    return marts.bills, dict(causes), lookups.to_pylist(), summary


def named(miss: dict[str, Any]) -> str:
    """Return cause and detail of a miss, whether the warm-up was over or not."""
    cause = miss["cause"] if miss["detail"] is None else f"{miss['cause']}:{miss['detail']}"
    return cause.replace("window_start", "new_content")


def parts_of(
    line: int, ends: list[int], marked: set[int] | dict[int, str], content_blocks: int = 1
) -> list[dict[str, Any]]:
    """Return parts of one block or more each; ``ends`` are in blocks, ``marked`` are parts, with the words of their marks."""
    words = marked if isinstance(marked, dict) else dict.fromkeys(marked, "ephemeral")
    return [
        {
            "source": "s",
            "source_line": line,
            "part": number,
            "kind": "message",
            "raw_hash": bytes(16),
            "canonical_hash": bytes(16),
            "n_bytes": 1,
            "first_token": BLOCK * begin,
            "n_tokens": BLOCK * (end - begin),
            "breakpoint": words.get(number),
            "content_blocks": content_blocks,
            "goes_on": False,
        }
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]
