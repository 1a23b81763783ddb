"""What is found, and in which order, is the same by every way of looking for it."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backscroll import Backscroll, NewMessage, Requester
from backscroll.infrastructure import candidates, frequencies, matching, times
from backscroll.infrastructure.candidates import Candidates
from tests.factories import opened

OPERATOR = Requester.operator()
START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["granite"] * 6 + ["basalt", "mica", "gneiss", "säule", "评审", "x—y"]


def raw(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        for statement in statements:
            plain.execute(statement)
        plain.commit()


def said(chance: random.Random, count: int, span: int) -> list[NewMessage]:
    """Messages whose times lie anywhere within so many hours, some of them equal."""
    return [
        NewMessage(
            "user" if chance.random() < 0.7 else "assistant",
            " ".join(chance.choices(WORDS, k=chance.randint(1, 12))),
            created_at=START + timedelta(minutes=chance.randrange(span * 60)),
        )
        for _ in range(count)
    ]


def scattered(path: Path, chance: random.Random) -> None:
    """Sessions of two agents, written to in turn, in many blocks of keys; some newer, some older than before."""
    with opened(path) as scroll:
        for turn in range(24):
            key = f"agent:{chance.choice(('main', 'ada'))}:{turn % 5}"
            scroll.ensure_session(key, spawned_by="agent:main:top")
            for one in said(chance, chance.randint(1, 6), chance.choice((1, 30, 400))):
                scroll.append_many(key, [one])
            if turn % 5 == 4:
                scroll.rewind(key, scroll.history(key, requester=OPERATOR).messages[0].message_id)
            raw(path, f"UPDATE sqlite_sequence SET seq = seq + {chance.choice((1, 900, 5_000))}")


ASKED: list[dict[str, object]] = [
    {},
    {"limit": 1},
    {"limit": 25},
    {"roles": ["assistant"]},
    {"agents": ["ada"]},
    {"session_key": "agent:main:1"},
    {"since": START + timedelta(hours=3)},
    {"until": START + timedelta(hours=20)},
    {"match": "any"},
]


def newest(scroll: Backscroll) -> list[object]:
    return [
        scroll.search(words, requester=who, order="newest", **asked)
        for words in ("granite", "granite basalt", "nowhere")
        for who in (OPERATOR, Requester("agent:ada:1"), Requester("agent:main:top", sandboxed=True))
        for asked in ASKED
        if "session_key" not in asked or who is OPERATOR
    ]


def without_bounds_of_old(path: Path) -> None:
    """As a store is that was upgraded: the first blocks are unknown, and one holds for any time."""
    raw(
        path,
        "DELETE FROM backscroll_times WHERE block < (SELECT max(block) / 2 FROM backscroll_times)",
        "UPDATE backscroll_times SET newest = 1 << 60 WHERE block = (SELECT min(block) FROM backscroll_times)",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda path: None,
        without_bounds_of_old,
        lambda path: raw(path, "DELETE FROM backscroll_times"),
        lambda path: raw(path, "UPDATE backscroll_messages SET created_at = created_at + 9000000000 WHERE id % 3 = 0"),
        lambda path: raw(path, "DELETE FROM backscroll_messages WHERE id % 4 = 0"),
    ],
    ids=["as written", "upgraded", "undated", "redated", "deleted"],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_newest_are_the_same_sorted_or_looked_for(
    store_path: Path, change: Callable[[Path], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered(store_path, random.Random(seed))
    change(store_path)
    with opened(store_path) as scroll:
        expected = newest(scroll)
        monkeypatch.setattr(candidates, "_SORTED", 0)
        monkeypatch.setattr(times, "_FIRST", 1)
        monkeypatch.setattr(times, "_FACTOR", 2)
        assert newest(scroll) == expected
        scroll.maintain()
        assert newest(scroll) == expected
        assert all("newer" not in one.what for one in scroll.verify().problems)


def test_old_messages_are_dated_by_maintenance_and_wrong_dates_are_found_and_mended(store_path: Path) -> None:
    def bounds() -> list[tuple[int, int]]:
        with closing(sqlite3.connect(store_path)) as plain:
            return plain.execute("SELECT * FROM backscroll_times ORDER BY block").fetchall()

    scattered(store_path, random.Random(4))
    with opened(store_path) as scroll:
        before = bounds()
        without_bounds_of_old(store_path)
        assert scroll.verify().ok
        scroll.maintain()
        after = dict(bounds())
        # Blocks of which nothing is left need none.
        assert {block: newest for block, newest in before if block in after} == after
        raw(store_path, "UPDATE backscroll_times SET newest = newest - 1 WHERE block = 0")
        assert [one.what for one in scroll.verify().problems] == [
            "messages that are newer than any of their block should be"
        ]
        assert scroll.repair().ok
        assert dict(bounds()) == after


@pytest.mark.parametrize("match", ["all", "any"])
@pytest.mark.parametrize("bound", [25, 500])
def test_fts5_ranks_as_the_ranking_here(
    store_path: Path, match: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered(store_path, random.Random(5))
    with opened(store_path, rank_bound=bound) as scroll:

        def answers() -> list[object]:
            asked = ("granite", "mica granite", "saule basalt", "评审", "granite gneiss mica basalt", "nowhere")
            within = ({}, {"agents": ["ada"]}, {"agents": ["ada", "main"]}, {"session_key": "agent:main:1"})
            pages = [
                (narrowed, scroll.search(one, requester=OPERATOR, match=match, limit=25, **narrowed))
                for one in asked
                for narrowed in within
            ]
            # How much a single word weighs does not change the order: then the matches alone are counted for it.
            return [
                replace(page, hits=tuple(replace(hit, score=0) for hit in page.hits)) if narrowed else page
                for narrowed, page in pages
            ]

        monkeypatch.setattr(matching, "_FEW_MATCHES", 0)
        by_fts5 = answers()
        monkeypatch.setattr(candidates, "_SMALL", 0)
        monkeypatch.setattr(frequencies, "_WORTH_IT", 1)
        assert answers() == by_fts5
        assert answers() == by_fts5
        monkeypatch.setattr(Candidates, "_suit_fts5", lambda self: False)
        assert answers() == by_fts5


@pytest.mark.parametrize("bound", [25, 60])
def test_a_large_tree_gives_the_same_by_token_and_by_join(
    store_path: Path, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(6)
    with opened(store_path, visibility="tree", rank_bound=bound) as scroll:
        for number in range(40):
            scroll.ensure_session(
                f"agent:main:{number}", spawned_by=None if number == 0 else f"agent:main:{chance.randrange(number)}"
            )
        for number in (*range(40), *chance.choices(range(40), k=80)):
            scroll.append_many(f"agent:main:{number}", said(chance, chance.randint(1, 4), 9))
        scroll.rewind("agent:main:7", scroll.history("agent:main:7", requester=OPERATOR).messages[0].message_id)

        def answers() -> list[object]:
            return [
                scroll.search(words, requester=Requester(f"agent:main:{root}"), **asked)
                for words in ("granite", "granite mica", '"granite granite"', "basalt")
                for root in (0, 1, 3)
                for asked in [{}, {"limit": 25}, {"roles": ["user"]}, {"match": "any"}, {"order": "newest"}]
            ]

        expected = answers()
        monkeypatch.setattr(matching, "MOST_TOKENS", 3)
        monkeypatch.setattr("backscroll.infrastructure.scopes.MOST_TOKENS", 3)
        monkeypatch.setattr(matching, "_MANY", 1_000)
        monkeypatch.setattr(matching, "_STEP", 2)
        assert answers() == expected
        monkeypatch.setattr(matching, "_FEW_MATCHES", 1_000)
        monkeypatch.setattr(matching, "_MANY", 3)
        assert answers() == expected
        monkeypatch.setattr(matching, "LISTED", 5)
        assert answers() == expected
