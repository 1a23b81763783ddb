"""What a requester may not see changes nothing in what it is told: not a score, a count, a flag or a word."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backscroll import Backscroll
from backscroll.domain.errors import BackscrollError
from backscroll.domain.limits import Limits
from backscroll.domain.model import Session, SessionKind
from backscroll.domain.results import to_json
from backscroll.domain.stores import Stores
from backscroll.domain.visibility import AgentToAgent, Requester, Scope, Visibility, VisibilityPolicy
from backscroll.infrastructure.engine import create_engine
from backscroll.infrastructure.per_agent.names import file_name
from backscroll.infrastructure.redaction import PatternRedactor
from backscroll.infrastructure.store import EngineStore, StoreOptions
from backscroll.services.facade import Facade
from tests.factories import agent_stores

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [f"agent:{agent}:{name}" for agent in ("A", "B", "C") for name in ("main", "x", "y")]
WORDS = ["granite", "basalt", "marble", "备份", "quartz"]

drawn_sessions = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "spawned_by": st.none() | st.sampled_from(KEYS),
            "owner": st.none() | st.sampled_from(KEYS),
            "incognito": st.booleans(),
            "texts": st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), max_size=4),
            "pending": st.booleans(),
        }
    ),
    max_size=8,
    unique_by=lambda one: one["key"],
)
policies = st.builds(
    VisibilityPolicy,
    visibility=st.sampled_from(list(Visibility)),
    agent_to_agent=st.builds(
        AgentToAgent,
        enabled=st.booleans(),
        allow=st.none() | st.lists(st.sampled_from(["*", "A", "B", ("A", "B"), ("C", "A")]), max_size=2).map(tuple),
    ),
)


@cache
def empty_store() -> bytes:
    """The file of a store without a session."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Backscroll.open(f"sqlite:///{path}").close()
        return path.read_bytes()


OPTIONS = StoreOptions(rank_bound=6, inline_reindex_limit=10, new_id=lambda: "unused", clock=lambda: START)


@contextmanager
def one_file(folder: Path) -> Iterator[tuple[Stores, Callable[[str], Path]]]:
    """One store, and where it keeps a session."""
    path = folder / "store.db"
    path.write_bytes(empty_store())
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    yield EngineStore(engine, OPTIONS), lambda key: path
    engine.dispose()


@contextmanager
def a_file_each(folder: Path) -> Iterator[tuple[Stores, Callable[[str], Path]]]:
    """A store for each agent, of which two are open at a time."""
    stores = agent_stores(folder, OPTIONS)
    yield stores, lambda key: folder / f"{file_name(key.split(':')[1])}.db"
    stores.close()


Kind = Callable[[Path], AbstractContextManager[tuple[Stores, Callable[[str], Path]]]]


@contextmanager
def store_of(sessions: list[dict], policy: VisibilityPolicy, kind: Kind) -> Iterator[Facade]:
    """A store with exactly these sessions, in which nothing is left to chance."""
    with TemporaryDirectory() as folder, kind(Path(folder)) as (stores, path_of):
        facade = Facade(
            stores,
            policy=policy,
            redactor=PatternRedactor(),
            limits=Limits(rank_bound=6),
            readers=(),
            clock=lambda: START,
            new_id=lambda: "unused",
            on_pending=lambda: None,
        )
        for one in sorted(sessions, key=lambda one: KEYS.index(one["key"])):
            # The same time for a session in every store, whatever stands beside it.
            at = START + timedelta(minutes=KEYS.index(one["key"]))
            with stores.making(one["key"], None).writing() as unit:
                unit.sessions.add(session_of(one, at), branch_id="first")
                unit.commit()
            facade.append_many(
                one["key"],
                [
                    {"role": "user", "content": text, "message_id": f"m{place}", "created_at": at}
                    for place, text in enumerate(one["texts"])
                ],
            )
        for one in sessions:
            if one["pending"]:
                with closing(sqlite3.connect(path_of(one["key"]))) as connection, connection:
                    connection.execute(
                        "INSERT INTO backscroll_pending (transcript_pk)"
                        " SELECT id FROM backscroll_transcripts WHERE session_id = ?",
                        ("of " + one["key"],),
                    )
        yield facade


def session_of(one: dict, at: datetime) -> Session:
    return Session(
        session_key=one["key"],
        session_id="of " + one["key"],
        agent_id=one["key"].split(":")[1],
        kind=SessionKind.OTHER,
        created_at=at,
        updated_at=at,
        spawned_by=one["spawned_by"],
        owner=one["owner"],
        incognito=one["incognito"],
    )


def visible(sessions: list[dict], scope: Scope) -> list[dict]:
    tree = scope.reach(session_of(one, START) for one in sessions)
    return [one for one in sessions if scope.admits(session_of(one, START), tree)]


def answers(facade: Facade, requester: Requester) -> list[str]:
    """Everything that the requester can ask, as the bytes it would get."""
    told: list[str] = []

    def tell(ask: object) -> None:
        try:
            told.append(json.dumps(to_json(ask()), ensure_ascii=False))  # type: ignore[operator]
        except BackscrollError as error:
            told.append(f"{type(error).__name__}: {error}")

    for word in [*WORDS, "granite basalt", "nowhere"]:
        for match in ("all", "any"):
            for order in ("relevance", "newest"):
                tell(lambda w=word, m=match, o=order: facade.search(w, requester=requester, match=m, order=o, limit=3))
    for key in KEYS:
        tell(lambda k=key: facade.search("granite", requester=requester, session_key=k))
        tell(lambda k=key: facade.history(k, requester=requester, limit=2))
        tell(lambda k=key: facade.history(k, requester=requester, message_id="m1"))
    tell(lambda: facade.search("granite", requester=requester, agents=["A", "B"]))
    tell(lambda: facade.sessions(requester=requester))
    return told


@pytest.mark.parametrize("kind", [one_file, a_file_each])
@given(sessions=drawn_sessions, policy=policies, who=st.sampled_from(KEYS), sandboxed=st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_store_without_the_hidden_sessions_gives_the_same_bytes(
    kind: Kind, sessions: list[dict], policy: VisibilityPolicy, who: str, sandboxed: bool
) -> None:
    requester = Requester(who, sandboxed=sandboxed)
    shown = visible(sessions, policy.scope(requester))
    with store_of(sessions, policy, kind) as whole, store_of(shown, policy, kind) as bare:
        assert answers(whole, requester) == answers(bare, requester)


requesters = st.just(Requester.operator()) | st.builds(Requester, st.sampled_from(KEYS), sandboxed=st.booleans())


@given(
    sessions=drawn_sessions,
    policy=policies,
    requester=requesters,
    deleted=st.sets(st.sampled_from(KEYS), max_size=3),
    moved=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(KEYS), max_size=3),
    mended=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_for_each_agent_gives_the_same_bytes_as_one_file(
    sessions: list[dict],
    policy: VisibilityPolicy,
    requester: Requester,
    deleted: set[str],
    moved: dict[str, str],
    mended: bool,
) -> None:
    told: list[list[str]] = []
    for kind in (one_file, a_file_each):
        with store_of(sessions, policy, kind) as facade:
            for key in sorted(moved):
                if any(one["key"] == key for one in sessions):
                    facade.ensure_session(key, spawned_by=moved[key])
            gone = [facade.delete_session(key) for key in sorted(deleted)]
            if mended:
                assert facade.repair().problems == ()
            told.append([str(gone), *answers(facade, requester)])
    if policy.scope(requester).admits_every_agent:
        # Where nothing is hidden one file is ranked by FTS5's own bm25, several by the same formula over what is found.
        told = [[_unranked(answer) for answer in one] for one in told]
    assert told[0] == told[1]


def _unranked(answer: str) -> object:
    page = json.loads(answer) if answer.startswith("{") else {}
    if "hits" not in page:
        return answer
    hits = [{**hit, "score": None} for hit in page["hits"]]
    return {**page, "hits": len(hits) if page["truncated"] else sorted(map(str, hits))}
