"""Going back and starting over: rewinds, branches and resets."""

from backscroll.domain.drafts import chosen
from backscroll.domain.errors import InvalidRequest, RewindAcrossReset, SessionNotFound
from backscroll.domain.keys import checked_key
from backscroll.domain.model import Branch, Line, Reset, ResetReason, Transcript
from backscroll.domain.paths import current_view
from backscroll.domain.ports import Clock, NewId, UnitOfWork
from backscroll.domain.stores import Stores
from backscroll.domain.text import checked_message_id, checked_name


class Branching:
    """The use cases that move a session's head."""

    def __init__(self, stores: Stores, clock: Clock, new_id: NewId) -> None:
        self._stores = stores
        self._clock = clock
        self._new_id = new_id

    def rewind(self, key: str, message_id: str) -> Branch:
        """Makes a message of the active path its head; what followed stays on a branch of its own."""
        message_id = checked_message_id(message_id)
        with self._stores.of(checked_key(key)).writing() as unit:
            line = _line(unit, key)
            target = unit.messages.find(line.session.session_id, message_id)
            if target is None or not target.active:
                raise InvalidRequest("message_id names no message on the active path; switch_branch reaches the others")
            if line.reset is not None and target.depth <= line.reset.depth:
                raise RewindAcrossReset("the message lies before the latest reset; a rewind may not cross it")
            if line.branch.head == message_id:
                return line.branch
            branch = unit.messages.branch_ending_at(line.session.session_id, message_id)
            branch = unit.messages.activate(branch)
            unit.sessions.touch(line.session.session_key, self._clock())
            unit.commit()
            return branch

    def branches(self, key: str) -> list[Branch]:
        """The branches of the current transcript, the active one first, then the newest."""
        with self._stores.of(checked_key(key)).reading() as unit:
            return unit.messages.branches(_line(unit, key).session.session_id)

    def switch_branch(self, key: str, branch_id: str) -> Branch:
        """Makes another branch the active one."""
        branch_id = checked_name(branch_id, "branch_id")
        with self._stores.of(checked_key(key)).writing() as unit:
            line = _line(unit, key)
            branches = unit.messages.branches(line.session.session_id)
            branch = next((one for one in branches if one.branch_id == branch_id), None)
            if branch is None:
                raise InvalidRequest("branch_id names no branch of the session's current transcript")
            if branch.active:
                return branch
            branch = unit.messages.activate(branch)
            unit.sessions.touch(line.session.session_key, self._clock())
            unit.commit()
            return branch

    def reset(
        self, key: str, *, reason: str, keep: str | int | None, rotate: bool, new_session_id: str | None
    ) -> Reset:
        """Draws a boundary behind the head, or starts a new transcript."""
        why = chosen(reason, ResetReason, "reason")
        if not isinstance(rotate, bool):
            raise InvalidRequest(f"rotate must be a bool, not {type(rotate).__name__}")
        if rotate and keep is not None:
            raise InvalidRequest("keep and rotate exclude each other: a new transcript starts empty")
        if new_session_id is not None:
            if not rotate:
                raise InvalidRequest("new_session_id is for a rotating reset alone: give rotate=True")
            checked_name(new_session_id, "new_session_id")
        with self._stores.of(checked_key(key)).writing() as unit:
            line = _line(unit, key)
            if rotate:
                reset = self._rotated(unit, line, why, new_session_id or self._new_id())
            else:
                first_kept = _first_kept(unit, line, keep)
                reset = unit.messages.add_reset(
                    Reset(
                        reset_id=self._new_id(),
                        session_id=line.session.session_id,
                        reason=why,
                        created_at=self._clock(),
                        first_kept=first_kept,
                    )
                )
            unit.sessions.touch(line.session.session_key, reset.created_at)
            unit.commit()
            return reset

    def _rotated(self, unit: UnitOfWork, line: Line, why: ResetReason, session_id: str) -> Reset:
        if unit.sessions.transcript(session_id) is not None:
            raise InvalidRequest("new_session_id is in use")
        now = self._clock()
        transcript = Transcript(session_id=session_id, session_key=line.session.session_key, started_at=now, reason=why)
        unit.sessions.add_transcript(transcript, branch_id=self._new_id())
        return Reset(
            reset_id=session_id,
            session_id=session_id,
            reason=why,
            created_at=now,
            previous_session_id=line.session.session_id,
        )


def _line(unit: UnitOfWork, key: str) -> Line:
    line = unit.messages.current_line(key)
    if line is None:
        raise SessionNotFound
    return line


def _first_kept(unit: UnitOfWork, line: Line, keep: object) -> str | None:
    """The first message that a reset keeps: named, or counted in user and assistant messages from the end."""
    view = current_view(line.branch.depth, line.reset)
    session_id = line.session.session_id
    if keep is None:
        return None
    if isinstance(keep, str):
        message = unit.messages.find(session_id, checked_message_id(keep))
        if message is None or not message.active or not view.first <= message.depth:
            raise InvalidRequest("keep names no message of the current view")
        return message.message_id
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        raise InvalidRequest(f"keep must be a message id or a count from 0 up, not {keep!r}")
    kept = unit.messages.nth_spoken(session_id, view, keep) if keep else None
    return kept.message_id if kept else None
