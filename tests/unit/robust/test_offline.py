"""The whole line from logs to the report works without a network, and asks for none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ingest_support import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

UNSHARE = ("unshare", "--net", "--map-root-user")
LOGS = ("litellm.jsonl", "dynamo.jsonl")
CHILD = """
import socket, sys
def refuse(event, arguments):
    # Sockets between processes of this machine are no network.
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"} and not isinstance(arguments[-1], str):
        sys.exit(f"{event} {arguments}")
sys.addaudithook(refuse)
from prefixledger.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


def _can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["a namespace without a network", "a process that may not ask for one"])
def test_the_whole_line_needs_no_network(inside: str, tmp_path: Path) -> None:
    """Prices, tokenizers, fonts and scripts come with the package; what asks for an address fails."""
    around: tuple[str, ...] = ()
    if inside.startswith("a namespace"):
        if not _can_unshare():
            pytest.skip("unshare --net is not allowed here, so the network cannot be taken away")
        around = (*UNSHARE, "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "sh")
    done = subprocess.run(
        [*around, sys.executable, "-c", CHILD, "report", *(str(FIXTURES / name) for name in LOGS), "--jobs", "2",
         "--workspace", str(tmp_path / "ws"), "-o", str(tmp_path / "week.html")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "week.html").read_text(encoding="utf-8")
    assert 'src="http' not in page
    assert "@import" not in page
