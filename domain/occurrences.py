"""Where the phrases of a query stand in a text, and how often: for excerpts and for ranking."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from backscroll.domain.analyzer import JOINT, Token, is_native, spellings, tokens
from backscroll.domain.query import Match, Query

Occurrence = tuple[int, int, int]
"""The characters [start, end) of a text, and the number of the phrase that stands there."""

_FEW = 16
"""So many phrases are looked for one by one, each with one quick search; more of them token by token."""


def occurrences(query: Query, text: str) -> list[Occurrence]:
    """Where the phrases stand in `text`, in the order of their starts."""
    if len(query.phrases) > _FEW or not is_native(text):
        return _among(query, list(tokens(text)))
    small = text.lower()
    return sorted(
        (match.start(), match.end(), number)
        for number, pattern in enumerate(_in_native(query, small.isascii()))
        for match in _every(pattern, small)
    )


def counts(query: Query, text: str, folded: str | None) -> list[int]:
    """How often each phrase stands in a text: in its folded form, or in native text itself if there is none."""
    if len(query.phrases) > _FEW:
        met = Counter(number for _, _, number in _among(query, list(tokens(text))))
        return [met[number] for number in range(len(query.phrases))]
    if folded is None:
        folded = text.lower()
        patterns = _in_native(query, folded.isascii())
    else:
        patterns = _in_folded(query)
    return [
        sum(1 for _ in _every(pattern, folded)) if phrase[0] in phrase[1:] else len(pattern.findall(folded))
        for phrase, pattern in zip(query.phrases, patterns, strict=True)
    ]


def _every(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All matches; those too that overlap, which those of a phrase can that goes on as it begins."""
    at = 0
    while (match := pattern.search(text, at)) is not None:
        yield match
        at = match.start() + 1


@lru_cache(64)
def _in_folded(query: Query) -> list[re.Pattern[str]]:
    """Finds the phrases in folded text, in which spaces and joints stand between tokens and nothing else."""
    return _patterns(query, re.escape, f"[^ {JOINT}]", f"[ {JOINT}]")


@lru_cache(128)
def _in_native(query: Query, ascii_only: bool) -> list[re.Pattern[str]]:
    """Finds the phrases in native text of small letters, with whatever accents they have there."""
    spelt: Mapping[str, str] = {} if ascii_only else spellings()
    classes = {char: f"[{chars}]" for char, chars in spelt.items()}
    return _patterns(query, lambda word: "".join(classes.get(char, char) for char in word), r"[^\W_]", r"[\W_]")


def _patterns(query: Query, spelt: Callable[[str], str], letter: str, gap: str) -> list[re.Pattern[str]]:
    patterns = []
    for phrase in query.phrases:
        first, *rest = map(spelt, phrase)
        # What precedes the first token is looked at behind it: this way the beginning is searched for, which is quick.
        begin = f"{first}(?<!{letter}{first})"
        end = f"(?!{letter})"
        if query.match is Match.PREFIX and phrase is query.phrases[-1]:
            end = f"{letter}*"
        patterns.append(re.compile(f"{gap}+".join([begin, *rest]) + end))
    return patterns


def _among(query: Query, found: list[Token]) -> list[Occurrence]:
    """Where the phrases stand among the tokens of a text."""
    places: list[Occurrence] = []
    words = [token.text for token in found]
    whole = query.phrases[:-1] if query.match is Match.PREFIX else query.phrases
    # By first word and length: hundreds of phrases that begin alike are then one look-up at each place.
    begun: dict[str, dict[int, dict[tuple[str, ...], int]]] = {}
    for number, phrase in enumerate(whole):
        begun.setdefault(phrase[0], {}).setdefault(len(phrase), {})[phrase] = number
    for index, word in enumerate(words):
        for length, phrases in begun.get(word, {}).items():
            if (met := phrases.get(tuple(words[index : index + length]))) is not None:
                places.append((found[index].start, found[index + length - 1].end, met))
    if query.match is Match.PREFIX:
        *stem, beginning = query.phrases[-1]
        places += [
            (found[index - len(stem)].start, found[index].end, len(whole))
            for index in range(len(stem), len(words))
            if words[index].startswith(beginning) and words[index - len(stem) : index] == stem
        ]
        places.sort()
    return places
