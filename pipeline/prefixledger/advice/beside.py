"""Tries changes in a thread of their own, beside the replay that a report is about."""

from __future__ import annotations

from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event as Signal
from typing import TYPE_CHECKING

from prefixledger.advice.advise import advise
from prefixledger.advice.kept import keep_advice, kept_advice
from prefixledger.engine.local import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prefixledger.advice.parts import Advice
    from prefixledger.config.events import Event
    from prefixledger.config.scenario import Scenario
    from prefixledger.engine import Engine
    from prefixledger.workspace import Workspace


@contextmanager
def advising(
    workspace: Workspace,
    scenario: Scenario,
    events: Sequence[Event],
    tell: Callable[[str], None],
    engine: Engine,
) -> Iterator[Callable[[], Advice]]:
    """Advise on an indexed workspace while something else is done with it.

    Neither needs what the other finds, and both spend most of their time outside of Python: for the 34,446 requests of the
    demo that is 3 s on the second core.

    Args:
        workspace: See ``advise``.
        scenario: See ``advise``.
        events: See ``advise``.
        tell: See ``advise``; hears of steps only where they are waited for.
        engine: What runs tasks; where those leave this process, or there is one worker, it is done when it is called for.

    Yields:
        Waits for the advice, and returns it; by then the replay of the scenario must be there, for advice is kept beside it
        and used again while nothing has changed.
    """
    kept = kept_advice(workspace, scenario, events)
    if kept is not None:
        yield lambda: kept
        return
    if engine.workers == 1 or engine.remote or engine.task_memory_bytes is not None:
        yield lambda: _keeping(workspace, scenario, advise(workspace, scenario, events, tell, engine))
        return
    given_up = Signal()

    def go_on(_: str) -> None:
        if given_up.is_set():  # what stands beside it failed, or was interrupted: nobody will ask
            raise CancelledError

    def wait() -> Advice:
        tell("try changes")
        return _keeping(workspace, scenario, trying.result())

    own = LocalEngine(engine.workers - 1)  # one core is left to what stands beside it
    own.times = engine.times
    with own, ThreadPoolExecutor(1, "advice") as thread:
        trying = thread.submit(advise, workspace, scenario, events, go_on, own)
        try:
            yield wait
        finally:
            given_up.set()


def _keeping(workspace: Workspace, scenario: Scenario, advice: Advice) -> Advice:
    keep_advice(workspace, scenario, advice)
    return advice
