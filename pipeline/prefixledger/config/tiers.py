"""The lower tier of a pool: host memory beside every replica, or one store that the fleet shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from prefixledger.config.toml_file import Part, checked, must_exist, refusal
from prefixledger.config.units import FROM_LOG, Capacity, parse_capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCOPES = ("replica", "fleet")
WRITES = ("through", "through-selective", "on-evict")

TIER_COMMENTS = {
    (
        "Tier",
        "capacity",
    ): '"512GiB", "1000000 blocks" or "16000000 tokens", "unlimited"; per replica, or of the whole store',
    ("Tier", "scope"): " | ".join(SCOPES),
    ("Tier", "write"): " | ".join(WRITES),
    ("Tier", "inclusive"): "whether what is read stays in the tier",
    ("Tier", "promote"): "what is read is cached above again; nothing else can be replayed",
    ("Tier", "min_load_tokens"): "fewer are computed rather than read",
}
TIER_ABSENT = {
    ("Pool", "tier"): '{ capacity = "512GiB", scope = "replica", write = "through" }  # absent: no lower tier'
}


def _capacity(value: str) -> str:
    if checked(parse_capacity, value).unit == FROM_LOG:
        raise refusal("the capacity of a lower tier is in no log that is read", "give it in numbers")
    return value


def _one_of(names: Iterable[str], what: str) -> BeforeValidator:
    known: Callable[[object], str] = lambda value: must_exist(str(value), names, what)  # noqa: E731
    return BeforeValidator(known)


class Tier(Part):
    """Where blocks are kept that the cache has no room for; the defaults are those of vLLM's host offloading.

    vLLM (docs, KV offloading): completed blocks are copied to host memory as they are produced, hits are promoted back
    to the GPU, the host side is an LRU. SGLang's HiCache is ``write = "through"``, ``min_load_tokens = 10``
    (``write_back`` is ``"on-evict"``).
    """

    capacity: Annotated[str, AfterValidator(_capacity)]
    scope: Annotated[str, _one_of(SCOPES, "scope")] = "replica"
    write: Annotated[str, _one_of(WRITES, "write policy")] = "through"
    inclusive: bool = True
    promote: bool = True
    min_load_tokens: Annotated[int, Field(ge=0)] = 0

    @property
    def size(self) -> Capacity:
        """Its capacity, in the unit it was stated in."""
        return parse_capacity(self.capacity)

    @property
    def shared(self) -> bool:
        """Whether all replicas read and write the same store."""
        return self.scope == "fleet"

    @model_validator(mode="after")
    def _replayable(self) -> Tier:
        if not self.promote:
            raise refusal(
                "promote = false cannot be replayed",
                "what is read from the tier is cached above again; leave promote out",
                at=("promote",),
            )
        if not self.inclusive and self.write != "on-evict":
            raise refusal(
                f"inclusive = false contradicts write = {self.write!r}",
                'a tier that is written while its blocks are above holds them twice: set write = "on-evict"',
                at=("inclusive",),
            )
        if self.shared and self.size.per_gpu:
            raise refusal(
                "a store of the fleet has no capacity per gpu", "give its whole size", at=("capacity",)
            )
        return self
