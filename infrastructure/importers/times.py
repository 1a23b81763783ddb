"""Times as OpenClaw and pi write them: ISO 8601 text, or milliseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(value: object) -> datetime | None:
    """The time, aware UTC; None for anything that is no time or lies outside the years 1 to 9999.

    Text without a zone is taken as UTC, which is what both programs write.
    """
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _EPOCH + timedelta(milliseconds=value)
    except (ValueError, OverflowError):
        return None
    return None
