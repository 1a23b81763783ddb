"""What a requester may not see changes nothing in what it is told: not a score, a count, a flag or a word."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backscroll import Backscroll
from backscroll.domain.errors import BackscrollError
from backscroll.domain.limits import Limits
from backscroll.domain.model import Session, SessionKind
from backscroll.domain.results import to_json
from backscroll.domain.visibility import AgentToAgent, Requester, Scope, Visibility, VisibilityPolicy
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.redaction import PatternRedactor
from backscroll.infrastructure.store import EngineStore, StoreOptions
from backscroll.services.facade import Facade

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


@contextmanager
def store_of(sessions: list[dict], policy: VisibilityPolicy) -> Iterator[Facade]:
    """A store with exactly these sessions, in which nothing is left to chance."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(empty_store())
        engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
        options = StoreOptions(rank_bound=6, inline_reindex_limit=10, new_id=lambda: "unused", clock=lambda: START)
        store = EngineStore(engine, options)
        facade = Facade(
            store,
            policy=policy,
            redactor=PatternRedactor(),
            limits=Limits(rank_bound=6),
            readers=(),
            clock=lambda: START,
            new_id=lambda: "unused",
            on_pending=lambda: None,
        )
        for one in sessions:
            # The same time for a session in every store, whatever stands beside it.
            at = START + timedelta(minutes=KEYS.index(one["key"]))
            with store.writing() as unit:
                unit.sessions.add(session_of(one, at), branch_id="first")
                unit.commit()
            facade.append_many(
                one["key"],
                [
                    {"role": "user", "content": text, "message_id": f"m{place}", "created_at": at}
                    for place, text in enumerate(one["texts"])
                ],
            )
        with begun(engine, writing=True) as connection:
            for one in sessions:
                if one["pending"]:
                    connection.exec_driver_sql(
                        "INSERT INTO backscroll_pending (transcript_pk)"
                        " SELECT id FROM backscroll_transcripts WHERE session_id = ?",
                        ("of " + one["key"],),
                    )
            connection.commit()
        try:
            yield facade
        finally:
            engine.dispose()


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


@given(sessions=drawn_sessions, policy=policies, who=st.sampled_from(KEYS), sandboxed=st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_store_without_the_hidden_sessions_gives_the_same_bytes(
    sessions: list[dict], policy: VisibilityPolicy, who: str, sandboxed: bool
) -> None:
    requester = Requester(who, sandboxed=sandboxed)
    shown = visible(sessions, policy.scope(requester))
    with store_of(sessions, policy) as whole, store_of(shown, policy) as bare:
        assert answers(whole, requester) == answers(bare, requester)
