"""What is built and installed: the distribution holds exactly the package, and works far from the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# Where each folder of the checkout goes in the installed package.
FOLDERS = {
    "backscroll": "backscroll",
    "domain": "backscroll/domain",
    "services": "backscroll/services",
    "infrastructure": "backscroll/infrastructure",
    "alembic": "backscroll/migrations",
}
LINKS = {"domain": "domain", "services": "services", "infrastructure": "infrastructure", "migrations": "alembic"}
LEFT_BEHIND = shutil.ignore_patterns(
    *(".git", ".venv", "build", "dist", "site", "*.egg-info", "*_cache", "__pycache__", "*.db", "*.db-*", "*.whl"),
    *(".hypothesis", ".benchmarks", ".cache"),
)

USE = """
import sys
from pathlib import Path

import backscroll
from backscroll import Backscroll, Requester

place = Path(backscroll.__file__).parent
assert place.parent == Path(sys.argv[1]), place
with Backscroll.open("sqlite:///elsewhere.db") as scroll:
    scroll.ensure_session("agent:main:main", title="Trip")
    scroll.append("agent:main:main", "user", "Book the ferry to Naxos; 备份策略 after that")
    for words in ("ferry naxos", "备份"):
        (hit,) = scroll.search(words, requester=Requester("agent:main:other")).hits
        page = scroll.history(
            hit.session_key, requester=Requester.operator(), session_id=hit.session_id, message_id=hit.message_id
        )
        assert [message.message_id for message in page.messages] == [hit.message_id]
    assert scroll.verify().ok
with Backscroll.open("sqlite:///elsewhere.db", migrate=False):
    pass

import asyncio
import sqlalchemy as sa


async def in_a_host():
    engine = sa.create_engine("sqlite:///host.db")
    for _ in range(2):
        with engine.begin() as connection:
            backscroll.migrate(connection)
    Backscroll.open(engine, migrate=False).close()
    engine.dispose()


asyncio.run(in_a_host())
assert Path(backscroll.version_location()).parent.parent == place
"""

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(not (ROOT / "backscroll/domain").is_symlink(), reason="an unpacked sdist has no links"),
]


def run(*command: str | Path, cwd: Path) -> str:
    """The command's output; its environment knows nothing of the checkout or of the interpreter that runs this."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "BACKSCROLL_", "COV_")) and name != "VIRTUAL_ENV"
    }
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def python_in(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, links and all, without what tools have made in it."""
    copy = tmp_path_factory.mktemp("source") / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_BEHIND)
    return copy


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """The folder with the sdist and with the wheel that was built from it."""
    folder = checkout.parent / "dist"
    run(sys.executable, "-m", "build", "--outdir", folder, checkout, cwd=checkout.parent)
    return folder


def files_below(folder: Path) -> set[PurePosixPath]:
    """The files of a checkout that no tool has made, each under its real path alone."""
    ignored = LEFT_BEHIND(str(folder), [path.name for path in folder.iterdir()])
    found: set[PurePosixPath] = set()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in ignored:
            found |= {PurePosixPath(path.name) / below for below in files_below(path)}
        elif path.is_file() and path.name not in ignored:
            found.add(PurePosixPath(path.name))
    return found


def test_links_lead_to_the_folders_that_are_packaged(checkout: Path) -> None:
    found = {path.name: os.readlink(path) for path in (checkout / "backscroll").iterdir() if path.is_symlink()}
    assert found == {name: f"../{folder}" for name, folder in LINKS.items()}


def test_wheel_holds_the_package_and_nothing_else(built: Path, checkout: Path) -> None:
    (wheel,) = built.glob("*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not re.match(r"backscroll-[^/]+\.dist-info/", name)}
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        assert "License-Expression: MIT" in archive.read(metadata).decode()
    expected = {
        f"{target}/{name}"
        for folder, target in FOLDERS.items()
        for name in files_below(checkout / folder)
        if name.suffix == ".py" or name.name in ("py.typed", "script.py.mako")
    }
    assert names == expected


def test_sdist_holds_the_project_once(built: Path, checkout: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert all(member.isfile() or member.isdir() for member in members)
    names = {PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in members if member.isfile()}
    made = {PurePosixPath("PKG-INFO"), PurePosixPath("setup.cfg")}
    names = {name for name in names - made if name.parts[0] != "backscroll.egg-info"}
    assert names == files_below(checkout) - {PurePosixPath(".gitignore")}


def test_installations_work_in_another_folder(built: Path, checkout: Path, tmp_path: Path) -> None:
    python = python_in(tmp_path / "venv")
    command = python.parent / "backscroll"
    work = tmp_path / "work"
    work.mkdir()
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "-q", wheel, cwd=work)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=work).strip()
    run(python, "-W", "error", "-c", USE, packages, cwd=work)

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in run(command, "--version", cwd=work)
    run(command, "migrate", cwd=work)
    imported = json.loads(run(command, "import", ROOT / "examples" / "transcripts", "--json", cwd=work))
    assert imported["messages"] > 0
    assert not imported["problems"]
    found = json.loads(run(command, "search", "ferry", "--json", cwd=work))
    assert found["hits"]
    assert (work / "backscroll.db").is_file()

    # The same environment, now with the checkout in the place of the wheel.
    run(python, "-m", "pip", "install", "-q", "--no-deps", "-e", checkout, cwd=work)
    (work / "elsewhere.db").unlink()
    (work / "host.db").unlink()
    run(python, "-W", "error", "-c", USE, checkout, cwd=work)
    assert json.loads(run(command, "search", "ferry", "--json", cwd=work)) == found


def test_lock_pins_what_the_project_asks_for() -> None:
    pins = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [Requirement(line) for line in [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]]
    assert {one.name: pins.get(one.name) for one in asked if not one.specifier.contains(pins.get(one.name, "0"))} == {}


def test_lock_names_no_host() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
