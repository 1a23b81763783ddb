"""What a call costs, counted in statements and in SQLite's own steps: the same at any size, and never a scan."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll import Backscroll, Requester, Settings

OPERATOR = Requester.operator()
ME = Requester("agent:main:me")
SHORT, LONG = "agent:main:short", "agent:main:long"
LENGTHS = {SHORT: 12, LONG: 6_000}
# What FTS5 says of its own, and the beginning and end of a transaction.
NOT_COUNTED = re.compile(
    r"^--|^PRAGMA busy_timeout|^BEGIN|^COMMIT|^ROLLBACK|data_version|'main'\.'backscroll_message_index_"
)


class Meter:
    """Counts the statements and the steps of SQLite's virtual machine on every connection of an engine.

    Statements are told by SQLite itself, whoever says them, with their parameters in them.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.steps = 0
        self.statements: list[str] = []
        event.listen(engine, "connect", self._connected)

    def _connected(self, connection: sqlite3.Connection, record: object) -> None:
        def step() -> None:
            self.steps += 1

        connection.set_progress_handler(step, 1)
        connection.set_trace_callback(self._begun)

    def _begun(self, statement: str) -> None:
        # A statement that has triggers is told again for each of them.
        if [statement] != self.statements[-1:] and not NOT_COUNTED.search(statement):
            self.statements.append(statement)

    def count(self, call: Callable[[], object]) -> int:
        """The steps of a call; its statements are left in `statements`."""
        call()
        self.steps, self.statements = 0, []
        call()
        return self.steps


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Backscroll, Meter]]:
    """A short and a long transcript, each with tool messages, a branch left and a reset in its middle."""
    engine = sa.create_engine(f"sqlite:///{tmp_path_factory.mktemp('costs') / 'store.db'}")
    meter = Meter(engine)
    with Backscroll.open(engine, settings=Settings(background_reindex=False)) as scroll:
        for key, length in LENGTHS.items():
            scroll.ensure_session(key)
            for half in ("a", "b"):
                scroll.append_many(
                    key,
                    [
                        {
                            "role": "tool" if n % 3 == 2 else "user",
                            "content": f"granite {half}{n} of {key}",
                            "message_id": f"{half}{n}",
                        }
                        for n in range(length // 2)
                    ],
                )
                scroll.rewind(key, f"{half}{length // 2 - 2}")
                scroll.append(key, "assistant", "a new branch", message_id=f"{half}new")
                if half == "a":
                    scroll.reset(key, keep=2)
        yield scroll, meter
    engine.dispose()


def middle(half: str) -> dict[str, str]:
    return {key: f"{half}{length // 4 // 3 * 3}" for key, length in LENGTHS.items()}


READS = {
    "the newest page": lambda scroll, key: scroll.history(key, requester=ME, limit=4),
    "around a message of the view": lambda scroll, key: scroll.history(
        key, requester=ME, limit=4, message_id=middle("b")[key]
    ),
    "around a message before the reset": lambda scroll, key: scroll.history(
        key, requester=ME, limit=4, message_id=middle("a")[key]
    ),
    "before a message": lambda scroll, key: scroll.history(key, requester=ME, limit=2, before=middle("b")[key]),
    "with tool messages": lambda scroll, key: scroll.history(
        key, requester=ME, limit=4, message_id=middle("b")[key], include_tools=True
    ),
    "a rare word in one session": lambda scroll, key: scroll.search(middle("b")[key], requester=ME, session_key=key),
}


@pytest.mark.parametrize("what", READS)
def test_a_read_takes_as_many_steps_in_a_long_transcript_as_in_a_short_one(
    what: str, measured: tuple[Backscroll, Meter]
) -> None:
    scroll, meter = measured
    short = meter.count(lambda: READS[what](scroll, SHORT))
    long = meter.count(lambda: READS[what](scroll, LONG))
    assert 0 < long <= 1.5 * short


# A walk along an index in the order asked for ends at the limit; the queue of pending transcripts (w) is empty or about
# to be; the index's own table is asked by MATCH.
HARMLESS = re.compile(
    "USING INDEX|VIRTUAL TABLE|CONSTANT ROW|SCAN (w|found|met|best|rest|sqlite_sequence|anon_1|\\(subquery-[13]\\))$"
)


@pytest.mark.parametrize("what", [*READS, "a search", "a list"])
def test_no_read_scans_a_table(what: str, measured: tuple[Backscroll, Meter]) -> None:
    scroll, meter = measured
    others = {
        "a search": lambda: scroll.search("granite new", requester=ME, match="any"),
        "a list": lambda: scroll.sessions(requester=ME),
    }
    meter.count(others.get(what) or (lambda: READS[what](scroll, LONG)))
    reads = [one for one in meter.statements if re.match(r"\s*(SELECT|WITH)", one)]
    assert reads
    for statement in reads:
        for step in plan(scroll, statement):
            assert not step.startswith("SCAN") or HARMLESS.search(step), (statement, step)


def plan(scroll: Backscroll, statement: str) -> list[str]:
    with scroll._searching._stores.reading() as unit:
        rows = unit._transaction.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        return [row[3] for row in rows]


@pytest.mark.parametrize("what", [what for what in READS if "session" not in what])
def test_a_page_of_history_is_two_statements_in_a_transaction(what: str, measured: tuple[Backscroll, Meter]) -> None:
    scroll, meter = measured
    meter.count(lambda: READS[what](scroll, LONG))
    assert len(meter.statements) == len(["where to read", "what is there"]), meter.statements


WRITES = {
    "an append": (lambda scroll, key, n: scroll.append(key, "user", f"basalt {n}"), 6),
    "an edit": (lambda scroll, key, n: scroll.edit(key, "bnew", f"mica {n}"), 11),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_write_takes_a_few_statements_and_no_more_steps_in_a_long_transcript(
    what: str, measured: tuple[Backscroll, Meter]
) -> None:
    scroll, meter = measured
    write, most = WRITES[what]
    numbers = iter(range(1_000))
    counts = {}
    for key in (SHORT, LONG):
        # Every fourth addition merges a little of the index: the cheapest of eight is the write alone.
        counts[key] = min(meter.count(lambda key=key: write(scroll, key, next(numbers))) for _ in range(8))
        assert len(meter.statements) <= most, meter.statements
    assert counts[LONG] <= 1.5 * counts[SHORT]


def test_a_search_takes_a_few_statements_whatever_matches(measured: tuple[Backscroll, Meter]) -> None:
    scroll, meter = measured
    for requester, most in ((OPERATOR, 3), (ME, 3), (Requester("agent:other:x", sandboxed=True), 5)):
        meter.count(lambda who=requester: scroll.search("granite", requester=who, limit=25))
        assert len(meter.statements) <= most, meter.statements


@pytest.mark.parametrize("visibility", ["all", "agent"])
def test_a_search_takes_as_many_steps_for_a_word_in_many_messages_as_for_one_in_some(
    visibility: str, tmp_path: Path
) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    meter = Meter(engine)
    settings = Settings(background_reindex=False, rank_bound=25, visibility=visibility)
    with Backscroll.open(engine, settings=settings) as scroll:
        for agent in ("main", "ada"):
            scroll.ensure_session(f"agent:{agent}:main")
            said = [{"role": "user", "content": "granite basalt" if n % 20 else "granite mica"} for n in range(3_000)]
            scroll.append_many(f"agent:{agent}:main", said)
        some, many = (meter.count(lambda word=word: scroll.search(word, requester=ME)) for word in ("mica", "granite"))
    engine.dispose()
    assert 0 < many <= 1.5 * some


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Backscroll, Meter]]]:
    """The same kind of store in two sizes: every message holds a word, and 30 hold a rare one too."""
    stores, engines = {}, []
    for messages in (4_000, 12_000):
        engine = sa.create_engine(f"sqlite:///{tmp_path_factory.mktemp('grown') / 'store.db'}")
        engines.append(engine)
        meter = Meter(engine)
        scroll = Backscroll.open(engine, settings=Settings(background_reindex=False))
        for part in range(4):
            key = f"agent:main:{part}"
            scroll.ensure_session(key)
            scroll.append_many(
                key,
                [
                    {"role": "user", "content": "granite flint" if n < 8 else f"granite {n} basalt"}
                    for n in range(messages // 4)
                ],
            )
        stores[messages] = scroll, meter
    yield stores
    for scroll, _ in stores.values():
        scroll.close()
    for engine in engines:
        engine.dispose()


FLAT = {
    "a common word": {"query": "granite"},
    "the newest with a common word": {"query": "granite", "order": "newest"},
    "a common word of one agent": {"query": "granite", "agents": ["main"]},
    "a common and a rare word": {"query": "granite flint"},
    "two common words": {"query": "granite basalt"},
    "the beginning of a word": {"query": "gran", "match": "prefix"},
}


@pytest.mark.parametrize("what", FLAT)
def test_a_search_takes_as_many_steps_in_a_large_store_as_in_a_small_one(
    what: str, grown: dict[int, tuple[Backscroll, Meter]]
) -> None:
    """Counts of a phrase in the whole index are no steps of SQLite's virtual machine: one for each of its rows."""
    (small, small_meter), (large, large_meter) = grown.values()
    asked = FLAT[what]
    few = small_meter.count(lambda: small.search(requester=ME, **asked))
    many = large_meter.count(lambda: large.search(requester=ME, **asked))
    assert 0 < many <= 1.3 * few


def test_of_a_common_word_no_message_is_read_but_those_that_are_ranked(
    grown: dict[int, tuple[Backscroll, Meter]],
) -> None:
    scroll, meter = grown[4_000]
    index_alone = meter.count(lambda: scroll.search("granite", requester=ME))
    with_messages = meter.count(lambda: scroll.search("granite", requester=ME, roles=["user"]))
    assert index_alone < 0.75 * with_messages


def test_a_large_tree_is_asked_for_in_steps(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    meter = Meter(engine)
    settings = Settings(background_reindex=False, rank_bound=25, visibility="tree")
    with Backscroll.open(engine, settings=settings) as scroll:
        for number in range(600):
            scroll.ensure_session(f"agent:main:{number}", spawned_by=ME.session_key)
            scroll.append(f"agent:main:{number}", "user", "granite" if number % 2 else "granite basalt")
        meter.count(lambda: scroll.search("granite basalt", requester=ME))
    engine.dispose()
    # With the parameters in them: the sessions' tokens stand in what the index is asked.
    asked = [statement for statement in meter.statements if "{scope}" in statement]
    assert asked
    assert max(one.count(" OR s") for one in asked) < 520


def test_a_huge_tree_is_given_up_early(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    meter = Meter(engine)
    settings = Settings(background_reindex=False, visibility="tree")
    with Backscroll.open(engine, settings=settings) as scroll:
        scroll.ensure_session("agent:main:child", spawned_by=ME.session_key)
        scroll.append_many("agent:main:child", [{"role": "user", "content": "granite"}] * 120)
        steps = []
        for sessions in (6_000, 14_000):
            with engine.begin() as connection:
                connection.exec_driver_sql(
                    """WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT ?)
                    INSERT INTO backscroll_sessions
                        (session_key, agent_pk, kind, spawned_by, incognito, created_at, updated_at, metadata)
                    SELECT ? || n, agent_pk, kind, spawned_by, 0, 0, 0, '{}'
                    FROM backscroll_sessions, n WHERE id = 1""",
                    (sessions, f"agent:main:{sessions}:"),
                )
            steps.append(meter.count(lambda: scroll.search("granite", requester=ME)))
    engine.dispose()
    assert steps[1] <= 1.1 * steps[0]
