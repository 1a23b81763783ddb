"""The command line: searches, their filters, and what bad ones are told."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from backscroll import Backscroll
from tests.cli.calling import KEY, Run, complaint, document, url


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
