"""Faults of models, namespaces, replicas and caches, and what only looks like one; each takes the traffic and the struck calls."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from planted_traffic import REPLICAS, Call, words

if TYPE_CHECKING:
    from planted_traffic import Traffic


def model_switch(_: Traffic, struck: list[Call]) -> None:
    """Go on with another model from the middle of each session."""
    for call in struck:
        if call.turn >= 2:
            call.model = "house-70b" if call.turn % 2 == 0 else "house-8b"


def model_of_its_own(made: Traffic, struck: list[Call]) -> None:
    """Ask another model, with a prompt that only that model has seen, in a session of its own."""
    text = [words(made.draw, 60) for _ in range(6)]
    for call in struck:
        call.model, call.system, call.tools = "house-70b", text, []


def salts(_: Traffic, struck: list[Call]) -> None:
    """Give each session a salt of its own."""
    for call in struck:
        call.salt = f"salt-{call.session}"


def salt_of_own_text(made: Traffic, struck: list[Call]) -> None:
    """Give struck calls one salt, and a prompt that is asked only under it."""
    text = [words(made.draw, 60) for _ in range(6)]
    for call in struck:
        call.salt, call.system, call.tools = "salt-own", text, []


def adapters(_: Traffic, struck: list[Call]) -> None:
    """Serve the same prompts with five adapters."""
    for call in struck:
        call.adapter = f"lora-{call.session % 5}"


def adapter_of_own_text(made: Traffic, struck: list[Call]) -> None:
    """Serve struck calls with an adapter, and a prompt that is asked only of it."""
    text = [words(made.draw, 60) for _ in range(6)]
    for call in struck:
        call.adapter, call.system, call.tools = "lora-own", text, []


def restarts(made: Traffic, struck: list[Call]) -> None:
    """Restart the replica just before the last turn of each struck session."""
    last = {call.session: call for call in struck}
    for call in last.values():
        at = call.at - timedelta(seconds=1)
        made.events += f'[[event]]\nat = {at:%Y-%m-%dT%H:%M:%SZ}\nkind = "restart"\nreplica = "{call.pod}"\n'


def restart_before_all(made: Traffic, struck: list[Call]) -> None:
    """Restart a replica while it holds nothing, and one behind its last request."""
    del struck
    first, last = made.calls[0].at - timedelta(seconds=1), made.calls[-1].at + timedelta(seconds=1)
    for at in (first, last):
        made.events += f'[[event]]\nat = {at:%Y-%m-%dT%H:%M:%SZ}\nkind = "restart"\nreplica = "pod-0"\n'


def pods_replaced(made: Traffic, struck: list[Call]) -> None:
    """Bring new names for all pods with the first struck session; the old ones never serve again."""
    from_s = min(call.at_s for call in struck)
    for call in made.calls:
        if call.at_s >= from_s:
            call.pod = call.pod.replace("pod-", "pod-new-")


def routed_at_random(made: Traffic, struck: list[Call]) -> None:
    """Send each turn to any replica."""
    for call in struck:
        call.pod = f"pod-{made.draw.randrange(REPLICAS)}"


def spread_new_text(made: Traffic, struck: list[Call]) -> None:
    """Spread calls over all replicas that share nothing with any other call."""
    for call in struck:
        call.pod = f"pod-{made.draw.randrange(REPLICAS)}"
        call.tools, call.system = [], [words(made.draw, 200)]
        call.messages = [{"role": "user", "content": words(made.draw, 30)}]


def with_ttl(made: Traffic) -> None:
    """Let the cache forget after ten minutes."""
    made.cache = 'profile = "vllm"\ncapacity = "unlimited"\nttl = "10m"'
    _alone(made)


def _alone(made: Traffic) -> None:
    """Give each session a system prompt of its own, so that nobody else keeps it warm."""
    own: dict[int, list[str]] = {}
    for call in made.calls:
        call.system = own.setdefault(call.session, [words(made.draw, 60) for _ in range(8)])
        call.tools = []


def long_pauses(_: Traffic, struck: list[Call]) -> None:
    """Wait 20 minutes between turns."""
    for call in struck:
        call.at_s += call.turn * 1_200


def short_pauses(_: Traffic, struck: list[Call]) -> None:
    """Wait 7 minutes between turns, which is less than the cache keeps."""
    for call in struck:
        call.at_s += call.turn * 420


def with_capacity(made: Traffic) -> None:
    """Let a replica hold some ten sessions."""
    made.cache = 'profile = "vllm"\ncapacity = "700 blocks"'
    _alone(made)


def bursts(made: Traffic, struck: list[Call]) -> None:
    """Send much new text to the same replica between the turns of each struck session."""
    _between(made, struck, 20)


def trickle(made: Traffic, struck: list[Call]) -> None:
    """Send a little new text there."""
    _between(made, struck, 1)


def _between(made: Traffic, struck: list[Call], n: int) -> None:
    for call in [call for call in struck if call.turn == 2]:
        for number in range(n):
            body = [{"role": "user", "content": words(made.draw, 150)}]
            session = 10_000 + call.session * 100 + number
            made.calls.append(
                Call(
                    call.at_s - 4 + number * 0.2,
                    call.tenant,
                    session,
                    0,
                    [],
                    [words(made.draw, 200)],
                    body,
                    call.pod,
                )
            )
