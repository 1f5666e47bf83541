"""A TOML file read together with the place of each of its keys, so that a bad value can be pointed at."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from prefixledger.errors import Place, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pydantic_core import ErrorDetails

_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=\s*")
_INLINE = re.compile(rf"[{{,]\s*({_KEY})\s*=")
_DECODE_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")

Loc = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Part(BaseModel):
    """Base of everything read from a file: frozen, no unknown keys, no silent change of type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class TomlFile:
    """The content of a TOML file.

    Attributes:
        path: The path as the user gave it.
        data: The parsed document.
        places: 1-based line and column of each table and key.
    """

    path: str
    data: dict[str, Any]
    places: dict[Loc, tuple[int, int]]

    def place(self, loc: Loc) -> Place:
        """Return where ``loc`` stands, or the nearest enclosing key that was found."""
        for end in range(len(loc), 0, -1):
            if loc[:end] in self.places:
                return Place(self.path, *self.places[loc[:end]])
        return Place(self.path)


def read_toml(path: Path) -> TomlFile:
    """Read and parse one file.

    Raises:
        UsageError: It cannot be read, is not UTF-8 or is not TOML.
    """
    try:
        return parse_toml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror or error}", place=Place(str(path))) from error
    except UnicodeDecodeError as error:
        raise UsageError("it is not UTF-8 text", place=Place(str(path)), hint="save it as UTF-8") from error


def parse_toml(text: str, path: str) -> TomlFile:
    """Parse a document; ``path`` names it in messages.

    Raises:
        UsageError: It is not TOML; the place is the line and column at fault.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _DECODE_PLACE.search(str(error))
        lines = text.split("\n")
        row, column = (at[1], at[2]) if at and at[1] else (len(lines), len(lines[-1]) + 1)
        place = Place(path, int(row), int(column))
        message = _DECODE_PLACE.sub("", str(error))
        raise UsageError(f"it is not TOML: {message[:1].lower()}{message[1:]}", place=place) from error
    except (ValueError, RecursionError) as error:  # Python makes no number of thousands of digits
        raise UsageError(
            "it is not TOML that can be read: a number is too long, or lists lie too deep in each other",
            place=Place(path),
        ) from error
    return TomlFile(path, data, dict(_places(text)))


def validated(model: type[M], file: TomlFile, data: dict[str, Any], prefix: Loc = ()) -> M:
    """Validate ``data`` and point at the key that is at fault.

    Args:
        model: What the data must be.
        file: Where they come from.
        data: The document, possibly rearranged.
        prefix: Leading part of locations that the rearrangement added and the file lacks.

    Raises:
        UsageError: The first fault in the order of the file; the number of the others is said.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = []
        for detail in error.errors(include_url=False):
            loc = _within(data, (*detail["loc"], *detail.get("ctx", {}).get("at", ())))
            own = loc[len(prefix) :] if loc[: len(prefix)] == prefix else loc
            faults.append((file.place(own), own, detail))
        # A misspelt key is also a missing one: the misspelling says more.
        faults.sort(key=lambda f: (f[2]["type"] == "missing", f[0].line or 0, f[0].column or 0))
        place, own, detail = faults[0]
        message, hint = _said(model, own, detail)
        if len(faults) > 1:
            message += f" ({len(faults) - 1} more after it)"
        raise UsageError(message, place=place, hint=hint) from None


def refusal(message: str, hint: str, *, at: Loc = ()) -> PydanticCustomError:
    """Return what a validator raises so that its message and hint reach the user.

    Args:
        message: What is wrong.
        hint: What to do.
        at: The key at fault, below the part that is validated.
    """
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint, "at": at})


def must_exist(value: str, known: Iterable[str], what: str) -> str:
    """Return ``value`` if it is known; else refuse it, naming all that exist.

    Args:
        value: What the user wrote.
        known: All that exist, in the order to show.
        what: The noun for the message.
    """
    names = list(known)
    if value not in names:
        raise refusal(f"there is no {what} {value!r}", near_hint(value, names, f"{what}s that exist"))
    return value


def near_hint(value: str, known: Iterable[str], title: str) -> str:
    """Return ``did you mean …?`` where something is near, then everything that exists."""
    names = list(known)
    near = difflib.get_close_matches(value, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{guess}{title}: {', '.join(names)}"


def checked(parse: Callable[[str], T], text: str) -> T:
    """Run a parser that raises UsageError inside a validator."""
    try:
        return parse(text)
    except UsageError as error:
        raise refusal(error.message, error.hint or "") from None


def _said(model: type[BaseModel], loc: Loc, detail: ErrorDetails) -> tuple[str, str | None]:
    name = ".".join(str(part) for part in loc if not isinstance(part, int))
    context = detail.get("ctx", {})
    if detail["type"] == "refused":
        return (f"{name}: {context['message']}" if name else context["message"]), context["hint"] or None
    if detail["type"] == "extra_forbidden":
        known = _keys_beside(model, detail["loc"])
        return f"unknown key {name!r}", near_hint(str(loc[-1]), known, "keys here")
    if detail["type"] == "missing":
        return f"{name} is missing", None
    if detail["type"] == "tuple_type":
        return f"{name}: it must be a list", f"write [[{name}]] where a table is meant"
    reason = detail["msg"][:1].lower() + detail["msg"][1:]
    return f"{name}: {reason}, not {detail['input']!r}", None


def _keys_beside(model: type[BaseModel], loc: Loc) -> list[str]:
    """Walk the models along ``loc`` and list the keys of the last one."""
    current = model
    for part in loc[:-1]:
        field = current.model_fields.get(str(part))
        current = next(_models(field.annotation), current) if field else current
    return [field.alias or name for name, field in current.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _within(document: Any, loc: Loc) -> Loc:
    """Drop the parts of a location that name a branch of a union and not a key of the document."""
    kept: list[str | int] = []
    for number, part in enumerate(loc):
        is_key = isinstance(document, dict) and part in document
        is_index = isinstance(document, list) and isinstance(part, int) and part < len(document)
        if is_key or is_index:
            document = document[part]
        elif number < len(loc) - 1 or not isinstance(document, dict):
            continue
        kept.append(part)
    return tuple(kept)


def _places(text: str) -> Iterator[tuple[Loc, tuple[int, int]]]:
    """Find tables and keys line by line; the document is known to be valid."""
    table: Loc = ()
    counts: dict[Loc, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = _open_table(_parts(header[2]), counts, many=header[1] == "[[")
            yield table, (number, header.start(2) + 1)
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment is not None:
            loc = (*table, *_parts(assignment[1]))
            yield loc, (number, assignment.start(1) + 1)
            if line.startswith("{", assignment.end()):
                for inner in _INLINE.finditer(line, assignment.end()):
                    yield (*loc, *_parts(inner[1])), (number, inner.start(1) + 1)


def _open_table(parts: tuple[str, ...], counts: dict[Loc, int], *, many: bool) -> Loc:
    loc: Loc = ()
    for part in parts[:-1] if many else parts:
        loc = (*loc, part)
        if loc in counts:
            loc = (*loc, counts[loc] - 1)
    if many:
        loc = (*loc, parts[-1])
        counts[loc] = counts.get(loc, 0) + 1
        loc = (*loc, counts[loc] - 1)
    return loc


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))
