from __future__ import annotations

import pytest

from prefixledger.config.engine_versions import adapter_key, frees_in_line
from prefixledger.config.scenario import Cache, dump, parse_scenario
from prefixledger.errors import UsageError


@pytest.mark.parametrize(
    ("version", "in_line"),
    [
        ("0.11", True),
        ("0.16.0", True),
        ("v0.22.1", True),
        ("0.24.0", False),
        ("0.33", False),
        ("1.0.2", False),
    ],
)
def test_a_version_says_where_freed_blocks_without_a_hash_go(version, in_line):
    """Up to 0.22 behind all others, from 0.24 on before them."""
    assert frees_in_line(version) is in_line
    assert Cache(version=version).unhashed_in_line is in_line


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("0.11.2", "id"),
        ("0.12", None),
        ("0.16.0", "name"),
        ("v0.30.0", "name"),
        ("0.31", None),
        ("0.32.0", "name and path"),
        (None, "name and path"),
    ],
)
def test_a_version_says_what_an_adapter_is_known_by(version, key):
    """By its number, by its name, or by name and path; between versions that were read nothing is guessed."""
    assert adapter_key(version) == key


@pytest.mark.parametrize("version", ["0.23", "0.23.2", "0.10.9", "0.9"])
def test_a_version_that_nobody_read_is_refused(version):
    """Between two known rules nothing is guessed."""
    with pytest.raises(UsageError, match="not known"):
        frees_in_line(version)


@pytest.mark.parametrize("version", ["", "0", "latest", "0.22.", "0.22rc1", "-1.2"])
def test_what_is_no_version_is_refused(version):
    """Words and halves of versions."""
    with pytest.raises(UsageError, match="no version"):
        frees_in_line(version)


def test_without_a_version_the_newest_rule_holds_and_a_given_one_is_kept():
    """Absent it stands behind a comment sign; given it is read back."""
    assert not Cache().unhashed_in_line
    assert "# version =" in dump(parse_scenario(""))
    given = parse_scenario('[cache]\nversion = "0.22.1"\n')
    assert parse_scenario(dump(given)).pool[0].cache == given.pool[0].cache
    assert given.pool[0].cache.unhashed_in_line


def test_only_vllm_has_versions():
    """A version beside another profile is an error with its place, not ignored; so is one that is unknown."""
    with pytest.raises(UsageError, match="profile 'sglang' has no versions") as refused:
        parse_scenario('[cache]\nprofile = "sglang"\nversion = "0.22"\n')
    assert str(refused.value.place).endswith("3:1")
    with pytest.raises(UsageError, match=r"vLLM 0\.23 are not known"):
        parse_scenario('[cache]\nversion = "0.23"\n')
