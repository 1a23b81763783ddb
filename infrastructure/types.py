"""Column types that cannot lose what the domain means: times with their zone, enumerations, JSON objects."""

import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcMicroseconds(sa.types.TypeDecorator[datetime]):
    """An aware time, kept as whole microseconds since 1970-01-01T00:00:00Z."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else micros(value)

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else from_micros(value)


def micros(value: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00:00Z of an aware time; exact, without floating point."""
    since = value - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(value: int) -> datetime:
    """The aware time again."""
    return _EPOCH + value * _MICROSECOND


class Word(sa.types.TypeDecorator[Any]):
    """A string enumeration, kept as its word."""

    impl = sa.String
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__(length=16)
        self._words = words

    def process_bind_param(self, value: StrEnum | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> StrEnum | None:
        return None if value is None else self._words(value)


def json_text(value: object) -> str:
    """JSON data as it is stored."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Json(sa.types.TypeDecorator[Any]):
    """JSON data as compact UTF-8 text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: sa.Dialect) -> str | None:
        return None if value is None else json_text(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)
