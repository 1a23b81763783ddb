"""Files and folders that cannot be used, or only be read."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from backscroll import Backscroll, StoreUnavailable
from tests.damage.a_store import (
    ONE,
    OPERATOR,
    rows,
    whole,
)
from tests.factories import opened


def test_a_folder_and_a_place_that_does_not_exist_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "store.db"):
        with pytest.raises(StoreUnavailable):
            opened(path)


def test_a_store_opened_read_only_is_read_and_searched_and_refuses_writes(path: Path) -> None:
    before = rows(path, "SELECT * FROM backscroll_messages")
    with Backscroll.open(f"sqlite:///file:{path}?mode=ro&uri=true") as scroll:
        assert whole(scroll)
        assert len(scroll.history(ONE, requester=OPERATOR).messages) == 4
        assert scroll.sessions(requester=OPERATOR)
        for call in (
            lambda: scroll.append(ONE, "user", "more"),
            lambda: scroll.ensure_session("agent:main:new"),
            lambda: scroll.delete_session(ONE),
            lambda: scroll.verify(),
            lambda: scroll.repair(),
            lambda: scroll.maintain(vacuum=True),
        ):
            with pytest.raises(StoreUnavailable, match="readonly"):
                call()
    assert rows(path, "SELECT * FROM backscroll_messages") == before


READER = """
import os, sys
from backscroll import Backscroll, Requester, StoreUnavailable
# What is imported late is imported here, while this user may still read it.
with Backscroll.open("sqlite:///:memory:") as scroll:
    scroll.ensure_session("agent:main:one")
    scroll.append("agent:main:one", "user", "more")
    scroll.search("more", requester=Requester.operator())
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with Backscroll.open(sys.argv[1]) as scroll:
        print("found", len(scroll.search("place33", requester=Requester.operator()).hits))
        scroll.append("agent:main:one", "user", "more")
except StoreUnavailable as error:
    print("refused", error)
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # Without its log and with no right to make one SQLite cannot even read, unless it is told that nobody writes.
        ("", ["refused"]),
        ("?mode=ro&uri=true", ["refused"]),
        ("?immutable=1&uri=true", ["found 2", "refused"]),
    ],
)
def test_a_file_and_folder_that_may_only_be_read(query: str, expected: list[str], path: Path) -> None:
    with opened(path) as scroll:
        scroll.maintain()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "store.db"
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o444)
        copy.parent.chmod(0o555)
        url = f"sqlite:///file:{copy}{query}" if query else f"sqlite:///{copy}"
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", READER, url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        copy.parent.chmod(0o755)
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected), done.stderr
    assert all(line.startswith(beginning) for line, beginning in zip(lines, expected, strict=True)), lines
