"""Where the phrases of a query stand in a text, and how often: for excerpts and for ranking."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

from backscroll.domain.analyzer import Placed, Token, folded_in_place, is_native, tokens
from backscroll.domain.query import Match, Query

Occurrence = tuple[int, int, int]
"""The characters [start, end) of a text, and the number of the phrase that stands there."""

_FEW = 16
"""So many phrases are looked for one by one, each with one quick search; more of them token by token."""
_SIGN, _LETTER = r"[\x00-/:-@\[-`{-\x7f]", r"[^\x00-/:-@\[-`{-\x7f]"
"""What stands between tokens in folded text, and what they are made of."""


class Phrases:
    """The phrases of a query, ready to be looked for; `phrases_of` keeps them."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._many = len(query.phrases) > _FEW
        self._patterns = [] if self._many else _patterns(query)
        # Those of a phrase that goes on as it begins may overlap.
        self._all_in: list[Callable[[str], Sequence[object]]] = [
            partial(_all, pattern) if phrase[0] in phrase[1:] else pattern.findall
            for phrase, pattern in zip(query.phrases, self._patterns, strict=not self._many)
        ]

    def occurrences(self, text: str) -> list[Occurrence]:
        """Where the phrases stand in `text`, in the order of their starts."""
        if self._many:
            return _among(self._query, list(tokens(text)))
        if is_native(text):
            return sorted(self._found(folded_in_place(text)))
        placed = Placed(text)
        return sorted((*placed.place(start, end), number) for start, end, number in self._found(placed.folded))

    def counts(self, texts: Sequence[str], folded: Sequence[str | None]) -> list[list[int]]:
        """For each phrase, how often it stands in each of the texts.

        It is looked for in their folded forms, which of native texts may be left out (None).
        """
        if self._many:
            met = [Counter(number for _, _, number in _among(self._query, list(tokens(text)))) for text in texts]
            return [[one[number] for one in met] for number in range(len(self._query.phrases))]
        searched = [
            folded_in_place(text) if its_folded is None else its_folded
            for text, its_folded in zip(texts, folded, strict=True)
        ]
        return [[len(all_in(one)) for one in searched] for all_in in self._all_in]

    def _found(self, folded: str) -> Iterator[Occurrence]:
        for number, pattern in enumerate(self._patterns):
            for match in _all(pattern, folded):
                yield match.start(), match.end(), number


@lru_cache(64)
def phrases_of(query: Query) -> Phrases:
    """The phrases of a query."""
    return Phrases(query)


def occurrences(query: Query, text: str) -> list[Occurrence]:
    """Where the phrases stand in `text`, in the order of their starts."""
    return phrases_of(query).occurrences(text)


def _all(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches, those too that overlap."""
    found, at = [], 0
    while (match := pattern.search(text, at)) is not None:
        found.append(match)
        at = match.start() + 1
    return found


def _patterns(query: Query) -> list[re.Pattern[str]]:
    """Finds each phrase in folded text."""
    patterns = []
    for phrase in query.phrases:
        first, *rest = map(re.escape, phrase)
        # What precedes the first token is looked at behind it: this way the beginning is searched for, which is quick.
        begin = f"{first}(?<!{_LETTER}{first})"
        end = f"(?!{_LETTER})"
        if query.match is Match.PREFIX and phrase is query.phrases[-1]:
            end = f"{_LETTER}*"
        patterns.append(re.compile(f"{_SIGN}+".join([begin, *rest]) + end))
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
