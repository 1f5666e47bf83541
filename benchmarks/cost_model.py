"""Fits what a report costs to logs of several sizes, predicts a billion requests a week, and measures what sampling errs.

    python benchmarks/cost_model.py                     logs of 6,000 to 48,000 requests
    python benchmarks/cost_model.py --sample TRACE …    the error of samples of traces instead, against the whole

Each log is ingested, indexed and replayed under one scenario and under three, by one process. Cost is processor time, which a
busy machine changes little, and the peak that the system saw. The model has a part that is always there, one for each line, one
for each distinct block and one for each lookup of each scenario; its coefficients are not negative. Writes out/cost_model.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls
from week import write_log

ROOT = Path(__file__).resolve().parents[1]
WEEK = {"lines": 1e9, "bytes_a_line": 566.0, "blocks_a_line": 4.0, "scenarios": 3}
"""A billion requests a week: lines as long, and as many new blocks each, as in the logs that are measured here."""
CORE_HOUR, GIB_MONTH = 0.04, 0.023
"""Dollars: a core of a general machine for an hour, a GiB of object storage for a month. List prices differ by a factor of two."""
CHILD = """
import json, resource, sys, time
from pathlib import Path
from prefixledger import api, attribute, index, replay
from prefixledger.config.scenario import Cache, Pool, Scenario
from prefixledger.workspace import Workspace
log, folder, scenarios = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
place = Workspace(folder / "ws")
def named(n):
    return Scenario(name=f"s{n}", pool=(Pool(cache=Cache(profile="vllm", capacity=f"{20000 + n} blocks")),))
def spent(work):
    before = time.process_time()
    work()
    return time.process_time() - before
warm = Workspace(folder / "warm")
api.replay([sys.argv[4]], workspace=warm.root, scenario=[named(0)], jobs=1)
found = {"read": spent(lambda: api.ingest([log], workspace=place.root, jobs=1)), "index": spent(lambda: index.update(place))}
def one(n):
    replay.run(place, named(n))
    attribute.run(place, f"s{n}", threads=1)
found["replay"] = spent(lambda: [one(n) for n in range(scenarios)])
found["blocks"] = sum(entry["blocks"] for entry in json.loads(place.index.read_text())["sources"])
found["workspace_bytes"] = sum(p.stat().st_size for p in place.root.rglob("*") if p.is_file() and "replays" not in p.parts)
found["replay_bytes"] = sum(p.stat().st_size for p in place.replay("s0").rglob("*"))
found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(found))
"""


def measure(folder: Path, requests: int, scenarios: int, repeat: int, warm: Path) -> dict[str, Any]:
    """Return what one log costs; ``repeat`` times fewer blocks are new."""
    log = folder / f"week{requests}x{repeat}_blksz_16.jsonl"
    if not log.exists():
        write_log(log, requests)
        if repeat > 1:
            thin(log, repeat)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(log), str(folder / f"{requests}x{repeat}x{scenarios}"), str(scenarios), str(warm)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return {"lines": requests, "bytes": log.stat().st_size, "scenarios": scenarios} | json.loads(done.stdout)


def thin(log: Path, repeat: int) -> None:
    """Ask every prompt ``repeat`` times: as many lines, fewer distinct blocks."""
    lines = log.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows):
        like = rows[number - number % repeat]
        row |= {name: like[name] for name in ("input_length", "hash_ids")}
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def fit(rows: list[dict[str, Any]], what: str, terms: dict[str, Any]) -> dict[str, float]:
    """Return the coefficient of every term, and the largest relative error."""
    matrix = np.asarray([[term(row) for term in terms.values()] for row in rows], float)
    wanted = np.asarray([row[what] for row in rows], float)
    scale = matrix.max(axis=0)
    found, _ = nnls(matrix / scale / wanted[:, None], np.ones(len(rows)))
    found /= scale
    off = float(np.abs(matrix @ found / wanted - 1).max())
    return dict(zip(terms, found.tolist(), strict=True)) | {"largest_error": off}


def model(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fit every stage."""
    always, lines, blocks = (lambda _: 1.0), (lambda row: row["lines"]), (lambda row: row["blocks"])
    asked = lambda row: row["lines"] * row["scenarios"]  # noqa: E731  # a term like the others
    return {
        "read": fit(rows, "read", {"always": always, "line": lines, "block": blocks}),
        "index": fit(rows, "index", {"always": always, "line": lines, "block": blocks}),
        "replay": fit(rows, "replay", {"scenario": lambda row: row["scenarios"], "lookup": asked}),
        "peak_bytes": fit(rows, "peak_bytes", {"always": always, "line": lines, "block": blocks}),
        "workspace_bytes": fit(rows, "workspace_bytes", {"line": lines, "block": blocks}),
        "replay_bytes": fit(rows, "replay_bytes", {"line": lines}),
    }


def predict(found: dict[str, Any]) -> dict[str, float]:
    """Return what a week costs."""
    lines, scenarios = WEEK["lines"], WEEK["scenarios"]
    blocks = lines * WEEK["blocks_a_line"]

    def of(name: str) -> float:
        part = found[name]
        per_line = part.get("line", 0) * lines + part.get("block", 0) * blocks + part.get("always", 0)
        return float(per_line + scenarios * (part.get("scenario", 0) + part.get("lookup", 0) * lines))

    hours = {name: of(name) / 3_600 for name in ("read", "index", "replay")}
    stored = of("workspace_bytes") + scenarios * of("replay_bytes") + lines * WEEK["bytes_a_line"] / 10
    return {
        **{f"{name}_core_hours": value for name, value in hours.items()},
        "memory_bytes": of("peak_bytes"),
        "workspace_bytes": of("workspace_bytes"),
        "replay_bytes": of("replay_bytes"),
        "log_bytes": lines * WEEK["bytes_a_line"],
        "compute_dollars": sum(hours.values()) * CORE_HOUR,
        "storage_dollars_a_month": stored / 2**30 * GIB_MONTH,
    }


def sample_errors(logs: list[Path], capacities: list[str]) -> list[dict[str, Any]]:
    """Return how far samples of traces are from the whole, beside what each says of itself."""
    from prefixledger import index, ingest
    from prefixledger.attribute.trial import open_trials, sampled_trials
    from prefixledger.config.scenario import default_scenario, load_scenario
    from prefixledger.errors import UsageError
    from prefixledger.workspace import Workspace

    found = []
    with tempfile.TemporaryDirectory() as name:
        for log in logs:
            workspace = Workspace(Path(name) / log.stem)
            story = log.with_suffix(".map.toml")
            size = 64 if "blk64" in log.name else None
            options = ingest.IngestOptions(
                jobs=2, t0=0, block_size=size, map_file=story if story.exists() else None
            )
            ingest.run([str(log)], workspace, options if not story.exists() else replace_t0(options))
            index.update(workspace)
            base = load_scenario(log.with_suffix(".scenario.toml")) if story.exists() else default_scenario()
            whole = open_trials(workspace, base, keys=False)
            prompt = int(whole.prepared.log.lookups.prompt_tokens.sum())
            for capacity in capacities:
                pools = tuple(
                    pool if pool.hosted else pool.model_copy(update={"cache": pool.cache.model_copy(update={"capacity": capacity})})
                    for pool in base.pool
                )  # fmt: skip
                scenario = base.model_copy(update={"pool": pools})
                rate = whole.run(scenario, causes=False).by_arrival("hit_tokens").sum() / prompt
                for share in (0.5, 0.2, 0.1, 0.05):
                    off, told, refused = [], [], 0
                    for seed in range(4):
                        try:
                            part = sampled_trials(whole, share, seed)
                            trial = part.run(scenario, causes=False)
                        except UsageError:
                            refused += 1
                            continue
                        asked = int(part.prompt_tokens.sum())
                        off.append(100 * (trial.by_arrival("hit_tokens").sum() / asked - rate))
                        told.append(part.sample_error_pp(trial))
                    row = {
                        "log": log.stem,
                        "capacity": capacity,
                        "share": share,
                        "rate": float(rate),
                        "refused": refused,
                    }
                    if off:
                        row |= {
                            "mean_off_pp": float(np.mean(off)),
                            "mean_abs_pp": float(np.abs(off).mean()),
                            "most_pp": float(np.abs(off).max()),
                            "told_pp": float(np.mean(told)),
                            "within": int(np.sum(np.abs(off) <= np.asarray(told))),
                        }
                    found.append(row)
                    print(json.dumps(row), flush=True)
    return found


def replace_t0(options: Any) -> Any:
    """Return options for a log with a clock of its own."""
    from dataclasses import replace

    return replace(options, t0=None)


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=48_000)
    parser.add_argument("--sample", type=Path, nargs="+", metavar="TRACE")
    parser.add_argument("--capacity", nargs="+", default=["unlimited", "30000 blocks"])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "cost_model.json")
    given = parser.parse_args()
    if given.sample:
        figures: dict[str, Any] = {"samples": sample_errors(given.sample, given.capacity)}
    else:
        rows = []
        random.seed(0)
        with tempfile.TemporaryDirectory() as name:
            folder, warm = Path(name), Path(name) / "warm_blksz_16.jsonl"
            write_log(warm, 500)
            for share in (8, 4, 2, 1):
                for repeat, scenarios in ((1, 1), (1, 3), (4, 1)):
                    rows.append(measure(folder, given.largest // share, scenarios, repeat, warm))
                    print(json.dumps(rows[-1]), flush=True)
        figures = {"runs": rows, "model": model(rows)}
        figures["week"] = predict(figures["model"])
        print(json.dumps(figures["model"], indent=1))
        print(json.dumps(figures["week"], indent=1))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
