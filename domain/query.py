"""What a query asks for: a list of phrases, each a run of tokens, from the characters a person typed.

Words are separated by white space; a run between two straight double quotes is one phrase; nothing else is syntax.
A word with punctuation inside (a path, an address) is the phrase of its parts, so that it means itself.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from backscroll.domain.analyzer import terms
from backscroll.domain.errors import EmptyQuery, InvalidRequest
from backscroll.domain.text import storable


class Match(StrEnum):
    """How the words of a query combine. `PREFIX`: all of them, the last one as the beginning of a word."""

    ALL = "all"
    ANY = "any"
    PREFIX = "prefix"


class Order(StrEnum):
    """How hits are sorted."""

    RELEVANCE = "relevance"
    NEWEST = "newest"


_CHUNK = re.compile(r'"([^"]*)"|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Query:
    """Phrases to be found, none of them empty."""

    phrases: tuple[tuple[str, ...], ...]
    match: Match = Match.ALL

    @classmethod
    def parse(cls, text: object, match: Match, longest: int) -> "Query":
        """The query that `text` asks for.

        Raises `InvalidRequest` for something that is no string of at most `longest` characters, `EmptyQuery` when
        there is no word in it.
        """
        if not isinstance(text, str):
            raise InvalidRequest(f"query must be a string, not {type(text).__name__}")
        if len(text) > longest:
            raise InvalidRequest(f"query has {len(text)} characters; at most {longest} are allowed")
        chunks = (quoted or plain for quoted, plain in _CHUNK.findall(storable(text)))
        phrases = [found for chunk in chunks if (found := terms(chunk))]
        if not phrases:
            raise EmptyQuery("query holds no searchable word: it needs at least one letter or digit")
        last = phrases[-1]
        distinct = list(dict.fromkeys(phrases))
        if match is Match.PREFIX:
            # The last phrase is the one completed, also when the same word stands earlier in the query.
            distinct = [phrase for phrase in distinct if phrase != last] + [last]
        return cls(tuple(distinct), match)

    def alone(self) -> list["Query"]:
        """Each phrase as a query of its own."""
        prefixed = len(self.phrases) - 1 if self.match is Match.PREFIX else None
        return [
            Query((phrase,), Match.PREFIX if number == prefixed else Match.ALL)
            for number, phrase in enumerate(self.phrases)
        ]
