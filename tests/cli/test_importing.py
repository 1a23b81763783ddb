"""The command line: help, and importing transcripts."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.calling import EXAMPLES, FIXTURES, KEY, Run, complaint, document, url


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
