"""Logs on object storage are read as those on disk are: as they lie there, by name, folder or pattern."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest_support import FIXTURES, ingest, tree
from prefixledger import objects
from prefixledger.errors import InputError
from prefixledger.ingest import opened
from prefixledger.ingest.sources import resolve
from storage_support import upload

if TYPE_CHECKING:
    from pathlib import Path

    from storage_support import Asked


@pytest.fixture
def logs(bucket: str, tmp_path: Path) -> tuple[Path, str]:
    """A folder of three logs, one of them packed and one a batch beside its answers, here and in the store."""
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    packed = gzip.compress((FIXTURES / "dynamo.jsonl").read_bytes(), mtime=0)
    (folder / "deep" / "dynamo.jsonl.gz").write_bytes(packed)
    shutil.copy(FIXTURES / "litellm.jsonl", folder / "litellm.jsonl")
    (folder / ".hidden.jsonl").write_text("no log\n", encoding="utf-8")
    url = objects.joined(bucket, "logs")
    upload(folder, url)
    return folder, url


def test_a_folder_is_read_as_on_disk(logs: tuple[Path, str], tmp_path: Path) -> None:
    """Every file of the workspace has the same bytes, and the account names the same files."""
    folder, url = logs
    here = ingest(tmp_path / "here", str(folder))
    there = ingest(tmp_path / "there", url)
    assert tree(tmp_path / "here") == tree(tmp_path / "there")
    assert [one.path for one in there.summary.inputs] == ["deep/dynamo.jsonl.gz", "litellm.jsonl"]
    assert there.summary == here.summary


def test_columnar_logs_are_read_as_on_disk(bucket: str, tmp_path: Path) -> None:
    """Parquet and Arrow, which need random access, and Parquet that is packed."""
    folder = tmp_path / "logs"
    folder.mkdir()
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'format = "parquet"\nblock_size = 2\n[columns]\nstarted_at = { from = "ts", unit = "s" }\ntoken_ids = "ids"\n',
        encoding="utf-8",
    )
    tables = [
        pa.table({"ts": [day, day + 1], "ids": [[1, 2, 3, 4], [1, 2, day]]})
        for day in (1_795_953_600, 1_796_040_000)
    ]
    pq.write_table(tables[0], folder / "a.parquet")
    with pa.ipc.new_file(str(folder / "b.arrow"), tables[1].schema) as out:
        out.write_table(tables[1])
    (folder / "c.parquet.gz").write_bytes(gzip.compress((folder / "a.parquet").read_bytes(), mtime=0))
    upload(folder, objects.joined(bucket, "logs"))
    ingest(tmp_path / "here", str(folder), map_file=plan)
    there = ingest(tmp_path / "there", objects.joined(bucket, "logs"), map_file=plan)
    assert [one.kept for one in there.summary.inputs] == [2, 2, 0]
    assert tree(tmp_path / "here") == tree(tmp_path / "there")


def test_credentials_of_a_profile_are_used(bucket: str, asked: list[Asked], tmp_path: Path) -> None:
    """The files of the aws tool, and the profile that the environment names, for logs and workspace alike."""
    objects.put(FIXTURES / "litellm.jsonl", objects.joined(bucket, "log.jsonl"))
    asked.clear()
    credentials, settings = tmp_path / "credentials", tmp_path / "config"
    credentials.write_text(
        "[default]\naws_access_key_id = other\naws_secret_access_key = s\n"
        "[logs]\naws_access_key_id = mine\naws_secret_access_key = s\n",
        encoding="utf-8",
    )
    settings.write_text("[profile logs]\nregion = eu-central-1\n", encoding="utf-8")
    environment = {
        name: value for name, value in os.environ.items() if "KEY" not in name and name != "AWS_REGION"
    }
    environment |= {
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_CONFIG_FILE": str(settings), "AWS_PROFILE": "logs",
    }  # fmt: skip
    command = ["ingest", f"{bucket}/log.jsonl", "--workspace", f"{bucket}/ws", "-q"]
    subprocess.run([sys.executable, "-m", "prefixledger", *command], check=True, env=environment)
    assert {one.key for one in asked} == {"mine"}
    assert objects.find(f"{bucket}/ws/published.json") is not None


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("logs/*.jsonl", ["litellm.jsonl"]),
        ("logs/*/*.gz", ["deep/dynamo.jsonl.gz"]),
        ("logs/**/*.jsonl*", ["deep/dynamo.jsonl.gz", "litellm.jsonl"]),
        ("logs/lite[kl]lm.jsonl", ["litellm.jsonl"]),
        ("logs/litellm.jsonl", ["litellm.jsonl"]),
    ],
)
def test_patterns_match_as_on_disk(
    logs: tuple[Path, str], pattern: str, found: list[str], tmp_path: Path
) -> None:
    """A star ends at a slash, two stars do not, and hidden files are left out."""
    folder, url = logs
    there = resolve([objects.joined(url.rpartition("/")[0], pattern)], outside=tmp_path)
    assert [one.label for one in there] == found
    assert {one.label for one in resolve([str(folder.parent / pattern)], outside=tmp_path)} == set(found)


@pytest.mark.parametrize("missing", ["logs/none.jsonl", "logs/*.csv", "elsewhere"])
def test_what_is_not_there_is_said(logs: tuple[Path, str], missing: str, tmp_path: Path) -> None:
    """A name, a pattern and a folder without objects are errors that name the URL."""
    url = objects.joined(logs[1].rpartition("/")[0], missing)
    with pytest.raises(InputError, match=r"no such object|matches no object") as error:
        ingest(tmp_path / "ws", url)
    assert str(error.value.place) == url


def test_a_bucket_that_is_not_ours_is_said(bucket: str, tmp_path: Path) -> None:
    """What the store answers is shown with what to look at."""
    with pytest.raises(InputError) as error:
        ingest(tmp_path / "ws", bucket + "-of-others/log.jsonl")
    assert "no such" in error.value.message or "AWS_ENDPOINT_URL" in (error.value.hint or "")


def test_an_object_replaced_while_it_is_read_is_refused(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its later parts would be those of another log."""
    url = objects.joined(bucket, "log.jsonl")
    objects.put(FIXTURES / "litellm.jsonl", url)
    later = tmp_path / "later"
    later.write_bytes((FIXTURES / "litellm.jsonl").read_bytes() * 2)
    find = opened._Object.version_now  # the moment between the last part and the look at the name

    def replaced(self: opened._Object) -> tuple[int, ...] | None:
        objects.put(later, url)
        return find(self)

    monkeypatch.setattr(opened._Object, "version_now", replaced)  # as above
    with pytest.raises(InputError, match="written to while it was read"):
        ingest(tmp_path / "ws", url)
