"""The rules of ``--fail-on``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_data
from prefixledger.errors import UsageError
from prefixledger.report.books import SilentWrites
from prefixledger.report.rules import crossed, names, rules
from prefixledger.report.twin import twin
from prefixledger.schema import CAUSES

WEEK = twin(report_data.week())


@given(bound=st.floats(0, 1), relation=st.sampled_from(["<", "<=", ">", ">="]))
def test_a_rule_says_what_its_relation_says(bound: float, relation: str) -> None:
    """The hit rate of the report stands on the left, whatever the number."""
    rate = WEEK["totals"]["token_hit_rate"]
    written = f"{bound:.9f}"
    holds = {"<": rate < float(written), "<=": rate <= float(written), ">": rate > float(written)}
    expected = holds.get(relation, rate >= float(written))
    assert bool(crossed(rules([f"token_hit_rate{relation}{written}"]), WEEK)) == expected


def test_a_percent_is_a_share() -> None:
    """80 % and 0.8 are one bound, and blanks do not matter."""
    assert [(r.relation, r.bound) for r in rules(["token_hit_rate < 80 %", "token_hit_rate<.8"])] == [
        ("<", 0.8)
    ] * 2


@pytest.mark.parametrize("cause", CAUSES)
def test_shares_of_causes_are_of_all_prompt_tokens(cause: str) -> None:
    """A cause that took tokens has a share above nothing; one that took none has not."""
    tokens = WEEK["misses"]["by_cause"][cause]
    assert bool(crossed(rules([f"{cause}_share>0"]), WEEK)) == (tokens > 0)
    share = tokens / WEEK["totals"]["prompt_tokens"]
    assert not crossed(rules([f"{cause}_share>{share + 1e-6:.9f}"]), WEEK)


def test_what_cannot_be_checked_is_crossed() -> None:
    """A report without usage does not keep a rule on its agreement."""
    unknown = {**WEEK, "observed": None}
    assert crossed(rules(["agreement<0.9"]), unknown) == (
        "agreement<0.9: the report does not know agreement",
    )


def test_rejects_and_the_gap_stand_alone() -> None:
    """Without a number no record may be rejected, and the hit rate lies within 5 points of what is reachable."""
    assert [(r.name, r.relation, r.bound) for r in rules(["rejects", "gap-to-ideal"])] == [
        ("rejects", ">", 0.0),
        ("gap-to-ideal", ">", 0.05),
    ]
    inputs = [{"records": 200, "rejected": 3}, {"records": 100, "rejected": 0}]
    assert crossed(rules(["rejects", "rejects>1%"]), {**WEEK, "inputs": inputs}) == ("rejects: it is 0.01",)


def test_silent_writes_are_named_by_model_tenant_and_day() -> None:
    """Each model, tenant and day that only writes is a sentence of its own."""
    silent = SilentWrites("claude-sonnet-4-5", None, 1_700_000_000_000_000, 12, 34_567, 40_000)
    told = crossed(
        rules(["reads-zero-writes-climb"]), twin(replace(report_data.week(), silent_writes=(silent,)))
    )
    assert len(told) == 1
    assert "model claude-sonnet-4-5, tenant (not said) wrote 34,567 tokens in 12 requests" in told[0]
    assert told[0].endswith("on 2023-11-14 and read none")
    assert not crossed(rules(["reads-zero-writes-climb"]), WEEK)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("token_hitrate<0.8", "token_hit_rate"),
        ("token_hit_rate", "needs a number"),
        ("token_hit_rate=0.8", "is no rule"),
        ("reads-zero-writes-climb>3", "takes no number"),
        ("__import__('os')", "is no rule"),
        ("", "is no rule"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, told: str) -> None:
    """A misspelt rule ends before any work is done, and near names are listed."""
    with pytest.raises(UsageError, match=told):
        rules([text])


def test_every_name_is_a_number_of_the_report() -> None:
    """No name that the help promises fails on a report."""
    for name in names():
        text = (
            name if name == "reads-zero-writes-climb" else f"{name}>1e9".replace("1e9", "1000000000000000000")
        )
        assert isinstance(crossed(rules([text]), WEEK), tuple)
