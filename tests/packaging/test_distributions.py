"""The wheel, the sdist and an editable install hold exactly what they must."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import prefixledger
from support import ROOT

pytestmark = pytest.mark.packaging

RESOURCES = ("sql", "reports", "sample_traces")
MOST_SAMPLE_BYTES = 2_000_000
WRITTEN_BY_HATCHLING = {"PKG-INFO"}
ALWAYS_PACKED = {".gitignore", "LICENSE", "README.md", "pyproject.toml"}


def _run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _project_files() -> set[str]:
    """Return all files of the project: those that git knows and those that it would not ignore."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout: what belongs to the project is what git says")
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, without a network."""
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture
def bare_environment(tmp_path: Path) -> Path:
    """Make an environment that has our dependencies, and of us nothing; return its interpreter."""
    folder = tmp_path / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
    python = folder / "bin" / "python"
    site = Path(
        _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    )
    # Folders named in a .pth are searched, but a .pth inside them is not read: our own editable install stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    missing = subprocess.run(
        [python, "-c", "import prefixledger"], cwd=tmp_path, capture_output=True, check=False
    )
    assert missing.returncode == 1, "the environment must not see the package before it is installed"
    return python


def _install(python: Path, *what: str | Path, cwd: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install")
    _run(*pip, "--no-index", "--no-deps", "--no-build-isolation", *what, cwd=cwd)


def test_the_sdist_is_the_project(distributions: tuple[Path, Path]) -> None:
    """Nothing is lost and nothing slips in."""
    with tarfile.open(distributions[0]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()} - WRITTEN_BY_HATCHLING
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = tuple(
        name.strip("/") for name in config["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    )
    files = _project_files()
    expected = {name for name in files if name.startswith(tuple(f"{w}/" for w in wanted)) or name in wanted}
    assert packed == expected | (files & ALWAYS_PACKED)
    assert {name.split("/")[0] for name in files} == {name.split("/")[0] for name in packed}


def test_the_wheel_is_the_package_and_its_resources(distributions: tuple[Path, Path]) -> None:
    """Each of sql/, reports/ and sample_traces/ contributes at least one file, under _resources/."""
    with zipfile.ZipFile(distributions[1]) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = _project_files()
    code = {name.removeprefix("pipeline/") for name in files if name.startswith("pipeline/")}
    data = {
        f"prefixledger/_resources/{name}"
        for name in files
        if name.startswith(tuple(f"{r}/" for r in RESOURCES))
    }
    for resource in RESOURCES:
        assert any(name.startswith(f"prefixledger/_resources/{resource}/") for name in data)
    assert packed == code | data
    assert "prefixledger/py.typed" in packed


def test_the_samples_are_small() -> None:
    """They travel in every wheel."""
    sizes = [(ROOT / name).stat().st_size for name in _project_files() if name.startswith("sample_traces/")]
    assert 0 < sum(sizes) < MOST_SAMPLE_BYTES


def test_a_wheel_works_where_there_is_no_checkout(
    distributions: tuple[Path, Path], bare_environment: Path, tmp_path: Path
) -> None:
    """The command starts, and the resources come out of the installation."""
    _install(bare_environment, distributions[1], cwd=tmp_path)
    command = bare_environment.parent / "prefixledger"
    assert prefixledger.__version__ in _run(command, "--version", cwd=tmp_path)
    assert "demo" in _run(command, "demo", "--help", cwd=tmp_path)
    code = "from prefixledger.resources import resource_dir as r\n" + "\n".join(
        f"assert '_resources' in str(r({kind!r})) and any(r({kind!r}).iterdir())" for kind in RESOURCES
    )
    _run(bare_environment, "-I", "-c", code, cwd=tmp_path)


def test_an_editable_install_reads_the_checkout(bare_environment: Path, tmp_path: Path) -> None:
    """A changed template or statement counts at once."""
    _install(bare_environment, "-e", ROOT, cwd=tmp_path)
    code = (
        "import prefixledger; from prefixledger.resources import resource_dir as r\n"
        f"print(prefixledger.__file__, *(r(kind) for kind in {RESOURCES!r}), sep='\\n')"
    )
    module, *folders = _run(bare_environment, "-I", "-c", code, cwd=tmp_path).split()
    assert Path(module).is_relative_to(ROOT / "pipeline")
    assert folders == [str(ROOT / kind) for kind in RESOURCES]


def test_the_version_is_said_once_and_the_same() -> None:
    """``__version__``, pyproject.toml and the installed metadata agree."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert prefixledger.__version__ == config["project"]["version"] == version("prefixledger")


def test_constraints_pin_every_dependency_and_name_no_host() -> None:
    """Names and versions only, and each dependency of pyproject.toml is among them."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {}
    for line in lines:
        name, equal, number = line.partition("==")
        assert equal, line
        assert number, line
        pinned[name.lower().replace("_", "-")] = number
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [
        item for group in config["dependency-groups"].values() for item in group if isinstance(item, str)
    ]
    for requirement in (
        *config["project"]["dependencies"],
        *config["build-system"]["requires"],
        *groups,
        "pip>=0",
    ):
        assert re.split(r"[\[>]", requirement)[0].lower() in pinned
