"""The command line at a terminal: colours, and text that would drive it."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backscroll import Backscroll
from backscroll.terminal import one_line, plain, quoted
from tests.cli.calling import DRIVES, EXAMPLES, KEY, ROOT, Run, document, url

HOSTILE = (
    "[bold red]not markup[/] [/] :boom: \x1b]0;owned\x07\x1b[2J \x9b31m \u202eturned \x00 \ud83d\r over\r\n"
    "next\tline ferry"
)


def test_a_transcript_cannot_drive_the_terminal(run: Run, store_path: Path) -> None:
    key, message_id = "agent:main:it's \x9b31m", "-m\u202e 'q' $(id) \\ \x85"
    call = {"type": "tool_call", "name": HOSTILE, "arguments": HOSTILE}
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(key, title=HOSTILE)
        scroll.append(key, "user", HOSTILE, message_id=message_id)
        scroll.append(key, "assistant", [{"type": "reasoning", "text": HOSTILE}, call])
        scroll.append(key, "tool", [{"type": "tool_result", "name": HOSTILE, "text": HOSTILE}])
        attachment = {"type": "attachment", "media_type": HOSTILE, "name": HOSTILE, "uri": HOSTILE}
        scroll.append(key, "user", [attachment])
    found = run("search", "ferry")
    opened = run("open", "--message-id", message_id, "--tools", "--", key)
    listed = run("sessions")
    for result in (found, opened, listed):
        assert result.exit_code == 0
        assert not DRIVES.search(result.output)
        assert "[bold red]not markup[/] [/] :boom: \u241b]0;owned\u2407\u241b[2J" in result.stdout
    command = found.stdout.splitlines()[2].strip()
    assert spoken_by_bash(command) == [
        *("backscroll", "--database", url(store_path), "open", key),
        *("--session-id", document(run("search", "ferry", "--json"))["hits"][0]["session_id"]),
        *("--message-id", message_id),
    ]
    assert "\n    next" in opened.stdout


def test_colour_marks_the_match_and_nothing_else(run: Run, store_path: Path) -> None:
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "会\u202e\x1b[0m The ferry [b]leaves[/b]. Ferry!")
    coloured = run("search", "ferry", FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="200", NO_COLOR=None)
    assert re.findall("\x1b\\[1;30;43m(.*?)\x1b", coloured.stdout) == ["ferry", "Ferry"]
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured.stdout) == run("search", "ferry").stdout


def test_file_names_cannot_drive_the_terminal(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (b"\x1b[31m\xc2\x9b.jsonl", b"\x1b[32m\xff.jsonl"):
        (folder / os.fsdecode(name)).write_text('{"type":"session","version":3,"id":"S1"}\n[broken\n')
    result = run("import", str(folder))
    assert result.exit_code == 0
    assert "\u241b[31m\ufffd.jsonl, line 2: " in result.stdout
    assert "\u241b[32m\ufffd.jsonl has a name that is no text" in result.stdout
    assert not DRIVES.search(result.output)


@given(st.text())
@example("".join(map(chr, range(0x100))))
@example(HOSTILE)
def test_shown_text_keeps_its_length_and_holds_no_control(text: str) -> None:
    assert len(plain(text)) == len(one_line(text)) == len(text)
    assert not DRIVES.search(plain(text))
    assert "\n" not in one_line(text)


def spoken_by_bash(command: str) -> list[str]:
    """The words that bash makes of a command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    env = {"LC_ALL": "C.UTF-8"}
    done = subprocess.run([bash, "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True, env=env)
    return os.fsdecode(done.stdout).split("\0")[:-1]


def test_quoted_arguments_survive_the_shell() -> None:
    arguments = [
        "plain",
        "",
        "two words",
        "it's",
        "$(id)",
        "\\",
        "-x",
        "会",
        "a\tb",
        "a\nb",
        "\x1b[2J",
        "\x9b'",
        "\u202e\\",
    ]
    arguments += ["\udcff8", "".join(map(chr, range(1, 0x100)))]
    line = " ".join(map(quoted, arguments))
    assert not DRIVES.search(line)
    assert "\n" not in line
    assert spoken_by_bash(line) == arguments


def at_a_terminal(cwd: Path, *arguments: str) -> tuple[int, str]:
    """Runs the command line with a terminal of 80 columns for all its streams: exit code, what the terminal got."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "80"}
    command = [sys.executable, "-m", "backscroll", *arguments]
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        got = bytearray()
        # Linux ends a terminal that nobody holds any more with EIO.
        try:
            while more := os.read(ours, 65536):
                got += more
        except OSError:
            pass
        finally:
            os.close(ours)
        code = running.wait(timeout=120)
    return code, got.decode()


def test_a_person_at_a_terminal_sees_colours_and_progress(tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, "import", str(EXAMPLES))
    assert code == 0
    assert "Importing" in shown
    assert "72 new messages" in shown
    code, shown = at_a_terminal(tmp_path, "search", "terrace")
    assert code == 0
    assert "\x1b[1;30;43mterrace\x1b[0m" in shown
    plain_lines = re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()
    excerpt = [line for line in plain_lines if line.startswith("    ") and not line.startswith("    backscroll ")]
    assert len(excerpt) > 1
    assert max(map(len, excerpt)) <= 80
    code, shown = at_a_terminal(tmp_path, "verify", "--json")
    assert code == 0
    assert "Verifying" in shown
