"""The command line: opening a message, listing sessions, on whose behalf."""

import re
import shlex
from pathlib import Path

import pytest

from backscroll import Backscroll
from tests.cli.calling import DRIVES, KEY, SHARED, Run, complaint, document, url


def test_open_pages_on_to_the_first_message(samples: Run) -> None:
    command = ["open", "agent:ops:main", "--limit", "5", "--tools"]
    seen: list[str] = []
    for _ in range(100):
        result = samples(*command)
        assert result.exit_code == 0
        seen = re.findall(r"^2026-\S+  \w+  (\S+)$", result.stdout, re.MULTILINE) + seen
        last = result.stdout.splitlines()[-1]
        if not last.startswith("older: "):
            break
        command = shlex.split(last.removeprefix("older: "))[3:]
        assert {"--session-id", "--before", "--limit", "--tools"} <= set(command)
    page = document(samples("open", "agent:ops:main", "--tools", "--json"))
    assert seen == [one["message_id"] for one in page["messages"]]
    assert len(seen) == page["total"] > 5


def test_open_shows_tools_when_asked(run: Run, store_path: Path) -> None:
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(KEY)
        call = {"type": "tool_call", "name": "shell", "arguments": {"command": "uptime"}}
        scroll.append(KEY, "assistant", [{"type": "reasoning", "text": "let me see"}, call])
        scroll.append(KEY, "tool", [{"type": "tool_result", "name": "shell", "text": "up 3 days"}])
        scroll.append(
            KEY, "user", [{"type": "attachment", "media_type": "image/png", "uri": "data:image/png;base64,AA"}]
        )
    short = run("open", KEY).stdout
    assert "[calls shell]" in short
    assert "[image/png]" in short
    assert not re.search("uptime|let me see|up 3 days|base64", short)
    full = run("open", KEY, "--tools").stdout
    assert '[calls shell] {"command": "uptime"}' in full
    assert "[reasoning] let me see" in full
    assert "[shell answers] up 3 days" in full


def test_open_without_a_message_to_show_exits_with_1(samples: Run) -> None:
    result = samples("open", KEY, "--message-id", "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no such message on the active branch" in result.stderr
    result = samples("open", KEY, "--message-id", "none", "--json")
    assert (result.exit_code, document(result)["messages"]) == (1, [])


def test_open_says_what_was_cut_and_masked(run: Run, store_path: Path) -> None:
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "long " * 2_000)
        scroll.append(KEY, "user", "the key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ")
    result = run("open", KEY)
    assert "[cut]" in result.stdout
    assert "sk-ant" not in result.stdout
    assert "[cut]" in result.stderr
    assert "secrets are masked" in result.stderr


def test_sessions_lists_and_pages_on(samples: Run) -> None:
    result = samples("sessions", "--limit", "3")
    assert result.exit_code == 0
    assert "  direct    agent:main:telegram:direct:camille  Camille" in result.stdout
    assert "open one: backscroll " in result.stdout
    command = shlex.split(result.stderr.removeprefix("more sessions: "))
    rest = samples(*command[3:])
    assert KEY in rest.stdout
    assert rest.stderr == ""
    keys = [one["session_key"] for one in document(samples("sessions", "--json"))]
    assert len(keys) == len(set(keys)) == 5
    assert samples("sessions", "--offset", "99").exit_code == 0


def test_reading_on_behalf_of_a_session(run: Run, store_path: Path) -> None:
    secret = "agent:main:secret"
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(secret, incognito=True)
        scroll.append(secret, "user", "heliotrope")
        for key in (KEY, "agent:other:main"):
            scroll.ensure_session(key)
            scroll.append(key, "user", "granite")
    assert run("search", "heliotrope").exit_code == 1
    assert complaint(run("open", secret)) == "no such session"
    assert "heliotrope" in run("open", secret, "--as", secret).stdout
    env = {"BACKSCROLL_VISIBILITY": "self"}
    found = run("search", "granite", "--as", KEY, **env)
    assert found.stdout.count("backscroll ") == 1
    assert found.stdout.rstrip().endswith(f"--as {KEY}")
    assert complaint(run("open", "agent:other:main", "--as", KEY, **env)) == "no such session"
    assert [one["session_key"] for one in document(run("sessions", "--as", KEY, "--json", **env))] == [KEY]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared transcripts are not here")
@pytest.mark.parametrize("folder", ["openclaw/legacy-source", "pi"])
def test_every_message_of_real_transcripts_can_be_read(run: Run, folder: str) -> None:
    assert run("import", str(SHARED / folder)).exit_code == 0
    for session in document(run("sessions", "--json")):
        result = run("open", session["session_key"], "--tools", "--limit", "200")
        assert result.exit_code == 0
        assert not DRIVES.search(result.output)
    assert run("verify").exit_code == 0
