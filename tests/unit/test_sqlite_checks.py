"""Which SQLite libraries are refused, and of which faults the others are known to have."""

import logging

import pytest

from backscroll import StoreUnavailable
from backscroll.infrastructure import sqlite_checks
from backscroll.infrastructure.sqlite_checks import check_library, hazards, require_version


@pytest.mark.parametrize("version", [(3, 7, 15), (3, 31, 1), (3, 34, 1)])
def test_a_library_that_is_too_old_is_refused_with_both_versions(version: tuple[int, ...]) -> None:
    with pytest.raises(StoreUnavailable, match=rf"{version[0]}\.{version[1]}\.{version[2]}.*3\.35\.0"):
        require_version(version)
    with pytest.raises(StoreUnavailable):
        check_library(version)


@pytest.mark.parametrize("version", [(3, 35, 0), (3, 40, 1), (3, 53, 4), (4, 0, 0)])
def test_a_library_that_is_new_enough_is_taken(version: tuple[int, ...]) -> None:
    require_version(version)


@pytest.mark.parametrize(
    ("version", "count"),
    [
        ((3, 35, 0), 2),
        ((3, 37, 1), 2),
        ((3, 37, 2), 1),
        ((3, 40, 1), 1),
        ((3, 44, 5), 1),
        ((3, 44, 6), 0),
        ((3, 45, 0), 1),
        ((3, 50, 6), 1),
        ((3, 50, 7), 0),
        ((3, 51, 2), 1),
        ((3, 51, 3), 0),
        ((3, 53, 0), 0),
    ],
)
def test_faults_by_version(version: tuple[int, ...], count: int) -> None:
    assert len(hazards(version)) == count
    assert all("sqlite.org" in one for one in hazards(version))


def test_faults_are_told_once_in_the_life_of_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_checks, "_told", False)
    with caplog.at_level(logging.INFO, "backscroll.sqlite"):
        check_library((3, 40, 1))
        check_library((3, 40, 1))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "3.40.1" in record.message
    assert "WAL-reset" in record.message


def test_a_sound_library_is_worth_no_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sqlite_checks, "_told", False)
    with caplog.at_level(logging.DEBUG, "backscroll.sqlite"):
        check_library((3, 53, 0))
    assert caplog.records == []
