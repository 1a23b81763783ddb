"""The command line in a process of its own: pipes, locales, full disks, interrupts."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backscroll import Backscroll
from tests.cli.calling import EXAMPLES, KEY, ROOT, process, url


def test_the_first_minute_in_an_empty_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    imported = process("import", str(EXAMPLES), cwd=work)
    assert (imported.returncode, imported.stderr) == (0, b"")
    assert imported.stdout.endswith(b"now try: backscroll search WORDS\n")
    found = process("search", "ferry naxos", cwd=work)
    assert (found.returncode, found.stderr) == (0, b"")
    command = shlex.split(found.stdout.decode().splitlines()[2])
    assert command[:3] == ["backscroll", "open", KEY]
    opened = process(*command[1:], cwd=work)
    assert opened.returncode == 0
    assert b"<- this one" in opened.stdout
    assert b"\x1b" not in imported.stdout + found.stdout + opened.stdout
    assert [one.name for one in work.iterdir()] == ["backscroll.db"]


def test_arguments_that_are_no_utf8(tmp_path: Path, imported_store: Path) -> None:
    for arguments, code in (
        ([b"search", b"ferry \xff", b"--match", b"any"], 0),
        ([b"search", b"x", b"--\xff"], 2),
        ([b"import", b"\xff"], 3),
    ):
        result = process(*arguments, cwd=tmp_path, env={"BACKSCROLL_DATABASE_URL": url(imported_store)})
        assert result.returncode == code, arguments
        assert b"Traceback" not in result.stderr
    result = process(b"--database", b"sqlite:///\xff.db", b"migrate", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_locale_that_cannot_write_it(tmp_path: Path, imported_store: Path) -> None:
    env = {"BACKSCROLL_DATABASE_URL": url(imported_store), "PYTHONIOENCODING": "latin-1"}
    shown = process("search", "恢复演练", cwd=tmp_path, env=env)
    assert shown.returncode == 0
    assert rb"\u6062\u590d" in shown.stdout
    answered = process("search", "恢复演练", "--json", cwd=tmp_path, env=env)
    assert "恢复演练" in json.loads(answered.stdout.decode("utf-8"))["hits"][0]["excerpt"]


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, imported_store: Path, how: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "backscroll", "--database", url(imported_store), "search", "ferry", *how]
    try:
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_full_disk_is_one_line(imported_store: Path, how: list[str]) -> None:
    command = [sys.executable, "-m", "backscroll", "--database", url(imported_store), "search", "ferry", *how]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120
        )
    assert (done.returncode, done.stderr) == (3, b"backscroll: No space left on device\n")


def test_interrupted(tmp_path: Path) -> None:
    lines = [json.dumps({"type": "session", "version": 3, "id": "big"})]
    said = {"role": "user", "content": "again and again"}
    lines += [
        json.dumps(
            {"type": "message", "id": f"m{number}", "parentId": f"m{number - 1}" if number else None, "message": said}
        )
        for number in range(60_000)
    ]
    (tmp_path / "big.jsonl").write_text("\n".join(lines))
    store = tmp_path / "backscroll.db"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "backscroll", "import", "big.jsonl"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=pipe, stderr=pipe) as running:
        until = time.monotonic() + 60
        while stored_messages(store) == 0 and running.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout, stderr) == (130, b"", b"backscroll: interrupted\n")
    assert 0 < stored_messages(store) < 60_000
    assert not list(tmp_path.glob("*.db-*"))
    with Backscroll.open(url(store)) as scroll:
        assert scroll.verify().ok


def stored_messages(path: Path) -> int:
    """How many messages a store holds that may be in the making."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM backscroll_messages").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
