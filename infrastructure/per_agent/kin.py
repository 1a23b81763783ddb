"""Trees across files: which sessions claim a session of another agent as their parent.

Within an agent's file a tree is followed by what the sessions there say of their parents. Across files it is found
through one small file of hints, so that no other file is asked. A hint is written before the session that it is about,
under the write lock of that session's file: after a crash there may be a hint too many, never one too few. What a hint
says is believed only when the child's own file says it too.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from backscroll.domain.errors import SchemaOutdated, StoreUnavailable
from backscroll.domain.keys import agent_in_key
from backscroll.domain.model import Session
from backscroll.domain.visibility import Scope, Tree
from backscroll.infrastructure.engine import begun
from backscroll.infrastructure.per_agent.files import is_there, make
from backscroll.infrastructure.per_agent.pool import Closable, Pool
from backscroll.infrastructure.rows import KinRow

Below = Callable[[str, Scope], list[str]]
"""The keys of an agent's sessions in the tree of a scope, as its file has them; none when there is no file."""


class OpenFile(Closable):
    """An open file."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    def close(self) -> None:
        """Closes its connections."""
        self.engine.dispose()


def foreign_parents(session: Session) -> set[str]:
    """The parents of a session that its own file does not hold; of an incognito one none, since no tree goes there."""
    return set() if session.incognito else foreign(session.agent_id, session.spawned_by, session.owner)


def foreign(agent_id: str, *parents: str | None) -> set[str]:
    """Those of the keys that are not of this agent."""
    return {key for key in parents if key is not None and agent_in_key(key) != agent_id}


class Kin:
    """The hints, in the file at `path`, which the first of them makes."""

    def __init__(self, path: Path, open_file: Callable[[Path], OpenFile], empty: Callable[[], bytes]) -> None:
        self._path = path
        self._empty = empty
        self._pool = Pool(open_file, most=1, patience=0)

    def close(self) -> None:
        """Closes the file."""
        self._pool.close()

    def note(self, session: Session) -> None:
        """Notes the parents of a session that is about to be stored."""
        parents = foreign_parents(session)
        if not parents or parents.issubset(self.parents(session.session_key)):
            return
        if not is_there(self._path):
            make(self._path, self._empty())
        with self._begun(writing=True) as connection:
            for parent in parents:
                connection.execute(
                    _NOTE,
                    {
                        "parent": parent,
                        "child": session.session_key,
                        "parent_agent": agent_in_key(parent),
                        "child_agent": session.agent_id,
                    },
                )
            connection.commit()

    def forget(self, session_key: str, parents: Iterable[str]) -> None:
        """Drops hints that are not true any more."""
        if names := [{"parent": parent, "child": session_key} for parent in parents]:
            with self._begun(writing=True) as connection:
                connection.execute(_FORGET, names)
                connection.commit()

    def parents(self, session_key: str) -> set[str]:
        """The parents that are noted of a session."""
        return set(self._read(sa.select(KinRow.parent_key).where(KinRow.child_key == session_key)))

    def noted(self, agent_id: str) -> set[tuple[str, str]]:
        """Child and parent of every hint about an agent's sessions."""
        rows = self._rows(sa.select(KinRow.child_key, KinRow.parent_key).where(KinRow.child_agent == agent_id))
        return {(child, parent) for child, parent in rows}

    def roots(self, scope: Scope, below: Below) -> dict[str, frozenset[str]]:
        """For each agent outside whose file the tree of `scope` has members: those that its sessions name as parents.

        The tree is followed downwards, through no other file than those that the hints name.
        """
        if scope.tree is not Tree.WHOLE or scope.own_key is None or not is_there(self._path):
            return {}
        own = agent_in_key(scope.own_key)
        roots: dict[str, frozenset[str]] = {}
        met: set[str] = set()
        found = {scope.own_key}
        changed = set() if own is None else {own}
        while found or changed:
            met |= found
            for parent, agent_id in self._children(found):
                if parent not in roots.get(agent_id, ()):
                    roots[agent_id] = roots.get(agent_id, frozenset()) | {parent}
                    changed.add(agent_id)
            inside = [
                key
                for agent_id in sorted(changed)
                if self._has_children(agent_id)
                for key in below(agent_id, scope._replace(roots=roots.get(agent_id, frozenset())))
            ]
            found, changed = set(inside) - met, set()
        return roots

    def _children(self, parents: set[str]) -> list[tuple[str, str]]:
        names = sa.func.json_each(json.dumps(sorted(parents))).table_valued("value")
        chosen = KinRow.parent_key.in_(sa.select(names.c.value))
        return [(parent, agent) for parent, agent in self._rows(_EDGES.where(chosen))]

    def _has_children(self, agent_id: str) -> bool:
        return bool(self._read(sa.select(KinRow.parent_key).where(KinRow.parent_agent == agent_id).limit(1)))

    def _read(self, statement: sa.Select[str]) -> list[str]:
        return [value for (value,) in self._rows(statement)]

    def _rows(self, statement: sa.Select[*tuple[str, ...]]) -> list[tuple[str, ...]]:
        if not is_there(self._path):
            return []
        with self._begun(writing=False) as connection:
            return [tuple(row) for row in connection.execute(statement)]

    @contextmanager
    def _begun(self, *, writing: bool) -> Iterator[sa.Connection]:
        try:
            with self._pool.lease(self._path) as file, begun(file.engine, writing=writing) as connection:
                yield connection
        except StoreUnavailable as error:
            raise StoreUnavailable(f"the file of kin, {self._path.name}: {error}", locked=error.locked) from error
        except SchemaOutdated as error:
            raise SchemaOutdated(f"the file of kin, {self._path.name}: {error}") from error


_EDGES = sa.select(KinRow.parent_key, KinRow.child_agent).distinct()
_NOTE = sa.text(
    "INSERT OR IGNORE INTO backscroll_kin (parent_key, child_key, parent_agent, child_agent)"
    " VALUES (:parent, :child, :parent_agent, :child_agent)"
)
_FORGET = sa.text("DELETE FROM backscroll_kin WHERE parent_key = :parent AND child_key = :child")
