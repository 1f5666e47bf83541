"""Settles, for each model of a source, whether its prompt counts have cached tokens in them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prefixledger.ingest.usage import (
    DOUBLED,
    OVER,
    STRONG,
    TOTAL_EXCLUSIVE,
    TOTAL_INCLUSIVE,
    TTL_ASSUMED,
    why_impossible,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from prefixledger.ingest.dialects import Rule

MIN_STRONG: Final = 0.05
"""Below this share of a model's rows with cached tokens, rows with more cached than prompt are faults, no convention."""
MIN_NAIVE: Final = 0.25
"""Below this share they do not outweigh the totals of the other rows."""
_NAMED: Final = 10
_LONG: Final = 1_000
_SHRINKS: Final = 10
_MEANING: Final = {"inclusive": "part of", "exclusive": "not part of"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the prompt counts of one model in one dialect mean.

    Attributes:
        model: The model; None for rows that name none.
        dialect: How usage is spelt.
        rule: The verdict.
        by_default: True where no row tells and the dialect decides.
        rows: Rows with cached tokens.
        showing: Of them, rows that show it by themselves.
        against: Rows that show the opposite by their own total, and are read so.
        impossible: Rows that fit neither.
    """

    model: str | None
    dialect: str
    rule: Rule
    by_default: bool
    rows: int
    showing: int
    against: int
    impossible: int


class Conventions:
    """Evidence of one input, collected in order of its rows."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str | None, str, Rule], int] = {}
        self._row = array("q")
        self._group = array("q")
        self._flags = bytearray()
        self._prompt = array("q")
        self._read = array("q")
        self._parts = array("q")
        self._n_rows = 0
        self._longest: dict[tuple[str, str | None], int] = {}
        self.assumed_ttl = 0
        self.shrunk: list[int] = []

    def add_rows(self, columns: Mapping[str, Any], keyed: Sequence[bool]) -> None:
        """Take the next rows.

        Args:
            columns: Their fields.
            keyed: Whether each carries block or token ids.
        """
        for row, (model, said) in enumerate(
            zip(columns["model"], columns["convention"], strict=True), start=self._n_rows
        ):
            if said is None:
                continue
            self.assumed_ttl += bool(said.flags & TTL_ASSUMED)
            key = (model, said.dialect, said.rule)
            self._row.append(row)
            self._group.append(self._groups.setdefault(key, len(self._groups)))
            self._flags.append(said.flags)
            self._prompt.append(said.prompt)
            self._read.append(said.read)
            self._parts.append(said.parts)
        self._n_rows += len(columns["convention"])
        self._look_for_shrinking(columns, keyed)

    def add_proven(self, n_rows: int) -> None:
        """Take rows that say nothing of usage, and whose ids prove how long their prompts are."""
        self._n_rows += n_rows

    def settle(self) -> tuple[NDArray[np.int64], dict[int, str], list[Verdict]]:
        """Decide for every group.

        Returns:
            int64[rows], what to add to each prompt count; rows that no reading makes possible, each with the reason;
            and the verdicts.
        """
        row, group = np.array(self._row, np.int64), np.array(self._group, np.int64)
        flags, parts = np.frombuffer(bytes(self._flags), np.uint8), np.array(self._parts, np.int64)
        exclusive = np.zeros(row.size, np.bool_)
        impossible = np.zeros(row.size, np.bool_)
        verdicts = []
        for (model, dialect, default), number in self._groups.items():
            mine = group == number
            rule, own_rule, showing, by_default = _decided(flags[mine], default)
            bad = ((flags[mine] & (STRONG | OVER)) != 0) & ~own_rule
            exclusive[mine], impossible[mine] = own_rule, bad
            against = int(((own_rule != (rule == "exclusive")) & ~bad).sum())
            verdicts.append(
                Verdict(model, dialect, rule, by_default, int(mine.sum()), showing, against, int(bad.sum()))
            )
        add = np.zeros(self._n_rows, np.int64)
        add[row] = np.where(exclusive, parts, 0)
        reasons = {
            self._row[at]: why_impossible(self._prompt[at], self._read[at], self._parts[at])
            for at in np.flatnonzero(impossible).tolist()
        }
        return add, reasons, verdicts

    def _look_for_shrinking(self, columns: Mapping[str, Any], keyed: Sequence[bool]) -> None:
        """Note prompts of a session that shrink to under a tenth while nothing is said of cached tokens.

        Ids prove how long a prompt is, so only rows without any can leave the cached part out.
        """
        names = ("session_id", "model", "prompt_tokens", "usage_state")
        fields = (columns[name] for name in names)
        for session, model, prompt, state, proven in zip(*fields, keyed, strict=True):
            if proven or session is None or prompt is None or state != "absent":
                continue
            longest = self._longest.get((session, model), 0)
            self._longest[session, model] = max(prompt, longest)
            if longest >= _LONG and 0 < prompt * _SHRINKS < longest and not self.shrunk:
                self.shrunk = [longest, prompt]


def _decided(flags: NDArray[np.uint8], default: Rule) -> tuple[Rule, NDArray[np.bool_], int, bool]:
    """Decide one group.

    More cached than prompt shows that the prompt count leaves it out. A total shows what it was made of, unless most
    rows of the first kind have a total of prompt + output all the same: then it was computed without looking. A row
    that is not clear by itself follows the rest; one with more cached than prompt, and a total that denies it, is
    impossible where the rest is inclusive.

    Returns:
        The rule, bool[n] rows that are read as exclusive, rows that show the rule, and whether none does.
    """
    strong = (flags & STRONG) != 0
    sure = strong & ((flags & DOUBLED) == 0)
    by_total = (flags & TOTAL_INCLUSIVE) != 0
    naive = 2 * int((strong & by_total).sum()) > int(strong.sum()) >= MIN_NAIVE * flags.size
    inside = ~strong & by_total & (not naive)
    outside = (flags & TOTAL_EXCLUSIVE) != 0
    if int(sure.sum()) < MIN_STRONG * flags.size:
        sure = np.zeros_like(sure)
    possible = inside & ((flags & OVER) == 0)
    votes = {"exclusive": int((sure | outside).sum()), "inclusive": int(possible.sum())}
    rule = default
    if votes["exclusive"] != votes["inclusive"]:
        rule = "exclusive" if votes["exclusive"] > votes["inclusive"] else "inclusive"
    own = ~inside & (outside | (sure & ~by_total) | (rule == "exclusive"))
    return rule, own, votes[rule], not any(votes.values())


def convention_notes(verdicts: list[Verdict], assumed_ttl: int, shrunk: list[int]) -> Iterator[str]:
    """Say how prompt counts were read: models that follow their dialect in one sentence, each other one by itself."""
    plain = [
        v for v in verdicts if not (v.against or v.impossible) and (v.by_default or _is_usual(v, verdicts))
    ]
    sums: Counter[tuple[str, Rule]] = Counter()
    shown: Counter[tuple[str, Rule]] = Counter()
    for verdict in plain:
        sums[verdict.dialect, verdict.rule] += verdict.rows
        shown[verdict.dialect, verdict.rule] += verdict.showing
    for (dialect, rule), rows in sorted(sums.items()):
        why = (
            f"shown by {shown[dialect, rule]:,} of them" if shown[dialect, rule] else "as the dialect has it"
        )
        yield f"usage as {dialect}: cached tokens are {_MEANING[rule]} the prompt count in {rows:,} rows, {why}"
    special = sorted(
        (v for v in verdicts if v not in plain), key=lambda v: (-v.rows, v.model or "", v.dialect)
    )
    for verdict in special[:_NAMED]:
        yield _told(verdict)
    if len(special) > _NAMED:
        yield f"usage: {len(special) - _NAMED} more models whose prompt counts are mixed or unusual"
    if assumed_ttl:
        yield (
            f"{assumed_ttl:,} rows give written tokens without their TTL: taken as 5-minute writes, "
            "so their price is a lower bound"
        )
    if shrunk:
        yield (
            f"prompts shrink within a session (from {shrunk[0]:,} to {shrunk[1]:,} tokens) and nothing is said of cached "
            "tokens: the prompt count may be only the uncached rest"
        )


def _is_usual(verdict: Verdict, verdicts: list[Verdict]) -> bool:
    """Return whether every verdict of this dialect is the same."""
    return all(other.rule == verdict.rule for other in verdicts if other.dialect == verdict.dialect)


def _told(verdict: Verdict) -> str:
    who = verdict.model or "rows without a model"
    why = (
        "as the dialect has it"
        if verdict.by_default
        else f"shown by {verdict.showing:,} of {verdict.rows:,} rows"
    )
    told = f"usage of {who} as {verdict.dialect}: cached tokens are {_MEANING[verdict.rule]} the prompt count, {why}"
    if verdict.against:
        told += f"; mixed: {verdict.against:,} rows say the opposite by their total, and are read so"
    if verdict.impossible:
        told += f"; {verdict.impossible:,} rows have more cached than prompt all the same, and are rejected"
    return told
