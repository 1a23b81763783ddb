"""Remembered counts of the index are those that FTS5 would give now, whatever was written, by whom, and undone."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from backscroll import Backscroll, BackscrollError, Requester
from backscroll.infrastructure import candidates, frequencies
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.frequencies import Frequencies
from backscroll.infrastructure.statements import Statements
from tests.factories import opened

OPERATOR = Requester.operator()
KEYS = [f"agent:main:{number}" for number in range(4)]
WORDS = ["granite", "mica", "basalt", "Łódź", "评审"]
ASKED = ['("granite")', '("mica")', '("granite") AND ("basalt")', '("lodz")', '"评 审"', '("nowhere")']


@pytest.fixture
def engine(store_path: Path) -> Iterator[sa.Engine]:
    engine = create_engine(f"sqlite:///{store_path}", busy_timeout=5, synchronous="OFF")
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def everything_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequencies, "_WORTH_IT", 1)


def counts(engine: sa.Engine, by: Frequencies) -> list[int]:
    with begun(engine, writing=False) as connection:
        return by.counts(Statements(connection), ASKED)


def age(path: Path) -> None:
    """Makes all that is stored old: keys go on far behind."""
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(f"UPDATE sqlite_sequence SET seq = seq + {frequencies._OLD} WHERE name = 'backscroll_messages'")
        plain.commit()


def change(scroll: Backscroll, path: Path, chance: random.Random) -> None:
    """Something that may happen to a store."""
    key, text = chance.choice(KEYS), " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))
    shown = [hit.message_id for hit in scroll.search("granite mica", match="any", requester=OPERATOR, limit=25).hits]
    some = chance.choice([*shown, "none"])
    match chance.randrange(10):
        case 0 | 1 | 2:
            scroll.ensure_session(key)
            scroll.append_many(key, [{"role": "user", "content": text}] * chance.randint(1, 5))
        case 3:
            for home in KEYS:
                with suppress(BackscrollError):
                    scroll.edit(home, some, text)
        case 4:
            for home in KEYS:
                with suppress(BackscrollError):
                    scroll.rewind(home, some)
        case 5:
            branches = scroll.branches(key)
            scroll.switch_branch(key, chance.choice(branches).branch_id)
        case 6:
            scroll.delete_session(key)
        case 7:
            with closing(sqlite3.connect(path)) as plain:
                column, value = chance.choice([("text", text), ("active", 0), ("role", "tool")])
                plain.execute(f"UPDATE backscroll_messages SET {column} = ? WHERE message_id = ?", (value, some))
                plain.commit()
            scroll.reindex()
        case 8:
            age(path)
        case _:
            scroll.repair()
            scroll.reindex()


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_right_after_whatever_was_written(seed: int, store_path: Path, engine: sa.Engine) -> None:
    chance, kept = random.Random(seed), Frequencies()
    right = 0
    with opened(store_path, inline_reindex_limit=2) as scroll:
        for _ in range(40):
            with suppress(BackscrollError):
                change(scroll, store_path, chance)
            now = counts(engine, Frequencies(remember=0))
            assert counts(engine, kept) == now
            right += sum(now)
    assert right > 100


def steps(engine: sa.Engine, by: Frequencies, rows: int) -> int:
    """The steps of SQLite's virtual machine that it takes to count a word, which so many rows hold."""
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += 1

    with begun(engine, writing=False) as connection:
        driver = connection.connection.driver_connection
        driver.set_progress_handler(step, 1)
        assert by.counts(Statements(connection), ['("granite")']) == [rows]
        driver.set_progress_handler(None, 0)
    return taken


def test_what_was_counted_is_not_counted_again(store_path: Path, engine: sa.Engine) -> None:
    kept = Frequencies()
    with opened(store_path) as scroll:
        scroll.ensure_session(KEYS[0])
        scroll.append_many(KEYS[0], [{"role": "user", "content": "granite"}] * 300)
        age(store_path)
        first = steps(engine, kept, 300)
        scroll.append(KEYS[0], "user", "granite mica")
        scroll.edit(KEYS[0], scroll.append(KEYS[0], "user", "gneiss").message_id, "granite, streamed")
        assert 4 * steps(engine, kept, 302) < first
        assert steps(engine, Frequencies(), 302) > first


def test_only_the_last_are_remembered(store_path: Path, engine: sa.Engine) -> None:
    kept = Frequencies(remember=2)
    with opened(store_path) as scroll:
        scroll.ensure_session(KEYS[0])
        scroll.append(KEYS[0], "user", "granite mica basalt")
    age(store_path)
    for word in ("granite", "mica", "basalt", "granite"):
        with begun(engine, writing=False) as connection:
            assert kept.counts(Statements(connection), [f'("{word}")']) == [1]
    assert list(kept._known) == ['("basalt")', '("granite")']


def test_a_snapshot_of_before_is_counted_as_it_was(store_path: Path, engine: sa.Engine) -> None:
    kept = Frequencies()
    with opened(store_path) as scroll:
        scroll.ensure_session(KEYS[0])
        scroll.append(KEYS[0], "user", "granite")
        with begun(engine, writing=False) as before:
            old = Statements(before)
            assert kept.counts(old, ['("granite")']) == [1]
            scroll.append(KEYS[0], "user", "granite")
            age(store_path)
            assert counts(engine, kept)[0] == 2
            assert kept.counts(old, ['("granite")']) == [1]
        assert counts(engine, kept)[0] == 2


def test_what_a_host_undoes_is_not_remembered(
    store_path: Path, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_SMALL", 0)

    def scores(scroll: Backscroll) -> list[float]:
        return [hit.score for hit in scroll.search("granite mica", requester=OPERATOR).hits]

    with opened(store_path) as scroll:
        scroll.ensure_session(KEYS[0])
        scroll.append_many(KEYS[0], [{"role": "user", "content": text} for text in ("granite mica", "granite", "mica")])
        scroll.append_many(KEYS[0], [{"role": "user", "content": "gneiss"}] * 20)
        with engine.connect() as connection, connection.begin() as transaction:
            inside = scroll.using(connection)
            inside.append_many(KEYS[0], [{"role": "user", "content": "granite"}] * 9)
            raise_keys = f"UPDATE sqlite_sequence SET seq = seq + {frequencies._OLD}"
            connection.exec_driver_sql(raise_keys)
            during = scores(inside)
            transaction.rollback()
        after = scores(scroll)
        scroll.append_many(KEYS[0], [{"role": "user", "content": "gneiss"}] * 9)
        fresh = scores(scroll)
    with opened(store_path) as scroll:
        assert scores(scroll) == fresh
    assert len({*during, *after}) == 2


def test_a_lost_row_of_state_remembers_nothing(store_path: Path, engine: sa.Engine) -> None:
    kept = Frequencies()
    with opened(store_path) as scroll:
        scroll.ensure_session(KEYS[0])
        scroll.append(KEYS[0], "user", "granite")
        age(store_path)
        assert counts(engine, kept)[0] == 1
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM backscroll_index_state")
        assert counts(engine, kept)[0] == 1
        scroll.delete_session(KEYS[0])
        assert counts(engine, kept)[0] == 0
        assert scroll.repair().ok
        assert counts(engine, kept)[0] == 0
