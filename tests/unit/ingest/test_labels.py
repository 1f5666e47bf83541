"""Fields of the envelope that split a log into a few groups become labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest_support import ingest, mooncake, write_lines
from prefixledger.ingest.envelope import user_key

if TYPE_CHECKING:
    from pathlib import Path


def _labels(tmp_path: Path, **fields: Any) -> list[dict[str, str]]:
    rows = [mooncake(at, [1], **{name: make(at) for name, make in fields.items()}) for at in range(120)]
    rows = [{name: value for name, value in row.items() if value != "absent"} for row in rows]
    return [
        dict(row["labels"])
        for row in ingest(tmp_path / "ws", write_lines(tmp_path / "t_blksz_16.jsonl", rows)).requests
    ]


def test_two_to_fifty_values_make_a_label(tmp_path: Path) -> None:
    """One value splits nothing and more than 50 are no groups."""
    labels = _labels(
        tmp_path,
        one=lambda _: "x",
        two=lambda at: at % 2,
        fifty=lambda at: f"v{at % 50}",
        many=lambda at: at % 51,
    )
    assert labels[0] == {"two": "0", "fifty": "v0"}
    assert labels[119] == {"two": "1", "fifty": "v19"}


def test_only_short_scalars_are_candidates(tmp_path: Path) -> None:
    """Lists, objects, floats and long texts are not; booleans and absent values are fine."""
    labels = _labels(
        tmp_path,
        flag=lambda at: at % 2 == 0,
        listed=lambda at: [at % 2],
        measured=lambda at: at % 2 + 0.5,
        long=lambda at: str(at % 2) * 65,
        sometimes=lambda at: "ab"[at % 2] if at < 10 else "absent",
    )
    assert labels[0] == {"flag": "true", "sometimes": "a"}
    assert labels[11] == {"flag": "false"}


def test_user_ids_are_hashed(tmp_path: Path) -> None:
    """A user id may split a log, and does not appear in it."""
    labels = _labels(tmp_path, user_id=lambda at: f"person-{at % 3}")
    assert labels[0] == {"user_id": user_key("person-0")}
    assert labels[0] == labels[3] != labels[1]
    assert all(b"person-" not in path.read_bytes() for path in (tmp_path / "ws").rglob("*.parquet"))


def test_labels_do_not_depend_on_chunks(tmp_path: Path) -> None:
    """A field that turns out to have too many values late leaves no trace in earlier rows."""
    rows = [mooncake(at, [1], late=at % 2 if at < 5_000 else at) for at in range(5_200)]
    path = write_lines(tmp_path / "t_blksz_16.jsonl", rows)
    for number, chunk in enumerate((1, 1_000_000)):
        result = ingest(tmp_path / f"ws{number}", path, chunk_bytes=chunk)
        assert not any(row["labels"] for row in result.requests)
