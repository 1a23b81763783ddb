"""Storing: sessions, messages, edits and deletion."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from backscroll.domain.drafts import Draft, NewMessage, chosen, drafted
from backscroll.domain.errors import InvalidRequest, MessageConflict, SessionNotFound
from backscroll.domain.keys import agent_for, checked_key, kind_in_key
from backscroll.domain.model import Branch, Message, Session, SessionKind
from backscroll.domain.parts import parts_of
from backscroll.domain.ports import Clock, NewId, UnitOfWork
from backscroll.domain.stores import Stores
from backscroll.domain.text import checked_message_id, checked_metadata, checked_title


class Writing:
    """The use cases that add, change and remove."""

    def __init__(self, stores: Stores, clock: Clock, new_id: NewId) -> None:
        self._stores = stores
        self._clock = clock
        self._new_id = new_id

    def ensure_session(
        self,
        key: str,
        *,
        agent_id: str | None,
        kind: str | None,
        title: str | None,
        spawned_by: str | None,
        owner: str | None,
        incognito: bool | None,
        metadata: Mapping[str, object] | None,
    ) -> Session:
        """The session, made if it is new; what is given is taken over into a stored one."""
        key = checked_key(key)
        given: dict[str, object] = {}
        if kind is not None:
            given["kind"] = chosen(kind, SessionKind, "kind")
        if title is not None:
            given["title"] = checked_title(title)
        for name, parent in (("spawned_by", spawned_by), ("owner", owner)):
            if parent is not None:
                given[name] = checked_key(parent, name)
        if metadata is not None:
            given["metadata"] = checked_metadata(metadata)
        if incognito is not None and not isinstance(incognito, bool):
            raise InvalidRequest(f"incognito must be a bool, not {type(incognito).__name__}")
        with self._stores.making(key, agent_id).writing() as unit:
            stored = unit.sessions.get(key)
            if stored is None:
                session = self._new_session(key, agent_for(key, agent_id), bool(incognito), given)
                unit.sessions.add(session, branch_id=self._new_id())
            else:
                if agent_id is not None and agent_id != stored.agent_id:
                    raise InvalidRequest(f"the session belongs to agent {stored.agent_id!r}; agent_id cannot change")
                if incognito is not None and incognito != stored.incognito:
                    raise InvalidRequest("incognito is decided when a session is made and cannot change")
                session = replace(stored, **given)  # type: ignore[arg-type]
                if session != stored:
                    unit.sessions.update(session)
            unit.commit()
            return session

    def _new_session(self, key: str, agent_id: str, incognito: bool, given: dict[str, object]) -> Session:
        now = self._clock()
        fields = {"kind": kind_in_key(key), **given}
        return Session(
            session_key=key,
            session_id=self._new_id(),
            agent_id=agent_id,
            incognito=incognito,
            created_at=now,
            updated_at=now,
            **fields,  # type: ignore[arg-type]
        )

    def append(self, key: str, messages: Iterable[NewMessage | Mapping[str, object]]) -> list[Message]:
        """Stores messages in order, all or none; one that is stored already comes back as it is stored."""
        key = checked_key(key)
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise InvalidRequest(f"messages must be a sequence of messages, not {type(messages).__name__}")
        drafts = [drafted(one) for one in messages]
        with self._stores.of(key).writing() as unit:
            branch = unit.messages.current_branch(key)
            if branch is None:
                raise SessionNotFound
            stored = _Appending(unit, key, branch, self).run(drafts)
            unit.commit()
            return stored

    def placed(self, draft: Draft, branch: Branch, waiting: list[Message]) -> Message:
        """A new message from a draft, with an id and a time, behind what already waits to be stored on the branch."""
        parent_id = waiting[-1].message_id if waiting else branch.head
        depth = branch.depth + len(waiting) + 1
        return draft.message(branch.session_id, draft.message_id or self._new_id(), self._clock, parent_id, depth)

    def now(self) -> datetime:
        """The present time."""
        return self._clock()

    def edit(self, key: str, message_id: str, content: object) -> Message:
        """Changes what a message of the current transcript says."""
        key, message_id = checked_key(key), checked_message_id(message_id)
        parts = parts_of(content)
        with self._stores.of(key).writing() as unit:
            session = unit.sessions.get(key)
            if session is None:
                raise SessionNotFound
            message = unit.messages.find(session.session_id, message_id)
            if message is None:
                raise InvalidRequest("message_id names no message of the session's current transcript")
            changed = replace(message, parts=parts)
            if changed != message:
                unit.messages.replace(changed)
                unit.sessions.touch(key, self._clock())
            unit.commit()
            return changed

    def delete_session(self, key: str) -> bool:
        """Deletes a session with all that belongs to it; False when there is none."""
        key = checked_key(key)
        try:
            with self._stores.of(key).writing() as unit:
                removed = unit.sessions.remove(key)
                unit.commit()
        except SessionNotFound:
            return False
        return removed


class _Appending:
    """One call of append: messages that follow each other are stored together."""

    def __init__(self, unit: UnitOfWork, session_key: str, branch: Branch, writing: Writing) -> None:
        self._unit = unit
        self._session_key = session_key
        self._branch = branch
        self._writing = writing
        self._waiting: list[Message] = []
        self._known: dict[str, Message] = {}
        self._branched = False

    def run(self, drafts: list[Draft]) -> list[Message]:
        session_id = self._branch.session_id
        ids = [draft.message_id for draft in drafts if draft.message_id is not None]
        if ids:
            self._known = self._unit.messages.known(session_id, ids)
        order: list[str] = []
        for draft in drafts:
            message = self._writing.placed(draft, self._branch, self._waiting)
            order.append(message.message_id)
            if (stored := self._known.get(message.message_id)) is not None:
                if not stored.same_content(message):
                    raise MessageConflict(f"message {message.message_id!r} is stored with other content")
                continue
            if draft.parent_id is not None and draft.parent_id != message.parent_id:
                self._branch_off(draft.parent_id)
            self._waiting.append(message)
            self._known[message.message_id] = message
        if self._waiting:
            # The time of writing, not the message's own, which may be long past.
            self._unit.sessions.touch(self._session_key, self._writing.now())
        self._store()
        if self._branched:
            # What was stored earlier in this call may have left the active path since.
            self._known.update(self._unit.messages.known(session_id, order))
        return [self._known[message_id] for message_id in order]

    def _branch_off(self, parent_id: str) -> None:
        self._store()
        self._branched = True
        session_id = self._branch.session_id
        if self._unit.messages.find(session_id, parent_id) is None:
            raise InvalidRequest(f"parent_id {parent_id!r} names no message of the session's current transcript")
        self._branch = self._unit.messages.activate(self._unit.messages.branch_ending_at(session_id, parent_id))

    def _store(self) -> None:
        if self._waiting:
            stored = self._unit.messages.extend(self._branch, self._waiting)
            self._known.update((message.message_id, message) for message in stored)
            self._branch = replace(self._branch, head=stored[-1].message_id, depth=stored[-1].depth)
            self._waiting = []
