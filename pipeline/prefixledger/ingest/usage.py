"""One meaning of usage: from any usage object to prompt, read, written by TTL and output, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from prefixledger.ingest.dialects import BY_NAME, DIALECTS
from prefixledger.ingest.fields import checked_count, integer
from prefixledger.ingest.records import BadRecordError, Convention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefixledger.ingest.dialects import Dialect
    from prefixledger.ingest.records import Row, UsageState

STRONG: Final = 1
"""More was read than the prompt count has, or read and written and no total denies it: it cannot be part of it."""
TOTAL_INCLUSIVE: Final = 2
"""The total is prompt + output."""
TOTAL_EXCLUSIVE: Final = 4
"""The total is prompt + read + written + output."""
DOUBLED: Final = 8
"""What was read is just twice the longest prefix of whole blocks: two nodes each counted it."""
OVER: Final = 32
"""More was read and written than the prompt count has; it may still be part of it if some was first written, then read."""
TTL_ASSUMED: Final = 16
"""Written tokens are given without their TTL."""
_BLOCK_SIZES: Final = tuple(1 << power for power in range(12, 3, -1))


@dataclass(frozen=True, slots=True)
class Usage:
    """What one usage object says, as logged.

    Attributes:
        dialect: How it is spelt.
        prompt: The prompt count as logged, with what its dialect always leaves out.
        read: Tokens read from cache.
        write_5m: Tokens written with a TTL of 5 minutes.
        write_1h: Tokens written with a TTL of 1 hour.
        write_other: Tokens written with another TTL, or one that is not known.
        output: Tokens generated.
        state: What it says of cached tokens.
        flags: ``STRONG``, ``OVER``, ``DOUBLED``, ``TOTAL_INCLUSIVE``, ``TOTAL_EXCLUSIVE``, ``TTL_ASSUMED``.
    """

    dialect: Dialect
    prompt: int | None
    read: int | None
    write_5m: int | None
    write_1h: int | None
    write_other: int | None
    output: int | None
    state: UsageState
    flags: int

    @property
    def parts(self) -> int:
        """Tokens read and written."""
        return sum(n or 0 for n in (self.read, self.write_5m, self.write_1h, self.write_other))

    def set_on(self, row: Row) -> None:
        """Put it on a row; where the rows of the source must tell what the prompt count means, that stays open.

        Raises:
            BadRecordError: It contradicts a rule that its dialect always keeps.
        """
        row.prompt_tokens, row.output_tokens = self.prompt, self.output
        row.cached_tokens, row.usage_state = self.read, self.state
        row.cache_write_5m_tokens, row.cache_write_1h_tokens = self.write_5m, self.write_1h
        row.cache_write_other_tokens = self.write_other
        if self.prompt is None or not self.parts:
            return
        if not self.dialect.fixed:
            row.convention = Convention(
                self.dialect.name, self.dialect.rule, self.flags, self.prompt, self.read or 0, self.parts
            )
        elif self.dialect.rule == "exclusive":
            row.prompt_tokens = self.prompt + self.parts
        elif self.parts > self.prompt:
            raise BadRecordError(why_impossible(self.prompt, self.read or 0, self.parts))


def usage_dialect(usage: Mapping[str, Any]) -> Dialect | None:
    """Return the first dialect whose marks a usage object bears, or None."""
    for dialect in DIALECTS:
        if any(marks <= usage.keys() for marks in dialect.marks):
            return dialect
    return None


def read_usage(usage: Mapping[str, Any], dialect: str | None = None) -> Usage | None:
    """Read a usage object.

    Args:
        usage: The object, or a flat one of attributes that holds usage among others.
        dialect: Name of its dialect where the format says so by itself; None goes by its fields.

    Returns:
        What it says; None where it bears no mark of any dialect.

    Raises:
        BadRecordError: A field is no count, or the fields break a rule; the rule is named.
    """
    spelling = usage_dialect(usage) if dialect is None else BY_NAME[dialect]
    if spelling is None:
        return None
    prompt = _first(usage, spelling.prompt)[0]
    if spelling.name == "deepseek":
        prompt = _hit_and_miss(usage, prompt)
    if prompt is not None:
        prompt += sum(_first(usage, names)[0] or 0 for names in spelling.added)
    read, state = _first(usage, spelling.read)
    if state == "absent" and spelling.zero_if_absent and prompt is not None:
        read, state = 0, "present"
    short, long, other, assumed = _written(usage, spelling)
    output = _output(usage, spelling, prompt)
    found = Usage(spelling, prompt, read, short, long, other, output, state, TTL_ASSUMED * assumed)
    total = _first(usage, spelling.total)[0]
    flags = found.flags | _evidence(prompt, read or 0, found.parts, output or 0, total)
    return Usage(spelling, prompt, read, short, long, other, output, state, flags)


def apply_usage(row: Row, usage: Mapping[str, Any], dialect: str | None = None) -> Usage | None:
    """Read a usage object onto a row; see ``read_usage`` and ``Usage.set_on``.

    Example:
        A reader calls ``apply_usage(row, record["usage"])``, or names the dialect: ``apply_usage(row, attrs, "otel")``.
    """
    found = read_usage(usage, dialect)
    if found is not None:
        found.set_on(row)
    return found


def doubled_block(prompt: int, read: int) -> int | None:
    """Return the block size with which ``read`` is twice the longest prefix of whole blocks, or None.

    Example:
        >>> doubled_block(87, 128), doubled_block(2_023, 3_968), doubled_block(87, 80)
        (64, 64, None)
    """
    if read % 2 or read <= prompt:
        return None
    for size in _BLOCK_SIZES:
        if read == 2 * ((prompt - 1) // size * size):
            return size
    return None


def why_impossible(prompt: int, read: int, parts: int) -> str:
    """Return the reason to reject a row that breaks 0 <= read + written <= prompt, with a hint where there is a pattern.

    Args:
        prompt: Prompt tokens.
        read: Tokens read from cache.
        parts: Tokens read and written.
    """
    if read <= prompt:
        return f"impossible usage: {read} read + {parts - read} written of {prompt} prompt tokens"
    block = doubled_block(prompt, read)
    hint = "" if block is None else f", twice the whole {block}-token blocks: two nodes may both have counted"
    return f"absurd number: {read} cached of {prompt} prompt tokens{hint}"


def _evidence(prompt: int | None, read: int, parts: int, output: int, total: int | None) -> int:
    if prompt is None or not parts:
        return 0
    flags = OVER if parts > prompt else 0
    if read > prompt or (flags and total != prompt + output):
        flags |= STRONG
    if read == parts and doubled_block(prompt, read) is not None:
        flags |= DOUBLED
    if total == prompt + output:
        flags |= TOTAL_INCLUSIVE
    elif total == prompt + parts + output:
        flags |= TOTAL_EXCLUSIVE
    return flags


def _first(usage: Mapping[str, Any], paths: tuple[str, ...]) -> tuple[int | None, UsageState]:
    """Return the first count among some fields, and whether any was there.

    Raises:
        BadRecordError: A later one is neither equal nor zero: they are the same number twice, never addends.
    """
    found: int | None = None
    chosen, state = "", "absent"
    for path in paths:
        present, value = _at(usage, path)
        if not present:
            continue
        if value is None:
            state = "null" if state == "absent" else state
            continue
        number, state = _count(value, path), "present"
        if not found:
            found, chosen = number, path
        elif number not in (0, found):
            raise BadRecordError(
                f"impossible usage: {chosen} is {found}, {path} {number}, and both mean the same"
            )
    return found, "present" if state == "present" else "null" if state == "null" else "absent"


def _at(usage: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Return whether a field is there, and its value; inside an object that is null it is null."""
    if path in usage:
        return True, usage[path]
    outer, slash, inner = path.partition("/")
    if not slash or outer not in usage:
        return False, None
    held = usage[outer]
    if held is None:
        return True, None
    return _at(held, inner) if isinstance(held, dict) else (False, None)


def _count(value: Any, name: str) -> int:
    """Return a count, also one written as text, as proto3 JSON writes 64-bit numbers.

    Raises:
        BadRecordError: It is no whole number, negative or absurd.
    """
    if isinstance(value, str) and (number := integer(value)) is not None:
        value = number
    return checked_count(value, name.replace("/", "."))


def _hit_and_miss(usage: Mapping[str, Any], prompt: int | None) -> int | None:
    hit, miss = (_first(usage, (f"prompt_cache_{what}_tokens",))[0] for what in ("hit", "miss"))
    if hit is None or miss is None:
        return prompt
    if prompt is not None and hit + miss != prompt:
        raise BadRecordError(
            f"impossible usage: {hit} hit + {miss} missed are not the {prompt} prompt tokens"
        )
    return hit + miss


def _written(usage: Mapping[str, Any], spelling: Dialect) -> tuple[int | None, int | None, int | None, bool]:
    """Return written tokens by TTL: 5 minutes, 1 hour, any other; and whether the TTL had to be assumed.

    Raises:
        BadRecordError: The split does not sum to the total.
    """
    split = _by_ttl(usage, spelling.ttl_list)
    if spelling.ttl_list is None or split == (None, None, None):
        others = [_first(usage, (path,))[0] for path in spelling.write_other]
        known = [number for number in others if number is not None]
        short, long = (_first(usage, paths)[0] for paths in (spelling.write_5m, spelling.write_1h))
        split = (short, long, sum(known) if known else None)
    total = _first(usage, tuple(path for path, _ in spelling.write))[0]
    if split != (None, None, None):
        summed = sum(number or 0 for number in split)
        if total is not None and summed != total:
            raise BadRecordError(f"impossible usage: {summed} written by TTL, but {total} written in all")
        return *split, False
    if total is None:
        return None, None, None, False
    meant = next(ttl for path, ttl in spelling.write if _at(usage, path)[1] is not None)
    if meant == "other":
        return None, None, total, False
    return total, None, None, total > 0


def _by_ttl(usage: Mapping[str, Any], name: str | None) -> tuple[int | None, int | None, int | None]:
    entries = usage.get(name) if name is not None else None
    if not isinstance(entries, list):
        return None, None, None
    sums: dict[str, int] = {}
    for entry in entries:
        if isinstance(entry, dict) and entry.get("inputTokens") is not None:
            ttl = entry["ttl"] if entry.get("ttl") in ("5m", "1h") else "other"
            sums[ttl] = sums.get(ttl, 0) + _count(entry["inputTokens"], f"{name}.inputTokens")
    # A list names all that was written, so that what it leaves out is nothing, and not a lifetime that nobody said.
    return (sums.get("5m", 0), sums.get("1h", 0), sums.get("other")) if sums else (None, None, None)


def _output(usage: Mapping[str, Any], spelling: Dialect, prompt: int | None) -> int | None:
    """Return generated tokens: the sum of what is given; for Gemini, which leaves out zeros, else what the total says."""
    given = [_first(usage, names)[0] for names in spelling.output]
    known = [number for number in given if number is not None]
    if known or not spelling.zero_if_absent:
        return sum(known) if known else None
    total = _first(usage, spelling.total)[0]
    return None if total is None or prompt is None or total < prompt else total - prompt
