"""How text becomes searchable tokens, the same way when it is stored and when it is asked for.

Folding: compatibility composition (NFKC), then Unicode case folding, then the accents of alphabetic scripts and the
vowel points of Arabic and Hebrew are dropped (й and its like are no accented letters), and the Latin letters that
have no decomposition are written as their base letters (ł as l, ø as o, ß as ss). Marks of other scripts are letters
in their own right and stay. In scripts that do not put spaces between words every character is a token, so that any
substring is found as a phrase.

References: Unicode Standard Annex #15 (normalization forms), The Unicode Standard 3.13 (default case folding).
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

JOINT = "\x1f"
"""Stands around every character of a script without word spaces; no character of a stored text folds to it."""

_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\uaa60-\uaa7f\ua9e0-\ua9ff"  # Thai, Lao, Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00016fe0-\U00018d8f\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"  # Han
)
_DROPPED = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20f0\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]"
)
_BASE_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "ng"}
)
# Letters of their own in Cyrillic alphabets, although Unicode composes them of a letter and a mark.
_LETTERS_WITH_MARKS = frozenset("ЃЌЇЍЎЙйѓќїѝў")
# Text of these characters alone is folded by SQLite's unicode61 tokenizer exactly as it is here; a test asks SQLite
# about each of them. None composes with another.
_NATIVE_CHARACTERS = (
    "\x00-\x7f\u00a0-\u00a7\u00a9\u00ab\u00ac\u00ae\u00b0\u00b1\u00b5-\u00b7\u00bb\u00bf"
    "À-ÅÇ-ÏÑ-×Ù-Ýà-åç-ïñ-÷ù-ýÿĀ-ďĒ-ĥĨ-įĴ-ķĹ-ľŃ-ňŌ-őŔ-ťŨ-žƠơƯưǍ-ǔȘ-țẠ-ỹΑ-ΡΣ-Ωα-ωА-яЂ-Џђ-џ"
    "\u048a-\u04c0\u04c3-\u04cf\u04d8\u04d9\u04e8\u04e9"  # Ukrainian, Kazakh, Tatar
    "\u0531-\u0556\u0559-\u0586\u10d0-\u10fa"  # Armenian, Georgian
    "\u05be\u05d0-\u05ea\u05f3\u05f4\u060c\u061b\u061f\u0621\u0627-\u063a\u0641-\u064a\u0660-\u066d"  # Hebrew, Arabic
    "\u0679-\u06bf\u06c1\u06c3-\u06d2\u06d4\u06f0-\u06f9"  # Persian, Urdu
    "\u2000-\u200f\u2010-\u2029\u202f-\u203b\u203d\u203f-\u2046\u204a-\u2056\u20ac\u2190-\u21ff\u2200-\u22ff\u2500-\u25ff"
    "\u2600-\u26ff\u2701-\u2767\u2794-\u27bf\U0001f300-\U0001f320\U0001f330-\U0001f335\U0001f337-\U0001f37c"
    "\U0001f380-\U0001f393\U0001f3a0-\U0001f3c4\U0001f3e0-\U0001f3f0\U0001f400-\U0001f43e\U0001f442-\U0001f4f7"
    "\U0001f500-\U0001f53d\U0001f550-\U0001f567\U0001f5fb-\U0001f640\U0001f645-\U0001f64f\U0001f680-\U0001f6c5"
)
_NATIVE = re.compile(f"[{_NATIVE_CHARACTERS}]*")
SPELLINGS = {
    "ª": "a", "º": "o", "¹": "1", "²": "2", "³": "3", "ß": "ss", "ẞ": "ss", "Æ": "ae", "æ": "ae", "Ð": "d", "ð": "d",
    "Ø": "o", "ø": "o", "Þ": "th", "þ": "th", "Đ": "d", "đ": "d", "Ħ": "h", "ħ": "h", "ı": "i", "Ł": "l", "ł": "l",
    "Ŋ": "ng", "ŋ": "ng", "Œ": "oe", "œ": "oe", "Ŧ": "t", "ŧ": "t", "\u0622": "\u0627", "\u0623": "\u0627",
    "\u0624": "\u0648", "\u0625": "\u0627", "\u0626": "\u064a", "\u00ad": "", "\ufe0f": "",
}  # fmt: skip
"""Characters that FTS5 does not fold as it is done here, each by native ones with the same fold. With other text that
is native they are common in many languages: Danish, French, German, Polish, Turkish, Vietnamese; Arabic; emoji. A
store's view spells them out (revision 0006): a change of this needs a revision."""
_SPELLABLE = re.compile(f"[{_NATIVE_CHARACTERS}{''.join(SPELLINGS)}]*")
_NATIVE_LATIN = bytes(code for code in range(256) if _NATIVE.fullmatch(chr(code)))
# Characters that may compose with the one before them without being combining marks: Hangul letters in every width,
# the halfwidth voicing marks, a vowel sign of Kirat Rai (since Unicode 16).
_COMPOSING = re.compile("[\u1160-\u11ff\u3131-\u318e\ud7b0-\ud7fb\uff9e-\uffdc\U00016d67]")
# Python's normalization takes time in the square of the number of marks on one letter (200,000 marks: 20 seconds).
_HEAP_OF_MARKS = re.compile(r"(?:[^\w\s]|[\uff9e\uff9f]){64,}")
_SHORT = 1_024
_ASCII = bytes(range(0x80))
_REPLACED = 8
"""So many different characters are quicker replaced one after the other than all at once."""
_TOKEN = re.compile(f"[^ {JOINT}]+")
_RUN = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")  # what stands between ASCII signs, which begin and end every token


class Token(NamedTuple):
    """A folded token and the characters [start, end) of the original text that it stands for."""

    text: str
    start: int
    end: int


class _FoldTable(dict[int, str]):
    """What each (NFKC) character folds to, worked out when first met; for `str.translate`."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char not in _LETTERS_WITH_MARKS:
            char = _DROPPED.sub("", unicodedata.normalize("NFKD", char))
        plain = unicodedata.normalize("NFKC", char.casefold().translate(_BASE_LETTERS))
        folded = "".join(map(_placed, plain))
        self[code] = folded
        return folded


def _placed(char: str) -> str:
    if _SPACELESS.match(char) and unicodedata.category(char)[0] in "LMN":
        return f"{JOINT}{char}{JOINT}"
    return char if unicodedata.category(char)[0] in "LMN" else " "


_FOLDS = _FoldTable()


def fold(text: str) -> str:
    """The tokens of `text` in order, with spaces or `JOINT` between them."""
    if text.isascii():
        return text.translate(_FOLDS)
    return _normalized(text).translate(_FOLDS).replace(JOINT + JOINT, JOINT)


def _normalized(text: str) -> str:
    """The NFKC form of `text`; a heap of marks, which no writing has, is put in order first, for linear time."""
    if len(text) > _SHORT:
        text = _HEAP_OF_MARKS.sub(_in_canonical_order, text)
    return unicodedata.normalize("NFKC", text)


def _in_canonical_order(heap: re.Match[str]) -> str:
    marks = "".join(unicodedata.normalize("NFKD", char) for char in heap.group())
    runs = groupby(marks, key=lambda char: unicodedata.combining(char) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if movable else run) for movable, run in runs)


def is_native(text: str) -> bool:
    """Whether the index's own folding of `text` is the same as ours; each of its letters then folds by itself."""
    if text.isascii():
        return True
    try:
        # Many times quicker than the pattern, for most of what is written in Latin letters.
        return not text.encode("latin-1").translate(None, _NATIVE_LATIN)
    except UnicodeEncodeError:
        return _NATIVE.fullmatch(text) is not None


def is_spellable(text: str) -> bool:
    """Whether the text is native once it is `spelled`."""
    return _SPELLABLE.fullmatch(text) is not None


def spelled(text: str) -> str:
    """The text with `SPELLINGS` for some of its characters; folded it is the same."""
    for letter in SPELLINGS.keys() & set(text):
        text = text.replace(letter, SPELLINGS[letter])
    return text


def folded_in_place(text: str) -> str:
    """Native text folded, every character in its place: between tokens may stand any ASCII sign."""
    if text.isascii():
        return text.lower()
    data = text.encode()
    foreign = data.translate(None, _ASCII).decode()
    # Python lowers text that is not ASCII slowly, and most of what is not ASCII is small already.
    small = data.lower().decode() if foreign == foreign.lower() else text.lower()
    letters = set(foreign.lower())
    if "σ" in letters:
        # As Python lowers a capital sigma at the end of a word.
        letters.add("ς")
    # Some signs fold to several spaces.
    folds = {char: folded for char in letters if (folded := _FOLDS[ord(char)].strip() or " ") != char}
    if len(folds) > _REPLACED:
        return small.translate({ord(char): folded for char, folded in folds.items()})
    for char, folded in folds.items():
        small = small.replace(char, folded)
    return small


def terms(text: str) -> tuple[str, ...]:
    """The folded tokens of `text`."""
    return tuple(_TOKEN.findall(fold(text)))


def tokens(text: str) -> Iterator[Token]:
    """The folded tokens of `text` with their places in it."""
    for run in _RUN.finditer(text):
        if run.group().isascii():
            yield Token(run.group().lower(), run.start(), run.end())
        else:
            yield from _folded(run.group(), run.start())


def _folded(text: str, at: int) -> Iterator[Token]:
    """The folded tokens of a piece of text that stands at the place `at`."""
    pieces, starts = _pieces(text)
    ends = list(accumulate(map(len, pieces)))
    for match in _TOKEN.finditer("".join(pieces)):
        first, last = bisect_right(ends, match.start()), bisect_right(ends, match.end() - 1)
        # What is dropped behind a token, such as its accent, belongs to it.
        yield Token(match.group(), at + starts[first], at + starts[bisect_right(ends, ends[last])])


def _pieces(text: str) -> tuple[list[str], Sequence[int]]:
    """What the pieces of a text fold to that fold on their own, where each begins, and where the text ends."""
    if unicodedata.is_normalized("NFKC", text):
        # Then every character does.
        return list(map(_FOLDS.__getitem__, map(ord, text))), range(len(text) + 1)
    starts = [*_clusters(text), len(text)]
    return [fold(text[start:end]) for start, end in pairwise(starts)], starts


class Placed:
    """A text `folded`, and where its characters stand in the text itself."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []
        self._stretches: set[int] = set()
        """The numbers of the pieces that are stretches of ASCII, with every character in its place."""
        done = 0
        for run in _RUN.finditer(text):
            if not run.group().isascii():
                self._stretches.add(len(pieces))
                folded, starts = _pieces(run.group())
                pieces += (text[done : run.start()].lower(), *folded)
                self._starts += (done, *(run.start() + start for start in starts[:-1]))
                done = run.end()
        self._stretches.add(len(pieces))
        pieces.append(text[done:].lower())
        self._starts += (done, len(text))
        self.folded = "".join(pieces)
        self._ends = list(accumulate(map(len, pieces)))

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where the folded characters [start, end) stand in the text, with what is dropped behind them."""
        first, last = bisect_right(self._ends, start), bisect_right(self._ends, end - 1)
        begin = self._starts[first]
        if first in self._stretches:
            begin = self._starts[first + 1] - (self._ends[first] - start)
        if last in self._stretches:
            return begin, self._starts[last + 1] - (self._ends[last] - end)
        return begin, self._starts[bisect_right(self._ends, self._ends[last])]


def _clusters(text: str) -> Iterator[int]:
    """Where the pieces of `text` begin that normalize on their own: a character with all that may compose with it."""
    for index, char in enumerate(text):
        if index == 0 or not (unicodedata.category(char)[0] == "M" or _COMPOSING.match(char)):
            yield index
