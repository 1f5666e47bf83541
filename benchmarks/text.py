"""Times the ingest of 100 MB of calls with text: by bytes, and by a real tokenizer where one is given.

    python benchmarks/text.py                                    by bytes
    python benchmarks/text.py --tokenizer tokenizer.json         by bytes, then by tokens
    python benchmarks/text.py --tokenizer tokenizer.json --template chat.jinja --megabytes 20

Prints MB/s of the log, and the share of the prompts that went through the tokenizer after de-duplication.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefixledger import api

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 3
NOON_S = 1_795_953_600
WORDS = [
    "the",
    "a",
    "model",
    "cache",
    "of",
    "tokens",
    "prefix",
    "request",
    "answer",
    "tool",
    "call",
    "file",
    "path",
    "error",
    "line",
    "in",
    "out",
    "and",
    "or",
    "not",
    "with",
    "from",
    "into",
    "def",
    "return",
    "self",
    "import",
    "class",
    "value",
    "index",
    "list",
    "dict",
    "string",
    "number",
    "time",
]


def calls(draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield calls of conversations that begin with one system prompt and twelve tools, with logged usage."""

    def text(words: int) -> str:
        return " ".join(f"{draw.choice(WORDS)}{draw.randrange(999)}" for _ in range(words))

    system = text(900)
    tools = [
        {"name": f"t{number}", "description": text(40), "input_schema": {"type": "object"}}
        for number in range(12)
    ]
    at = 0
    while True:
        messages = [{"role": "system", "content": system}]
        for _ in range(draw.randrange(4, 24)):
            messages.append({"role": "user", "content": text(draw.randrange(20, 300))})
            at += 1
            tokens = (sum(len(one["content"]) for one in messages) + 4_000) // 4
            usage = {"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3}
            answer = {
                "id": f"chatcmpl-{at}",
                "object": "chat.completion",
                "created": NOON_S + at,
                "usage": usage,
            }
            yield {
                "request": {"model": "m", "messages": messages, "tools": tools},
                "response": {**answer, "model": "m", "choices": []},
            }
            messages.append({"role": "assistant", "content": text(draw.randrange(10, 200))})


def write_log(path: Path, megabytes: int) -> int:
    """Write a log of a given size and return its bytes."""
    size = 0
    with path.open("w", encoding="utf-8") as out:
        for call in calls(random.Random(SEED)):
            size += out.write(json.dumps(call) + "\n")
            if size >= megabytes * 1_000_000:
                return size
    raise AssertionError


def measure(log: Path, size: int, folder: Path, **options: Any) -> str:
    """Ingest a log with one process and say how fast that was."""
    start = time.perf_counter()
    summary = api.ingest([log], workspace=folder, jobs=1, **options)
    seconds = time.perf_counter() - start
    notes = [note for note in summary.inputs[0].notes if note.startswith("text tokenised")]
    share = notes[0].partition(", ")[2] if notes else "no tokenizer"
    return f"{size / seconds / 1e6:8.1f} MB/s  {seconds:6.2f} s  {share}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer")
    parser.add_argument("--template")
    parser.add_argument("--megabytes", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "warm.jsonl", 1)
        api.ingest([folder / "warm.jsonl"], workspace=folder / "warm", jobs=1)  # kernels are compiled once
        size = write_log(folder / "log.jsonl", asked.megabytes)
        print(f"bytes   {measure(folder / 'log.jsonl', size, folder / 'bytes')}")
        if asked.tokenizer:
            tools = {"tokenizer": asked.tokenizer, "template": asked.template}
            print(f"tokens  {measure(folder / 'log.jsonl', size, folder / 'tokens', **tools)}")


if __name__ == "__main__":
    main()
