"""Makes the published JSON Schema of ``report.json`` from its types: ``python -m prefixledger.report.document.schema FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from prefixledger.report.document.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "prefixledger report"


class _Untitled(GenerateJsonSchema):
    """Without the titles that would only repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # overrides
        return False


def schema() -> dict[str, Any]:
    """Return the schema; class docstrings and those under a key are its descriptions."""
    adapter: TypeAdapter[Report] = TypeAdapter(Report)
    made = adapter.json_schema(schema_generator=_Untitled)
    for one in _objects(made):
        one.pop("title", None)
        if "description" in one:
            one["description"] = " ".join(str(one["description"]).split())
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": TITLE, **made}


def text() -> str:
    """Return the published file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema in a schema, but not the maps from names to schemas, in which a name may be ``title``."""
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            nested = list(value.values())
        else:
            nested = value if isinstance(value, list) else [value]
        for one in nested:
            if isinstance(one, dict):
                yield from _objects(one)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
