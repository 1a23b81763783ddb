"""The bounds of every answer and request, as one value."""

from dataclasses import dataclass

from backscroll.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds; lengths are in characters, sizes in bytes of UTF-8 JSON."""

    search_hits: int = 10
    search_hits_max: int = 25
    query_chars: int = 4_096
    excerpt_chars: int = 300
    search_bytes: int = 32 * 1024
    history_messages: int = 40
    history_messages_max: int = 200
    message_chars: int = 4_000
    history_bytes: int = 80 * 1024
    listed_sessions: int = 50
    listed_sessions_max: int = 500
    rank_bound: int = 500
    inline_reindex_limit: int = 500


@dataclass(frozen=True, slots=True)
class Batches:
    """How much long work does in one transaction, and at a time: whoever waits beside it waits for no more."""

    reindexed: int = 500
    """Messages: some tens of milliseconds."""
    imported: int = 1_000
    """Records."""


USUAL_BATCHES = Batches()


def checked_limit(limit: object, usual: int, most: int) -> int:
    """`limit`, or `usual` for None; raises `InvalidRequest` outside 1 to `most`."""
    if limit is None:
        return usual
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= most:
        raise InvalidRequest(f"limit must be a whole number from 1 to {most}, not {limit!r}")
    return limit


def checked_offset(offset: object) -> int:
    """`offset`; raises `InvalidRequest` unless it is a whole number from 0 to 2**31."""
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= 2**31:
        raise InvalidRequest(f"offset must be a whole number from 0 to {2**31}, not {offset!r}")
    return offset
