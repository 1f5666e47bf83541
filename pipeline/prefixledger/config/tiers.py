"""The lower tier of a pool: host memory beside every replica, or one store that the fleet shares."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from prefixledger.config.toml_file import Part, checked, must_exist, refusal
from prefixledger.config.units import FROM_LOG, Capacity, parse_capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SCOPES = ("replica", "fleet")
WRITES = ("through", "through-selective", "on-evict")


@dataclass(frozen=True, slots=True)
class TierKind:
    """One lower tier that engines come with, and what it does unless it is told otherwise.

    Attributes:
        meaning: One sentence.
        profile: The profile whose engine has it; the first kind of a profile is its default.
        defaults: Values of ``Tier`` that differ from those of the class.
        sized: What its engine takes as its size where nobody says one; None: nothing.
    """

    meaning: str
    profile: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    sized: str | None = None


TIER_KINDS = {
    # OffloadingConnector: what is computed is copied to the host block by block, answers too; LRU; the size must be given.
    "offload": TierKind("vLLM's own offloading", "vllm"),
    # LMCache: chunk_size 256, save_unfull_chunk and save_decode_cache off, min_retrieve_tokens 0, LRU. Its size is 5 GB for
    # each GPU, which nobody who asks what a tier would bring has in mind: it must be given.
    "lmcache": TierKind("LMCache under vLLM", "vllm", {"chunk_tokens": 256, "output": False}),
    # HiCache: write_through, hicache_ratio 2.0, at least 10 tokens to load back; what was generated is in the tree too.
    "hicache": TierKind("SGLang's HiCache", "sglang", {"min_load_tokens": 10}, sized="2x"),
}

TIER_COMMENTS = {
    ("Tier", "kind"): " | ".join(f"{name} ({kind.profile})" for name, kind in TIER_KINDS.items()),
    (
        "Tier",
        "capacity",
    ): '"512GiB", "1000000 blocks", "16000000 tokens", "2x" the cache, "unlimited"; per replica, or of the whole store',
    ("Tier", "scope"): " | ".join(SCOPES),
    ("Tier", "write"): " | ".join(WRITES),
    ("Tier", "inclusive"): "whether what is read stays in the tier",
    ("Tier", "promote"): "whether what is read is cached above again (false: profile vllm without a TTL)",
    ("Tier", "min_load_tokens"): "fewer are computed rather than read",
    ("Tier", "chunk_tokens"): "written and read in whole chunks of this size; 0: block by block",
    ("Tier", "output"): "whether what was generated is written too",
}
TIER_ABSENT = {
    ("Pool", "tier"): '{ capacity = "512GiB", scope = "replica", write = "through" }  # absent: no lower tier'
}

_TIMES = re.compile(r"(\d+(?:\.\d+)?)x")


def _capacity(value: str) -> str:
    if _TIMES.fullmatch(value) is None and checked(parse_capacity, value).unit == FROM_LOG:
        raise refusal("the capacity of a lower tier is in no log that is read", "give it in numbers")
    return value


def _one_of(names: Iterable[str], what: str) -> BeforeValidator:
    known: Callable[[object], str] = lambda value: must_exist(str(value), names, what)  # noqa: E731
    return BeforeValidator(known)


class Tier(Part):
    """Where blocks are kept that the cache has no room for.

    Within a pool everything is said: what was not given is what its kind does, see ``TIER_KINDS``. SGLang calls its
    policies ``write_through``, ``write_through_selective`` and ``write_back``, which is ``"on-evict"``.
    """

    kind: Annotated[str, _one_of(TIER_KINDS, "kind of tier")] = ""
    capacity: Annotated[str, AfterValidator(_capacity)] = ""
    scope: Annotated[str, _one_of(SCOPES, "scope")] = "replica"
    write: Annotated[str, _one_of(WRITES, "write policy")] = "through"
    inclusive: bool = True
    promote: bool = True
    min_load_tokens: Annotated[int, Field(ge=0)] = 0
    chunk_tokens: Annotated[int, Field(ge=0)] = 0
    output: bool = True

    @property
    def times(self) -> Decimal | None:
        """How many times the cache it is in size; None where its size is its own."""
        found = _TIMES.fullmatch(self.capacity)
        return None if found is None else Decimal(found[1])

    @property
    def size(self) -> Capacity:
        """Its capacity, in the unit it was stated in; nothing of a bytes kind where it follows the cache."""
        return Capacity(None) if self.times is not None else parse_capacity(self.capacity)

    @property
    def shared(self) -> bool:
        """Whether all replicas read and write the same store."""
        return self.scope == "fleet"

    def under(self, profile: str) -> Tier:
        """Return this tier under a cache of a profile, with all that its kind does where nothing was given.

        Raises:
            PydanticCustomError: The profile has no such tier, or what was given contradicts itself.
        """
        kinds = [name for name, kind in TIER_KINDS.items() if kind.profile == profile]
        if not kinds:
            raise refusal(
                f"profile {profile!r} cannot be replayed with a lower tier",
                "leave [pool.tier] out, or replay one of the profiles: "
                + ", ".join(dict.fromkeys(kind.profile for kind in TIER_KINDS.values())),
                at=("tier",),
            )
        name = self.kind or kinds[0]
        if name not in kinds:
            raise refusal(
                f"a tier of kind {name!r} does not go with profile {profile!r}",
                f"kinds that do: {', '.join(kinds)}",
                at=("tier", "kind"),
            )
        kind = TIER_KINDS[name]
        given = {key: getattr(self, key) for key in self.model_fields_set}
        whole = self.model_copy(update={"capacity": kind.sized or "", **kind.defaults, **given, "kind": name})
        whole.refuse_contradictions()
        return whole

    def refuse_contradictions(self) -> None:
        """Refuse what cannot be replayed together."""
        if not self.capacity:
            raise refusal(
                "a lower tier needs a capacity",
                'write capacity = "512GiB", or "unlimited" for all that it could ever bring',
                at=("tier", "capacity"),
            )
        if not self.promote and TIER_KINDS[self.kind].profile == "sglang":
            raise refusal(
                "promote = false contradicts profile 'sglang'",
                "its tree holds no block whose parent it does not hold, so what is loaded back is cached above again: leave "
                'promote out, or replay profile "vllm"',
                at=("tier", "promote"),
            )
        if not self.promote and not self.inclusive:
            raise refusal(
                "inclusive = false contradicts promote = false",
                "what is read would stay nowhere: leave one of them out",
                at=("tier", "inclusive"),
            )
        if not self.inclusive and self.write != "on-evict":
            raise refusal(
                f"inclusive = false contradicts write = {self.write!r}",
                'a tier that is written while its blocks are above holds them twice: set write = "on-evict"',
                at=("tier", "inclusive"),
            )
        if self.chunk_tokens and self.write == "on-evict":
            raise refusal(
                f"chunk_tokens = {self.chunk_tokens} contradicts write = 'on-evict'",
                "what leaves the cache above are blocks, not chunks: set chunk_tokens = 0, or another write policy",
                at=("tier", "write"),
            )
        if self.shared and (self.size.per_gpu or self.times is not None):
            raise refusal(
                "a store of the fleet has no capacity per gpu or replica",
                "give its whole size",
                at=("tier", "capacity"),
            )
