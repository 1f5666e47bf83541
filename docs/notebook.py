# %% [markdown]
# # Where do the prompt tokens go?
#
# The whole way from a log to an answer, in Python. The cells run as they stand, in an editor that knows `# %%` cells or
# by `python docs/notebook.py`: the first one makes up a log, in whose place you put your own. A result that ends a cell
# shows itself: its answer in one sentence, its account as a bar, and its first table.

# %% A made-up log: four tenants, two replicas, and a day on which a release puts the time on top of every prompt
from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from prefixledger import api

folder = Path("out/notebook")
folder.mkdir(parents=True, exist_ok=True)
logs, workspace = folder / "requests.jsonl", folder / "workspace"
start, draw = datetime(2026, 11, 2, tzinfo=UTC), random.Random(8)
lines = []
for number in range(15 * 48):
    at = start + timedelta(minutes=30 * number)
    tenant = draw.randrange(4)
    # Block ids as an engine logs them: each stands for a block and all before it, so a stamp on top changes them all.
    top = 10_000_000 * number if timedelta(days=9) <= at - start < timedelta(days=10) else 1_000 * tenant
    blocks = [*range(top, top + 40), 10_000_000 * number + 999]
    row = {
        "id": f"q{number}",
        "ts": at.timestamp(),
        "who": f"tenant-{tenant}",
        "pod": f"pod-{draw.randrange(2)}",
    }
    lines.append(json.dumps(row | {"tokens": 64 * len(blocks) + 9, "blocks": blocks}))
logs.write_text("\n".join(lines) + "\n")
(folder / "columns.toml").write_text("""\
format = "jsonl"
block_size = 64
block_ids = "floor"
[columns]
request_id = "id"
started_at = { from = "ts", unit = "s" }
tenant = "who"
replica = "pod"
prompt_tokens = "tokens"
block_ids = "blocks"
""")

# %% Read it: every record is kept, rejected with a reason, or counted as a duplicate
ingested = api.ingest([logs], workspace=workspace, map=folder / "columns.toml", force=True)
ingested

# %% Replay it through the caches that there are, and see who is to blame for each missed token
fleet = folder / "fleet.toml"
fleet.write_text(
    'name = "today"\n[cache]\nprofile = "vllm"\ncapacity = "120 blocks"\n[fleet]\nrouting = "as-logged"\n'
)
replayed = api.replay(workspace=workspace, scenario=[fleet])
replayed

# %% Every table is a polars frame
lookups = replayed.frame("lookups")
misses = [name for name in lookups.columns if name.startswith("miss_")]
by_replica = lookups.group_by("replica").agg(pl.col("prompt_tokens", "hit_tokens", *misses).sum())
by_replica.with_columns(
    open=pl.col("prompt_tokens") - pl.sum_horizontal("hit_tokens", *misses)
)  # 0: it closes

# %% Or ask in SQL
sql = "SELECT cause, sum(tokens) AS tokens FROM misses GROUP BY ALL ORDER BY tokens DESC"
api.query(sql, workspace=workspace)

# %% What happened, when, and to whom?
investigated = api.investigate(workspace=workspace)
investigated

# %% What would more memory do, and sending each tenant to one replica?
tried = api.whatif(
    workspace=workspace,
    scenario=fleet,
    capacity=[120, 200, "unlimited"],
    routing=["as-logged", "prefix-hash"],
)
tried

# %% The best of them
tried.frame("cells").sort("token_hit_rate", descending=True).head(3).transpose(include_header=True)

# %% The report for everybody else: a page, its JSON twin, and the same tables
report = api.report(workspace=workspace, scenario=[fleet], output=folder / "week.html", force=True)
report

# %% Its tables as frames, too
report.frame("replicas").select("replica", "requests", "prompt_tokens", "hit_tokens", "token_hit_rate")

# %% Was last week worse than the week before? (from_= and to= name any other period, or two)
compared = api.compare(workspace)
compared
