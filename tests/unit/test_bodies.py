"""What the index holds of a message: by Python and by SQL the same, and for FTS5 the words of its text."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain.analyzer import SPELLINGS, fold, folded_in_place, is_native, spelled, terms
from backscroll.infrastructure.bodies import SPELLED, body, body_of, folded, is_right, search_text
from tests.unit.hostile import Fts, hostile_texts

FTS = Fts()
TEXTS = hostile_texts(20) | st.text(st.sampled_from([*SPELLINGS, "a", "O", " ", "e", "\u0301", "é", "评"]), max_size=12)


@pytest.fixture(scope="module")
def in_sql() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE m (text TEXT, search_text TEXT)")
        yield connection


def test_the_letters_of_many_languages_need_no_copy() -> None:
    for text in ("Łódź", "Straße", "smørrebrød", "đường phố", "cœur", "ışık", "İyi", "آلسلام", "⚠️ 10 m²", "co\u00adop"):
        assert (search_text(text) == SPELLED) == ("İ" not in text), text
    for text in ("café", "ΟΔΟΣ οδος", "שלום", "سلام", "ґанок", "déjà\u00a0vu", "3 × 4"):
        assert search_text(text) is None, text
    for text in ("备份", "e\u0301", "Łódź 备份", "ǿ", "ø\u0301", "ประชุม"):
        assert search_text(text) == fold(text), text


@given(TEXTS)
def test_sql_reads_the_same_as_python(in_sql: sqlite3.Connection, text: str) -> None:
    for stored in (search_text(text), fold(text), SPELLED):
        in_sql.execute("DELETE FROM m")
        in_sql.execute("INSERT INTO m VALUES (?, ?)", (text, stored))
        assert in_sql.execute(f"SELECT {body_of('m')} FROM m").fetchone() == (body(text, stored),)


@given(TEXTS)
def test_the_index_finds_the_words_of_a_text_in_what_it_holds(text: str) -> None:
    FTS.fill_raw([body(text, search_text(text)), fold(text)])
    found = FTS.tokens()
    assert found.get(0, []) == found.get(1, []) == list(terms(text))


@given(TEXTS)
def test_the_folded_form_is_what_the_index_holds_in_small_letters(text: str) -> None:
    stored = search_text(text)
    whole = folded(text, stored)
    assert (whole is None) == is_native(text)
    assert terms(folded_in_place(text) if whole is None else whole) == terms(text)


@given(TEXTS)
def test_a_copy_of_an_older_release_is_as_right_as_none(text: str) -> None:
    assert is_right(text, search_text(text))
    assert is_right(text, fold(text))
    assert not is_right(text, fold(text) + " ghost")
    assert fold(text) != SPELLED


def test_each_spelling_is_native_and_folds_as_its_letter() -> None:
    for letter, spelling in SPELLINGS.items():
        assert is_native(spelling)
        assert fold(letter) == spelling == spelled(letter)
        assert not is_native(letter)
