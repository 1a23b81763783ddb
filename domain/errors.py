"""The one tree of errors that a caller of Backscroll can meet."""


class BackscrollError(Exception):
    """Base of every error that Backscroll raises on purpose."""


class InvalidRequest(BackscrollError):
    """An argument is outside what is allowed; the message names the argument and its bounds."""


class EmptyQuery(InvalidRequest):
    """A search query holds no searchable word."""


class SessionNotFound(BackscrollError):
    """The session does not exist, or the requester may not see it: both read the same."""

    def __init__(self) -> None:
        # One text without the key: a refusal must not differ from an absence in any way.
        super().__init__("no such session")


class SessionMismatch(BackscrollError):
    """The session id names no transcript of the given session key."""

    def __init__(self) -> None:
        super().__init__("the session id is not of this session key")


class MessageConflict(BackscrollError):
    """The message id is already stored in this transcript with other content."""


class RewindAcrossReset(BackscrollError):
    """A rewind would step back over the latest reset."""


class ImportFailed(BackscrollError):
    """A path could not be imported at all; single bad lines are reported instead."""


class StoreUnavailable(BackscrollError):
    """The database cannot be used now: locked, unreadable, damaged, or without FTS5.

    `locked` tells that somebody else held it for longer than the configured time: the same call may succeed later.
    """

    def __init__(self, message: str, *, locked: bool = False) -> None:
        super().__init__(message)
        self.locked = locked


class SchemaOutdated(BackscrollError):
    """The store's schema is not at this release's revision."""
