"""Advice is used again while nothing has changed that it was made from, and made anew when anything has."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from prefixledger import index, replay
from prefixledger.advice import beside, kept
from prefixledger.advice.parts import Advice, Decision, Effect, Recommendation
from prefixledger.config.events import Event
from prefixledger.config.pricing import Pricing
from prefixledger.config.scenario import default_scenario
from prefixledger.economics import price_list
from prefixledger.engine import LocalEngine
from prefixledger.workspace import read_manifest, write_json
from stage_support import SECOND, write_workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prefixledger.config.scenario import Scenario
    from prefixledger.workspace import Workspace

_EFFECT = Effect(
    1, 2, 300, 40, -5, 60, True, Decimal("7.25"), Decimal("1E-9"), Decimal(0), Decimal("-0.1"), "USD", 0.1 + 0.2
)  # fmt: skip
ADVICE = Advice(
    (
        Recommendation(
            "ttl", "Do.", "here", _EFFECT, Effect(1, 2, 3, 4, 5, 6, False), "shown", ("a", "b"), "high", "so", "look",
            "name = 'x'\n", Decimal("3.10"), None,
        ),
        Recommendation("salt", "Ü.", "", _EFFECT, _EFFECT, "", (), "low", "", ""),
    ),
    _EFFECT,
    (Decision("00", "t", "p", 1, 2, "5m", "1h", "so", 1 / 3, None, 2.5, Decimal("1.10"), None, "USD"),),
    7,
    None,
    ("One.", "Two."),
)  # fmt: skip


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Four prompts with a common head."""
    rows = [{"at_us": n * SECOND, "ids": [1, 2, n], "request_id": f"q{n}"} for n in range(4)]
    workspace = write_workspace(tmp_path_factory.mktemp("kept"), rows)
    index.update(workspace)
    return workspace


@pytest.fixture
def asked(indexed: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return what replays, asks for advice, and says how often it was made."""
    calls = 0

    def advise(*_: object) -> Advice:
        nonlocal calls
        calls += 1
        return ADVICE

    monkeypatch.setattr(beside, "advise", advise)

    def ask(scenario: Scenario | None = None, events: tuple[Event, ...] = ()) -> int:
        nonlocal calls
        calls, scenario = 0, scenario or default_scenario()
        with beside.advising(indexed, scenario, events, lambda _: None, LocalEngine(1)) as found:
            replay.run(indexed, scenario, events=events)
            assert found() == ADVICE
        return calls

    (indexed.replay(default_scenario().name) / kept.ADVICE).unlink(missing_ok=True)
    assert (ask(), ask()) == (1, 0)
    return ask


def test_every_figure_is_read_as_it_was_written() -> None:
    """No digit of an amount is lost, and none of its zeros."""
    again = kept.from_json(json.loads(json.dumps(kept.to_json(ADVICE))))
    assert repr(again) == repr(ADVICE)


def test_what_is_asked_otherwise_is_tried_anew(asked: Callable[..., int]) -> None:
    """Prices, events and settings decide what pays."""
    scenario = default_scenario()
    paid = scenario.model_copy(update={"pricing": Pricing(rates="gpt-4.1")})
    event = Event(kind="restart", at="1970-01-01T00:00:02Z")
    assert asked(paid) == 1
    assert asked(scenario) == 1  # of the replay that stood there in between nothing is left
    assert asked(scenario, (event,)) == 1
    assert asked(scenario, (event,)) == 0


@pytest.mark.parametrize("what", ["code", "library", "source", "prices", "broken", "replay"])
def test_a_change_of_what_it_was_made_from_is_noticed(
    what: str, asked: Callable[..., int], indexed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale advice would be a wrong price."""
    path: Path = indexed.replay(default_scenario().name) / kept.ADVICE
    manifest = read_manifest(indexed)
    match what:
        case "code":
            monkeypatch.setattr(kept, "_code", lambda: "edited")
        case "library":
            monkeypatch.setattr(kept, "version", lambda _: "0")
        case "source":
            first, *rest = manifest["sources"]
            write_json(indexed.manifest, {**manifest, "sources": [{**first, "format": "other"}, *rest]})
        case "prices":
            monkeypatch.setattr(price_list, "is_shipped", lambda: False)
        case "broken":
            path.write_text(path.read_text()[:-40])
        case "replay":
            monkeypatch.setattr(kept, "made_from", lambda *_: {"digest": "another log"})
    assert asked() == 1
    assert asked() == (1 if what in ("prices", "replay") else 0)
    write_json(indexed.manifest, manifest)
