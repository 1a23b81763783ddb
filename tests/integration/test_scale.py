"""A requester who may see very many sessions is answered like one who sees a few."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, Settings
from backscroll.infrastructure import fts

VISIBLE, HIDDEN, EACH = 40_000, 5, 3
ZIRCON = {5, 6, 20_000, VISIBLE + 1, VISIBLE + 3}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40,000 sessions of two agents below one root, and five of an agent that nobody else may read."""
    path = tmp_path_factory.mktemp("crowd") / "store.db"
    Backscroll.open(f"sqlite:///{path}").close()
    numbers = range(1, VISIBLE + HIDDEN + 1)
    with closing(sqlite3.connect(path)) as plain:
        plain.executemany("INSERT INTO backscroll_agents VALUES (?, ?)", [(1, "a1"), (2, "a2"), (3, "b")])
        plain.executemany(
            "INSERT INTO backscroll_sessions (id, session_key, agent_pk, kind, incognito, created_at, updated_at,"
            " metadata, spawned_by) VALUES (?, ?, ?, 'other', 0, 1, 1, '{}', ?)",
            [
                (n, f"agent:{name}:{n}", agent, None if agent == 3 else "agent:a1:root")
                for n in numbers
                for agent, name in [(3, "b") if n > VISIBLE else (1 + n % 2, f"a{1 + n % 2}")]
            ],
        )
        plain.executemany(
            "INSERT INTO backscroll_transcripts (id, session_pk, session_id, started_at, is_current)"
            " VALUES (?, ?, ?, 1, 1)",
            [(n, n, f"S{n}") for n in numbers],
        )
        plain.executemany(
            "INSERT INTO backscroll_messages (id, transcript_pk, message_id, parent_pk, depth, shown, role, active,"
            " created_at, text, indexed) VALUES (?, ?, ?, ?, ?, ?, 'user', 1, ?, ?, 1)",
            [
                (pk, n, f"m{place}", pk - 1 if place else None, place + 1, place + 1, pk, f"short {place} of {n}{tail}")
                for n in numbers
                for place in range(EACH)
                for pk in [(n - 1) * EACH + place + 1]
                for tail in [" zircon" if n in ZIRCON and place == 1 else ""]
            ],
        )
        plain.executemany(
            "INSERT INTO backscroll_branches (transcript_pk, branch_id, head_pk, active, created_at)"
            " VALUES (?, 'b', ?, 1, 1)",
            [(n, n * EACH) for n in numbers],
        )
        plain.execute(f"INSERT INTO {fts.INDEX}({fts.INDEX}) VALUES ('rebuild')")
        plain.commit()
    return path


@pytest.fixture(params=["agents", "tree"])
def seeing_many(crowded: Path, request: pytest.FixtureRequest) -> Iterator[Backscroll]:
    """The store as somebody sees it to whom 40,000 sessions are visible, by agent-to-agent access or by the tree."""
    between = {"allow": ["a*"]} if request.param == "agents" else {"enabled": False}
    settings = Settings(database_url=f"sqlite:///{crowded}", agent_to_agent=between, background_reindex=False)
    with Backscroll.open(settings) as scroll:
        yield scroll


ME = Requester("agent:a1:root")


def test_a_rare_word_is_found_in_the_visible_sessions_alone(seeing_many: Backscroll) -> None:
    for order in ("relevance", "newest"):
        page = seeing_many.search("zircon", requester=ME, order=order)
        assert {hit.session_key for hit in page.hits} == {"agent:a2:5", "agent:a1:6", "agent:a1:20000"}
        assert not page.truncated
        assert not page.indexing


def test_a_common_word_and_the_list_need_no_enumeration(seeing_many: Backscroll) -> None:
    page = seeing_many.search("short", requester=ME, limit=25)
    assert len(page.hits) == 25
    assert page.truncated
    listed = seeing_many.sessions(requester=ME, limit=500)
    assert len(listed) == 500
    assert not any(one.agent_id == "b" for one in listed)


def test_many_agents_named_in_a_filter_meet_no_limit(seeing_many: Backscroll) -> None:
    names = [f"agent-{number}" for number in range(40_000)]
    assert len(seeing_many.search("zircon", requester=ME, agents=["a1", *names]).hits) == 2
