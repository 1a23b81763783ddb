"""Text is folded alike where it is stored and where it is asked for, and FTS5 reads the fold as it was meant."""

import random
import re
import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backscroll.domain.analyzer import JOINT, fold, folded_in_place, is_native, is_spellable, spelled, terms, tokens
from tests.unit.hostile import CHANGING, COMBINING, LETTERS, SPACELESS, WORDS, Fts, hostile_texts

EVERY = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
NATIVE = [char for char in EVERY if is_native(char)]
FTS = Fts()


def folded_words(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


def test_native_text_is_folded_in_its_place() -> None:
    for char in NATIVE:
        for text in (char, char.upper() + "a", "Aa" + char * 2):
            if is_native(text):
                assert len(folded_in_place(text)) == len(text)
                assert re.findall("[^\\x00-/:-@\\[-`{-\\x7f]+", folded_in_place(text)) == list(terms(text))
    whole = "".join(NATIVE)
    assert len(folded_in_place(whole)) == len(whole)
    assert re.findall("[^\\x00-/:-@\\[-`{-\\x7f]+", folded_in_place(whole)) == list(terms(whole))


# FTS5 and the fold


def test_fts5_reads_the_fold_of_every_code_point_as_the_terms() -> None:
    assigned, rest = [], []
    for char in EVERY:
        (rest if unicodedata.category(char) in ("Cn", "Co") else assigned).append(char)
    # What Unicode does not assign is no letter: nothing at all comes of it.
    size = 4_096
    for start in range(0, len(rest), size):
        assert not fold("".join(rest[start : start + size])).strip(), hex(ord(rest[start]))
    blocks = [assigned[start : start + 64] for start in range(0, len(assigned), 64)]
    texts = [" ".join(f"qq{char}zz" for char in block) for block in blocks]
    FTS.fill_raw([fold(text) for text in texts])
    found = FTS.tokens()
    assert [ascii(text) for row, text in enumerate(texts) if found[row] != list(terms(text))] == []
    assert sum(map(len, found.values())) > len(assigned) > 100_000


@settings(max_examples=120)
@given(hostile_texts(20))
def test_fts5_reads_the_fold_of_any_text_as_its_terms(text: str) -> None:
    FTS.fill_raw([fold(text)])
    assert FTS.tokens().get(0, []) == list(terms(text))


def test_fts5_itself_folds_every_native_character_as_the_analyzer_does() -> None:
    texts = [f"qq{char}zz {char} {char}{char}" for char in NATIVE]
    FTS.fill_raw(texts)
    found = FTS.tokens()
    assert [text for row, text in enumerate(texts) if found[row] != list(terms(text))] == []
    assert len(NATIVE) > 2_000


def test_fts5_itself_folds_native_text_as_the_analyzer_does() -> None:
    rng = random.Random(6)
    texts = ["".join(rng.choices(NATIVE, k=rng.randint(1, 40))) for _ in range(3_000)]
    assert all(map(is_native, texts))
    FTS.fill_raw(texts)
    found = FTS.tokens()
    assert [text for row, text in enumerate(texts) if found.get(row, []) != list(terms(text))] == []


@given(hostile_texts(20))
def test_a_text_is_native_that_is_made_of_native_characters_alone(text: str) -> None:
    assert is_native(text) == all(map(is_native, text))
    assert is_spellable(text) == all(map(is_spellable, text)) == is_native(spelled(text))


def test_no_two_native_characters_compose() -> None:
    pairs = {unicodedata.normalize("NFD", char)[-2:] for char in EVERY if unicodedata.is_normalized("NFC", char)}
    composing = [pair for pair in pairs if len(unicodedata.normalize("NFC", pair)) < len(pair)]
    assert [ascii(pair) for pair in composing if is_native(pair)] == []
    assert len(composing) > 500


@given(hostile_texts(20))
def test_words_never_hold_a_character_that_a_phrase_or_the_index_would_read_otherwise(text: str) -> None:
    for word in terms(text):
        assert word
        assert all(unicodedata.category(char)[0] in "LMN" for char in word)
        assert JOINT not in word


# The fold itself


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it's in src/app-main.py", ["it", "s", "in", "src", "app", "main", "py"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("İstanbul ISPARTA ışık", ["istanbul", "isparta", "isik"]),
        ("Paweł ŁÓDŹ", ["pawel", "lodz"]),
        ("đường Đường", ["duong", "duong"]),
        ("Ærø Œuvre Þór", ["aero", "oeuvre", "thor"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σισυφοσ", "σισυφοσ"]),
        ("йод иод Ёлка їжак", ["йод", "иод", "елка", "їжак"]),
        ("كِتاب أحمد كتـــاب", ["كتاب", "احمد", "كتاب"]),
        ("שָׁלוֹם", ["שלום"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ﬁnal ½ ① ２０２６", ["final", "1", "2", "1", "2026"]),
        ("会议v2纪要", ["会", "议", "v2", "纪", "要"]),
        ("co\u00adoperate zero\u200bwidth", ["cooperate", "zero", "width"]),
        ("\x1f\x00\x7f\ufffd \U0001f469\u200d\U0001f4bb !", []),
        ("snake_case", ["snake", "case"]),
    ],
)
def test_text_folds_to_the_documented_words(text: str, words: list[str]) -> None:
    assert list(terms(text)) == words


@settings(max_examples=120)
@given(hostile_texts(20), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_every_unicode_form_of_a_text_has_the_same_terms(text: str, form: str) -> None:
    assert terms(unicodedata.normalize(form, text)) == terms(text)


@settings(max_examples=120)
@given(hostile_texts(20))
def test_upper_and_lower_case_have_the_same_terms(text: str) -> None:
    assume("\u0345" not in unicodedata.normalize("NFD", text))
    for changed in (text.upper(), text.lower(), text.casefold(), text.swapcase(), text.title()):
        assert terms(changed) == terms(text)


def test_upper_and_lower_case_of_every_code_point_have_the_same_terms_but_for_the_greek_iota_below() -> None:
    cased = [char for char in EVERY if char.casefold() != char or char.upper() != char]
    assert len(cased) > 2_500
    odd = [char for char in cased if not terms(char) == terms(char.upper()) == terms(char.lower())]
    # An iota below is an accent, and dropped like one; upper case writes it as a letter.
    assert [char for char in odd if "\u0345" not in unicodedata.normalize("NFD", char)] == []
    assert terms("ᾠδή") == ("ωδη",)
    assert terms("ᾠδή".upper()) == ("ωιδη",)


@settings(max_examples=120)
@given(hostile_texts(20))
def test_folding_what_is_folded_changes_nothing(text: str) -> None:
    # But for marks of other scripts that a dropped one had held apart, which no writing has. Index and query fold
    # once each, and FTS5 leaves a fold as it is, so that they agree on those as well.
    normal = unicodedata.normalize("NFKC", text)
    dropped = "".join(re.escape(char) for char in set(normal) if fold(char) == "")
    kept = "".join(re.escape(char) for char in set(normal) if unicodedata.category(char)[0] == "M" and fold(char))
    assume(not (dropped and kept and re.search(f"[{dropped}][{kept}]", normal)))
    assert terms(" ".join(terms(text))) == terms(text)


def test_a_heap_of_marks_is_folded_as_ever_and_in_linear_time() -> None:
    # Nuktas and stress signs stay and change their order; the others are dropped. Halfwidth voicing marks and signs
    # that Unicode takes apart are marks in disguise.
    for marks in ("\u0301\u0323", "\u0951\u093c", "\u0951\uff9e\u093c\uff9f", "\u0f73\u0344\u0f81\u0951"):
        for count in (31, 63, 64, 65, 500):
            heap = "क" + marks * count + " ab"
            long = heap + " c" * 1_000
            assert terms(long) == terms(heap) + ("c",) * 1_000
            assert terms(unicodedata.normalize("NFD", long)) == terms(long)
            assert folded_words(long) == list(terms(long))
    # A hundred times as much takes a moment, or else (in the square of it) minutes.
    assert len(terms("क" + "\u0951\u093c" * 150_000)[0]) == 300_001
    assert folded_words("q" + "\u0301\u0323" * 150_000) == ["q"]


# Places


@settings(max_examples=100)
@given(hostile_texts(20))
def test_tokens_are_the_terms_with_places_in_the_text_in_order(text: str) -> None:
    found = list(tokens(text))
    assert [token.text for token in found] == list(terms(text))
    for token in found:
        assert 0 <= token.start < token.end <= len(text)
        assert token.text in "".join(terms(text[token.start : token.end]))
    for one, other in pairwise(found):
        assert one.start <= other.start
        assert one.end <= other.end


@given(st.lists(st.sampled_from([*WORDS, *LETTERS, "备份", "회의", " ", "-", "ſ", "ß", "Å", "ﬁ"])).map("".join))
def test_the_place_of_a_token_in_ordinary_text_is_that_word_alone(text: str) -> None:
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, text)
        for token in tokens(text):
            assert terms(text[token.start : token.end]) == (token.text,)


def test_places_are_right_where_folding_changes_the_length() -> None:
    text = "İ" * 300 + " needle Straße ﬁn"
    assert [text[token.start : token.end] for token in tokens(text)] == ["İ" * 300, "needle", "Straße", "ﬁn"]


def test_decomposed_letters_keep_their_marks() -> None:
    text = unicodedata.normalize("NFD", "é회 ü")
    assert [(token.text, text[token.start : token.end]) for token in tokens(text)] == [
        ("e", "e\u0301"),
        ("회", unicodedata.normalize("NFD", "회")),
        ("u", "u\u0308"),
    ]


def test_whatever_composes_with_a_character_before_it_is_kept_together_with_it() -> None:
    # Asked of Python's own tables, so that a newer Unicode is asked about its new characters too.
    composed = [char for char in EVERY if not 0xAC00 <= ord(char) <= 0xD7A3 and unicodedata.decomposition(char)]
    composed += ["가", "각", "힣"]
    halves: dict[str, list[str]] = {}
    for char in EVERY:
        if (full := unicodedata.normalize("NFKD", char)) != char and len(full) == 1:
            halves.setdefault(full, []).append(char)
    pairs = 0
    for char in composed:
        plain = unicodedata.normalize("NFD", char)
        if len(plain) < 2:
            continue
        for last in (plain[-1], *halves.get(plain[-1], ())):
            text = "x" + plain[:-1] + last + "y"
            assert folded_words(text) == list(terms(text)), ascii(text)
            pairs += 1
    assert pairs > 900


# Scripts without spaces, end to end


@settings(max_examples=100)
@given(st.text(SPACELESS, min_size=1, max_size=20), hostile_texts(3), hostile_texts(3), st.data())
def test_any_substring_of_a_run_without_spaces_finds_it(run: str, before: str, after: str, data: st.DataObject) -> None:
    run = unicodedata.normalize("NFC", run)
    start = data.draw(st.integers(0, len(run) - 1))
    end = data.draw(st.integers(start + 1, len(run)))
    FTS.fill([f"{before} {run} {after}"])
    assert FTS.search(run[start:end]) == {0}
    assert FTS.search(f'"{unicodedata.normalize("NFD", run[start:end])}"') == {0}


@pytest.mark.parametrize(
    "block",
    [
        "\u0e01\u0e2e\u0e30\u0e3a",  # Thai
        "\u0e81\u0eae\u0eb0\u0eb9",  # Lao
        "\u1780\u17b3\u17b6\u17d3",  # Khmer
        "\u1000\u102a\u102b\u103e",  # Myanmar
        "\u4e00\u9fff\u3400\u4dbf",  # Han
        "\U00020000\U0002a6df\U00030000\uf900",  # Han, further planes and compatibility
        "\u3041\u3096\u30a1\u30fa",  # kana
        "\uff71\uff9d\uff66\u31f0",  # kana, halfwidth and small
        "\uac00\ud7a3\u1100\ua960",  # Hangul
        "\u3105\u312f\u31a0\u31bf",  # bopomofo
    ],
)
def test_every_character_of_a_script_without_spaces_is_a_token(block: str) -> None:
    assert len(terms(block)) == len(block)


TRIAL_4 = [
    "后天上午我们检查备份策略",
    "明日は障害対応の打合せがあります",
    "พรุ่งนี้ประชุมเรื่องสำรองข้อมูล",
    "백업정책을 검토했습니다",
]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("备份", {0}),
        ("备份策略", {0}),
        ("打合せ", {1}),
        ("ประชุม", {2}),
        ("백업정책", {3}),
        ("备份 策略", {0}),
        ("策略 备份", {0}),
        ('"策略备份"', set()),
        ("검토", {3}),
        ("업정", {3}),
    ],
)
def test_words_inside_a_sentence_without_spaces_are_found(query: str, rows: set[int]) -> None:
    FTS.fill(TRIAL_4)
    assert FTS.search(query) == rows


TRIAL_6 = ["İstanbul ISPARTA Straße Paweł đường", "İ" * 300 + " needle tail"]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("istanbul", {0}),
        ("İSTANBUL", {0}),
        ("isparta", {0}),
        ("straße", {0}),
        ("STRASSE", {0}),
        ("strasse", {0}),
        ("STRAẞE", {0}),
        ("Paweł", {0}),
        ("PAWEŁ", {0}),
        ("pawel", {0}),
        ("đường", {0}),
        ("ĐƯỜNG", {0}),
        ("needle", {1}),
        ("stanbul", set()),
    ],
)
def test_any_case_of_a_word_finds_it(query: str, rows: set[int]) -> None:
    FTS.fill(TRIAL_6)
    assert FTS.search(query) == rows


TRIAL_7 = ["كِتاب أحمد", unicodedata.normalize("NFD", "회의록 정리"), "cafe\u0301"]


@pytest.mark.parametrize(
    ("query", "rows"),
    [("كتاب", {0}), ("احمد", {0}), ("أحمد", {0}), ("회의록", {1}), ("의록", {1}), ("café", {2}), ("CAFE", {2})],
)
def test_vowel_marks_and_unicode_forms_do_not_matter(query: str, rows: set[int]) -> None:
    FTS.fill(TRIAL_7)
    assert FTS.search(query) == rows
    assert FTS.search(unicodedata.normalize("NFD", query)) == rows


# The whole of it


@settings(max_examples=120)
@given(hostile_texts(20))
def test_every_word_of_a_text_finds_it(text: str) -> None:
    FTS.fill([text])
    for word in text.split():
        if terms(word):
            assert FTS.search(word) == {0}, ascii(word)


def test_a_word_finds_the_texts_that_hold_it_and_no_other() -> None:
    rng = random.Random(4)
    native = [char for char in NATIVE if char != '"']
    kinds = [
        ["ferry", "Naxos", "it's", "X-1", "Ärger", "arger", "ÄRGER"],
        SPACELESS,
        COMBINING,
        CHANGING,
        [" "],
        native,
    ]
    texts = []
    for _ in range(3_000):
        words = ("".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, 4))) for _ in range(4))
        texts.append(" ".join(words))
    FTS.fill(texts)
    runs = [f"\x00{chr(0).join(terms(text))}\x00" for text in texts]
    asked = found = 0
    for number, text in enumerate(texts):
        word = rng.choice(text.split() or [""])
        if phrase := terms(word):
            rows = FTS.search(word)
            assert number in rows, ascii(word)
            if number % 8 == 0:
                run = f"\x00{chr(0).join(phrase)}\x00"
                assert rows == {row for row, words in enumerate(runs) if run in words}, ascii(word)
            asked += 1
            found += len(rows)
    assert asked > 2_500
    assert found > asked


@settings(max_examples=120)
@given(hostile_texts(20))
def test_the_words_of_a_text_are_those_of_its_pieces_between_spaces(text: str) -> None:
    assert terms(text) == tuple(word for piece in text.split() for word in terms(piece))
