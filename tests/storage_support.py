"""A server that speaks the protocol of S3 on loopback, for tests of object storage."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from prefixledger import objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BUCKETS = count()
_FIRST_BYTE = re.compile(r"bytes=(\d+)-")
_SIGNED_BY = re.compile(r"Credential=([^/]+)/")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the store.

    Attributes:
        method: As ``GET``.
        path: ``/BUCKET/KEY``.
        first_byte: Of the part that is asked for; None for the whole.
        key: Name of the credentials that signed it; empty where nobody did.
    """

    method: str
    path: str
    first_byte: int | None
    key: str


@contextmanager
def store() -> Iterator[list[Asked]]:
    """Start a server, and let the environment name it, as a user's would; yield what it is asked."""
    from moto.server import ThreadedMotoServer  # 1 s that only these tests pay

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    asked = _listened(server)
    settings = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:{1}".format(*server.get_host_and_port()),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield asked
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()


def _listened(server: Any) -> list[Asked]:
    asked, answers = list[Asked](), server._server.app

    def listen(environ: dict[str, Any], start: Any) -> Any:
        part = _FIRST_BYTE.match(environ.get("HTTP_RANGE", ""))
        key = _SIGNED_BY.search(environ.get("HTTP_AUTHORIZATION", ""))
        asked.append(
            Asked(
                environ["REQUEST_METHOD"],
                environ["PATH_INFO"],
                int(part[1]) if part else None,
                key[1] if key else "",
            )
        )
        return answers(environ, start)

    server._server.app = listen
    return asked


def new_bucket() -> str:
    """Make an empty bucket and return its URL."""
    from pyarrow.fs import S3FileSystem  # as above

    name = f"bucket-{next(_BUCKETS)}"
    S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True).create_dir(
        name
    )
    return objects.SCHEME + name


def upload(folder: Path, url: str) -> None:
    """Put all files of a folder below a URL."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            objects.put(path, objects.joined(url, path.relative_to(folder).as_posix()))


def names(url: str) -> list[str]:
    """Return what is below a URL, by its path there."""
    return [one.url.removeprefix(url + "/") for one in objects.find_below(url)]
