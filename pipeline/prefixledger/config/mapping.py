"""Map files: how the columns of a log that no reader knows become the columns of ``requests``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from prefixledger.config.toml_file import Part, must_exist, near_hint, read_toml, refusal, validated

if TYPE_CHECKING:
    from pathlib import Path

Unit = Literal["s", "ms", "us", "ns", "iso"]
UNITS: Final = get_args(Unit)
TIMES: Final = ("started_at", "admitted_at", "first_token_at", "finished_at")
TEXTS: Final = (
    "request_id",
    "provider",
    "model",
    "release",
    "client",
    "tenant",
    "session_id",
    "replica",
    "adapter",
    "cache_salt",
    "service_tier",
    "inference_geo",
    "namespace",
)
COUNTS: Final = (
    "prompt_tokens",
    "output_tokens",
    "cached_tokens_observed",
    "cache_write_5m_tokens_observed",
    "cache_write_1h_tokens_observed",
    "cache_write_other_tokens_observed",
    "router_expected_tokens",
)
PATHS: Final = ("token_ids", "block_ids", "text")
OTHERS: Final = ("duration", "weight", "status", "prompt_complete", "bypassed", "images", "parts")
COLUMNS: Final = (*TIMES, *TEXTS, *COUNTS, *PATHS, *OTHERS)


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise refusal(f"there is no time zone {name!r}", "write a name such as Europe/Berlin") from None
    return name


class Source(Part):
    """Where a column comes from.

    Attributes:
        from_: Name of the field, or a dotted path into nested objects.
        unit: Unit of a time or duration: one of ``s, ms, us, ns, iso``; it is final, nothing is guessed.
        zone: Zone of ISO times that name none; UTC if left out.
        value: The same text for every row, in place of a field.
    """

    from_: Annotated[str, Field(min_length=1)] | None = Field(default=None, alias="from")
    unit: Annotated[Unit, BeforeValidator(lambda unit: must_exist(str(unit), UNITS, "unit"))] | None = None
    zone: Annotated[str, AfterValidator(_zone)] | None = None
    value: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Source:
        if (self.from_ is None) == (self.value is None):
            raise refusal(
                "a column needs either 'from' or 'value'", 'write { from = "field" } or { value = "text" }'
            )
        return self


def _source(value: Any) -> Any:
    return {"from": value} if isinstance(value, str) else value


class Mapping(Part):
    """A map file.

    Attributes:
        format: How the file is written.
        block_size: Tokens a block.
        block_ids: Whether the trailing partial block has an id (``ceil``) or not (``floor``); absent: either.
        clock: Whether times count from a start of their own; absent: told from the first times.
        id_scope: Over what block ids are unique; absent: the file.
        columns: Our column names, and where each comes from.
    """

    format: Literal["jsonl", "csv", "parquet"]
    block_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    block_ids: Literal["floor", "ceil"] | None = None
    clock: Literal["relative", "absolute"] | None = None
    id_scope: Literal["file", "global"] | None = None
    columns: dict[str, Annotated[Source, BeforeValidator(_source)]]

    @model_validator(mode="after")
    def _columns_fit(self) -> Mapping:
        for name, source in self.columns.items():
            if name not in COLUMNS:
                raise refusal(
                    f"there is no column {name!r}", near_hint(name, COLUMNS, "columns"), at=("columns", name)
                )
            _check_column(name, source)
        paths = [name for name in PATHS if name in self.columns]
        if len(paths) > 1:
            raise refusal(
                f"{' and '.join(paths)} exclude each other", "keep one of them", at=("columns", paths[1])
            )
        if "started_at" not in self.columns:
            raise refusal(
                "started_at is missing", 'write started_at = { from = "…", unit = "s" }', at=("columns",)
            )
        if "prompt_tokens" not in self.columns and not {"token_ids", "text"} & set(paths):
            raise refusal(
                "prompt_tokens is missing", "only token_ids or text can stand in for it", at=("columns",)
            )
        if "duration" in self.columns and "finished_at" in self.columns:
            raise refusal(
                "duration and finished_at exclude each other", "keep one", at=("columns", "duration")
            )
        if "images" in self.columns and paths != ["token_ids"]:
            raise refusal(
                "images need token_ids",
                "only token ids say which blocks they lie in",
                at=("columns", "images"),
            )
        if "parts" in self.columns and not {"token_ids", "block_ids"} & set(paths):
            raise refusal(
                "parts need token_ids or block_ids",
                "they say what the ids are made of; a text is cut into parts by itself",
                at=("columns", "parts"),
            )
        return self


def _check_column(name: str, source: Source) -> None:
    at = ("columns", name)
    is_time = name in TIMES or name == "duration"
    if source.unit is not None and not is_time:
        raise refusal(f"{name} has no unit", "only times and duration have one", at=at)
    if name == "duration" and source.unit in (None, "iso"):
        raise refusal("duration needs a unit", f"one of {', '.join(UNITS[:4])}", at=at)
    if source.zone is not None and (not is_time or source.unit not in (None, "iso")):
        raise refusal(f"{name} has no zone", 'only times of unit "iso" have one', at=at)
    if source.value is not None and name not in TEXTS:
        raise refusal(f"{name} cannot be the same for every row", 'write { from = "field" }', at=at)


def load_mapping(path: Path) -> Mapping:
    """Read a map file.

    Raises:
        UsageError: It cannot be read, or something in it is wrong; the place is the key at fault.
    """
    file = read_toml(path)
    return validated(Mapping, file, file.data)
