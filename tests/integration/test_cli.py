"""The command line: what it prints for people and programs, its exit codes, and what it does with bad input."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from backscroll import Backscroll
from backscroll.cli import app
from backscroll.infrastructure import migrate
from backscroll.terminal import one_line, plain, quoted

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "transcripts"
FIXTURES = ROOT / "tests" / "fixtures" / "transcripts"
SHARED = ROOT.parent / "shared" / "data"
KEY = "agent:main:main"
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What may never reach a terminal from a transcript."""

Run = Callable[..., Result]


def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def run(store_path: Path) -> Run:
    """Runs a command on the fresh store."""

    def run_it(*arguments: str, database: str | None = url(store_path), **env: str | None) -> Result:
        named = [] if database is None else ["--database", database]
        result = CliRunner().invoke(app, [*named, *arguments], env=env, catch_exceptions=False, prog_name="backscroll")
        assert "Traceback" not in result.output
        return result

    return run_it


@pytest.fixture(scope="session")
def imported_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imported") / "store.db"
    with Backscroll.open(url(path)) as scroll:
        scroll.import_transcripts(EXAMPLES)
    return path


@pytest.fixture
def samples(run: Run, store_path: Path, imported_store: Path) -> Run:
    """Runs a command on a store with the sample transcripts."""
    shutil.copyfile(imported_store, store_path)
    return run


def document(result: Result) -> Any:
    """The one JSON document on stdout."""
    return json.loads(result.stdout_bytes.decode("utf-8"))


def complaint(result: Result) -> str:
    """The one line on stderr, with nothing on stdout."""
    assert result.stdout == ""
    assert re.fullmatch(r"backscroll: [^\n]+\n", result.stderr), result.stderr
    return result.stderr.removeprefix("backscroll: ").rstrip("\n")


def process(*arguments: str | bytes, cwd: Path, **changes: Any) -> "subprocess.CompletedProcess[bytes]":
    """`python -m backscroll` in a process of its own, whose standard streams are pipes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **changes.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "backscroll", *arguments], cwd=cwd, env=env, capture_output=True, timeout=120, **changes
    )


# Help


def test_help_names_every_command_and_exit_code(run: Run) -> None:
    result = run("--help", database=None)
    assert result.exit_code == 0
    for word in ("import", "search", "open", "sessions", "reindex", "verify", "migrate", "Exit codes", "130"):
        assert word in result.stdout


@pytest.mark.parametrize("command", ["import", "search", "open", "sessions", "reindex", "verify", "migrate"])
def test_every_command_explains_itself_and_answers_in_json(run: Run, command: str) -> None:
    result = run(command, "--help", database=None)
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_version(run: Run) -> None:
    assert run("--version", database=None).stdout.startswith("backscroll ")


def test_usage_errors_exit_with_2(run: Run) -> None:
    for arguments in ([], ["nonsense"], ["search"], ["search", "x", "--limit", "many"], ["open"], ["\udcff"]):
        assert run(*arguments).exit_code == 2, arguments


# Importing


def test_import_reports_and_says_what_to_try_next(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "o'clock.db"
    first = run("import", str(EXAMPLES), database=url(store))
    assert first.exit_code == 0
    assert "6 files, 6 transcripts: 72 new messages, 0 known already" in first.stdout
    assert first.stderr == ""
    following = first.stdout.splitlines()[-1].removeprefix("now try: ")
    assert shlex.split(following) == ["backscroll", "--database", url(store), "search", "WORDS"]
    again = run("import", str(EXAMPLES), database=url(store))
    assert "0 new messages, 72 known already" in again.stdout


def test_import_in_json(run: Run) -> None:
    report = document(run("import", str(FIXTURES / "ten-lines.jsonl"), "--json"))
    assert (report["files"], report["messages"], report["bad"]) == (1, 3, 4)
    assert [(one["file"], one["line"]) for one in report["problems"]] == [
        ("ten-lines.jsonl", number) for number in (4, 6, 8, 10)
    ]


def test_import_names_the_bad_lines_and_counts_the_rest(run: Run, tmp_path: Path) -> None:
    header = '{"type":"session","version":3,"id":"S1","timestamp":"2026-02-01T09:00:00.000Z"}\n'
    said = '{"type":"message","id":"m1","parentId":null,"message":{"role":"user","content":"hello"}}\n'
    (tmp_path / "S1.jsonl").write_text(header + said + "[broken\n" * 23)
    result = run("import", str(tmp_path / "S1.jsonl"))
    assert result.exit_code == 0
    assert "23 bad lines" in result.stdout
    assert len(re.findall(r"S1\.jsonl, line \d+: ", result.stdout)) == 20
    assert "S1.jsonl, line 3: " in result.stdout
    assert "and 3 more" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["import", "nowhere"], 3),
        (["import", "empty"], 3),
        (["import", str(EXAMPLES), "--format", "nonsense"], 2),
        (["import", str(EXAMPLES), "--agent", ""], 2),
        (["import", "no\udcffwhere"], 3),
        (["search", "word"], 3),
        (["open", KEY], 3),
        (["sessions"], 3),
        (["reindex"], 3),
        (["verify"], 3),
        (["verify", "--repair"], 3),
        (["migrate", "--check"], 3),
        (["search", "word", "--since", "yesterday"], 2),
    ],
)
def test_what_fails_makes_no_store(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    work = tmp_path / "work"
    (work / "empty").mkdir(parents=True)
    monkeypatch.chdir(work)
    result = run(*arguments, database=None)
    assert result.exit_code == code
    assert complaint(result)
    assert [one.name for one in work.rglob("*")] == ["empty"]


def test_a_missing_store_is_named_with_what_makes_one(run: Run, tmp_path: Path) -> None:
    said = complaint(run("search", "word", database=url(tmp_path / "none.db")))
    assert str(tmp_path / "none.db") in said
    assert "backscroll import PATH" in said


def test_the_settings_name_the_store(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = tmp_path / "named.db"
    assert run("import", str(EXAMPLES), database=None, BACKSCROLL_DATABASE_URL=url(named)).exit_code == 0
    assert named.exists()
    found = run("search", "ferry", database=None, BACKSCROLL_DATABASE_URL=url(named))
    # The variable is still set for the next command.
    assert "    backscroll open " in found.stdout
    assert run("migrate", database=None).exit_code == 0
    assert (tmp_path / "backscroll.db").exists()


# Searching


def test_a_hit_shows_time_role_session_excerpt_and_the_command_that_opens_it(samples: Run, store_path: Path) -> None:
    result = samples("search", "ferry", "naxos", "--limit", "1")
    assert result.exit_code == 0
    head, excerpt, command, *_ = result.stdout.splitlines()
    assert re.fullmatch(r"2026-\d\d-\d\dT\d\d:\d\dZ  (user|assistant)  agent:main:main", head)
    assert {"ferry", "Naxos"} <= set(re.findall(r"\w+", excerpt))
    words = shlex.split(command)
    assert words[:5] == ["backscroll", "--database", url(store_path), "open", KEY]
    opened = samples(*words[3:])
    assert opened.exit_code == 0
    marked = [line for line in opened.stdout.splitlines() if line.startswith("> ")]
    assert len(marked) == 1
    assert head.split("  ")[0] in marked[0]
    assert words[words.index("--message-id") + 1] in marked[0]


def test_search_in_json(samples: Run) -> None:
    result = samples("search", "恢复演练", "--json")
    page = document(result)
    assert result.stderr == ""
    assert set(page) == {"hits", "indexing", "truncated"}
    assert "恢复演练" in page["hits"][0]["excerpt"]
    assert "恢复演练".encode() in result.stdout_bytes


def test_search_without_a_hit_exits_with_1(samples: Run) -> None:
    result = samples("search", "zeppelin")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "nothing found\n")
    result = samples("search", "zeppelin", "--json")
    assert (result.exit_code, document(result)["hits"], result.stderr) == (1, [], "")


def test_search_says_when_more_messages_match(samples: Run) -> None:
    assert "more messages match" in samples("search", "the", "--limit", "2").stderr
    assert "more messages match" not in samples("search", "hydrofoil").stderr


def test_search_takes_every_filter(samples: Run) -> None:
    def hits(*arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = document(samples("search", *arguments, "--limit", "25", "--json"))["hits"]
        return found

    everywhere = hits("the")
    assert {one["session_key"] for one in hits("the", "--session", "agent:ops:main")} == {"agent:ops:main"}
    assert {one["session_key"] for one in hits("the", "--agent", "ops")} == {"agent:ops:main"}
    assert len(hits("the", "--agent", "ops", "--agent", "main")) == len(everywhere)
    assert {one["role"] for one in hits("the", "--role", "user")} == {"user"}
    assert len(hits("the", "--role", "user", "--role", "assistant")) == len(everywhere)
    assert all(one["timestamp"] >= "2026-03-03" for one in hits("the", "--since", "2026-03-03"))
    assert all(one["timestamp"] < "2026-03-03" for one in hits("the", "--until", "2026-03-03"))
    newest = [one["timestamp"] for one in hits("the", "--order", "newest")]
    assert newest == sorted(newest, reverse=True)
    assert hits("hydrof", "--match", "prefix")
    assert len(hits("hydrofoil zeppelin", "--match", "any")) == len(hits("hydrofoil"))
    assert not hits('"naxos ferry"')


def test_times_without_a_zone_are_utc(run: Run, store_path: Path) -> None:
    with Backscroll.open(url(store_path)) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "early bird")

    stamp = document(run("search", "bird", "--json"))["hits"][0]["timestamp"].removesuffix("Z")
    for since in (stamp, f"{stamp}Z", f"{stamp}+00:00", f"{stamp}+02:00", stamp[:10]):
        assert run("search", "bird", "--since", since, TZ="Pacific/Auckland").exit_code == 0, since
    for since in (f"{stamp}-02:00", "9999-12-31"):
        assert run("search", "bird", "--since", since).exit_code == 1, since


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["search", "!?"], "no searchable word"),
        (["search", "\udcff"], "no searchable word"),
        (["search", "x", "--since", "yesterday"], "--since must be a date such as 2026-01-31"),
        (["search", "x", "--until", "2026-02-30"], "--until must be a date"),
        (["search", "x", "--until", "\udcff\x1b"], "--until must be a date"),
        (["search", "x", "--since", "0001-01-01T00:00+14:00"], "out of range"),
        (["search", "x", "--limit", "-1"], "limit must be a whole number from 1 to 25"),
        (["search", "x", "--match", "most"], "all, any, prefix"),
        (["search", "x", "--order", "oldest"], "relevance, newest"),
        (["search", "x", "--role", "tool"], "assistant, user"),
        (["search", "x", "--agent", "\udcff"], "agents must not hold"),
        (["search", "x", "--session", "agent:main:none"], "no such session"),
        (["search", "x" * 5000], "at most 4096"),
        (["search", "x", "--as", ""], "must not be empty"),
        (["open", ""], "must not be empty"),
        (["open", "\udcff"], "must not hold"),
        (["open", "agent:main:none"], "no such session"),
        (["open", KEY, "--session-id", "none"], "not of this session key"),
        (["open", KEY, "--message-id", "x" * 257], "at most 256"),
        (["open", KEY, "--message-id", "x", "--offset", "1"], "exclude each other"),
        (["open", KEY, "--limit", "201"], "from 1 to 200"),
        (["sessions", "--offset", "-1"], "offset must be"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(samples: Run, arguments: list[str], part: str) -> None:
    result = samples(*arguments)
    assert result.exit_code == 2
    assert part in complaint(result)


# Opening and listing


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


# Text that would drive a terminal

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


# Keeping the index


def test_an_old_store_is_migrated_and_reindexed_step_by_step(samples: Run, store_path: Path) -> None:
    engine = sa.create_engine(url(store_path))
    with engine.begin() as connection:
        migrate.downgrade(connection, "0001")
    engine.dispose()

    for command in (["search", "ferry"], ["open", KEY], ["sessions"], ["verify"], ["reindex"]):
        result = samples(*command)
        assert result.exit_code == 3
        assert "run `backscroll migrate`" in complaint(result)
    checked = samples("migrate", "--check")
    assert checked.exit_code == 1
    assert "schema revision 0001" in complaint(checked)
    checked = samples("migrate", "--check", "--json")
    assert (checked.exit_code, document(checked)) == (1, {"current": False, "changed": False})
    assert document(samples("migrate", "--json")) == {"current": True, "changed": True}
    assert document(samples("migrate", "--json")) == {"current": True, "changed": False}
    checked = samples("migrate", "--check")
    assert (checked.exit_code, checked.stdout) == (0, "the schema is up to date\n")

    waiting = samples("search", "ferry", BACKSCROLL_BACKGROUND_REINDEX="false")
    assert waiting.exit_code == 1
    assert "still being indexed" in waiting.stderr
    assert waiting.stderr.rstrip().endswith("reindex")
    assert "transcripts waiting for the index" in samples("verify", BACKSCROLL_BACKGROUND_REINDEX="false").stdout
    done = samples("reindex")
    assert done.exit_code == 0
    assert "6 transcripts brought up to date" in done.stdout
    assert document(samples("reindex", "--json"))["transcripts"] == 0
    assert samples("search", "ferry").exit_code == 0


def test_migrating_makes_a_store(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert run("migrate", database=url(path)).stdout == "the schema was brought up to date\n"
    assert run("sessions", database=url(path)).stderr == "no sessions to show\n"
    assert [one.name for one in tmp_path.glob("new.db*")] == ["new.db"]


def test_verify_tells_of_disagreement_and_repairs_it(samples: Run, store_path: Path) -> None:
    assert document(samples("verify", "--json"))["ok"] is True
    connection = sqlite3.connect(store_path)
    connection.execute("INSERT INTO backscroll_message_index(backscroll_message_index) VALUES ('delete-all')")
    connection.commit()
    connection.close()
    broken = samples("verify")
    assert broken.exit_code == 1
    assert "index and transcripts disagree" in broken.stdout
    repair = shlex.split(broken.stderr.removeprefix("to make them agree: "))
    assert repair[3:] == ["verify", "--repair"]
    assert (result := samples("verify", "--json")).exit_code == 1
    assert document(result)["ok"] is False
    repaired = samples(*repair[3:])
    assert repaired.exit_code == 0
    assert "index and transcripts agree: 72 messages" in repaired.stdout


# Stores and settings that cannot be used


@pytest.mark.parametrize(
    ("database", "part"),
    [
        ("backscroll.db", "use a form such as sqlite:///backscroll.db"),
        ("", "use a form such as"),
        ("postgresql://localhost/x", "use a sqlite:/// URL"),
        ("sqlite:////", "unable to open"),
        ("sqlite:////no/such/folder/store.db", "no store"),
    ],
)
def test_a_store_that_cannot_be_opened(run: Run, database: str, part: str) -> None:
    for command in (["sessions"], ["import", str(EXAMPLES)], ["migrate"]):
        result = run(*command, database=database)
        assert result.exit_code == 3
        assert part in complaint(result)


def test_a_file_that_is_no_database_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes\n" * 50)
    for command in (["search", "x"], ["migrate"], ["import", str(EXAMPLES)]):
        result = run(*command, database=url(path))
        assert result.exit_code == 3
        assert "not a database" in complaint(result)
    assert path.read_text() == "not a database, but somebody's notes\n" * 50
    assert [one.name for one in tmp_path.glob("notes*")] == ["notes.txt"]


@pytest.mark.parametrize("name", ["file:{}?uri=true", "{}?uri=true", "file:{}?mode=ro&uri=true"])
def test_a_store_named_as_sqlite_uri(run: Run, tmp_path: Path, imported_store: Path, name: str) -> None:
    missing = run("search", "ferry", database="sqlite:///" + name.format(tmp_path / "none.db"))
    assert missing.exit_code == 3
    assert "none.db" in complaint(missing)
    assert not list(tmp_path.glob("none*"))
    copy = tmp_path / "copy.db"
    shutil.copyfile(imported_store, copy)
    assert run("search", "ferry", database="sqlite:///" + name.format(copy)).exit_code == 0


def test_a_locked_store(samples: Run, store_path: Path) -> None:
    other = sqlite3.connect(store_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert samples("search", "ferry", BACKSCROLL_BUSY_TIMEOUT="0").exit_code == 0
        result = samples("import", str(FIXTURES), BACKSCROLL_BUSY_TIMEOUT="0")
    finally:
        other.close()
    assert result.exit_code == 3
    assert "locked" in complaint(result)


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("BACKSCROLL_VISIBILITY", "most", "BACKSCROLL_VISIBILITY: Input should be 'self', 'tree', 'agent' or 'all'"),
        ("BACKSCROLL_BOUNDS__SEARCH_HITS", "0", "BACKSCROLL_BOUNDS__SEARCH_HITS: "),
        ("BACKSCROLL_BOUNDS", '{"search_hits": 0}', "BACKSCROLL_BOUNDS (search_hits): "),
        ("BACKSCROLL_BOUNDS", "many", "BACKSCROLL_BOUNDS: must be JSON"),
        ("BACKSCROLL_AGENT_TO_AGENT__ALLOW", "[1]", "BACKSCROLL_AGENT_TO_AGENT__ALLOW (0): "),
        ("BACKSCROLL_SYNCHRONOUS", "OFF", "BACKSCROLL_SYNCHRONOUS: "),
    ],
)
def test_a_wrong_setting_is_named(run: Run, variable: str, value: str, part: str) -> None:
    for command in (["sessions"], ["import", str(EXAMPLES)], ["migrate", "--check"]):
        result = run(*command, **{variable: value})
        assert result.exit_code == 2
        assert part in complaint(result)


def test_a_bug_shows_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Backscroll, "sessions", fail)
    with pytest.raises(ZeroDivisionError):
        run("sessions")


# Processes


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


# Transcripts of real programs


@pytest.mark.skipif(not SHARED.exists(), reason="the shared transcripts are not here")
@pytest.mark.parametrize("folder", ["openclaw/legacy-source", "pi"])
def test_every_message_of_real_transcripts_can_be_read(run: Run, folder: str) -> None:
    assert run("import", str(SHARED / folder)).exit_code == 0
    for session in document(run("sessions", "--json")):
        result = run("open", session["session_key"], "--tools", "--limit", "200")
        assert result.exit_code == 0
        assert not DRIVES.search(result.output)
    assert run("verify").exit_code == 0


def test_maintain_says_what_it_gained(run: Run) -> None:
    run("import", str(EXAMPLES))
    result = run("maintain", "--vacuum")
    assert result.exit_code == 0
    assert "bytes on disk" in result.stdout
    assert json.loads(run("maintain", "--json").stdout)["vacuumed"] is False


def test_prune_lists_first_and_deletes_only_when_asked(run: Run) -> None:
    run("import", str(EXAMPLES))
    before = len(json.loads(run("sessions", "--json").stdout))
    listed = run("prune", "--older-than", "0", "--keep", "1")
    assert listed.exit_code == 0
    assert "may go" in listed.stdout
    assert "--delete" in listed.stderr
    assert len(json.loads(run("sessions", "--json").stdout)) == before
    gone = json.loads(run("prune", "--older-than", "0", "--keep", "1", "--delete", "--json").stdout)
    assert gone["deleted"] is True
    left = json.loads(run("sessions", "--json").stdout)
    assert len(left) == before - len(gone["session_keys"])
    assert run("prune", "--older-than", "-1").exit_code == 2
    assert run("prune", "--older-than", "nan").exit_code == 2
