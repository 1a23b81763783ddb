r"""The default `Redactor`: finds secrets by their form and by the name beside them, with patterns of our own.

Three searches, each linear in the text: private keys, from their first line to their last or else to the end of the
text; forms that tell themselves (`secret_patterns`); values beside a name such as `password` (`secret_names`). Most
text holds none of the literals that these begin with and costs a few substring searches.

It errs on the side of masking too much inside a value and too little outside one: a secret is masked whole, its
name stays readable, and what only looks like a secret (a placeholder, a hash, a reference in code) is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.redaction import Span, merged
from backscroll.infrastructure.secret_names import named_secrets
from backscroll.infrastructure.secret_patterns import LEAST, PRIVATE_KEY_BEGINS, PRIVATE_KEY_ENDS, RULES
from backscroll.infrastructure.secret_values import LOOK, is_reference

_LONG_TEXT = 2_048
"""Characters from which on a text is not remembered."""

_BODY = re.compile(r"[A-Za-z0-9+/]{32}")
_QUOTE = re.compile(r"\\{0,7}[\"'`]")

# Two thirds of the forms begin with letters and one of these signs. They are tried only for a long word that has such a
# sign with a long run behind it, and in the run a digit or as many letters as no word has: every such secret has that.
_MARKS = "_-"
_RUN = re.compile(r"[_-][A-Za-z0-9_+/=%.~$-]{16,}+")
_SIGN = re.compile(r"[0-9]|[A-Za-z]{16}")
# Every form but that of a URL is made of ASCII signs without a space between them.
_SIGNS = bytes(ord("x") if code < 0x80 and not chr(code).isspace() else ord(" ") for code in range(0x100))
_LONG_RUN = b"x" * LEAST
_SHORT = [(rule.gate, rule) for rule in RULES if rule.least < LEAST]
_LONG = [(rule.gate, rule) for rule in RULES if rule.least >= LEAST]
_UNMARKED = [(gate, rule) for gate, rule in _LONG if rule.lead or not any(mark in gate for mark in _MARKS)]
# By whether there is such a run, and whether all letters are small, as those of most paths are.
_TRIED = {
    (marked, small): [(gate, rule) for gate, rule in rules if not small or gate == gate.lower()]
    for marked, rules in ((True, _LONG), (False, _UNMARKED))
    for small in (True, False)
}


class NoRedactor:
    """Finds nothing, for a host that redacts what it shows itself."""

    def secrets(self, text: str) -> Sequence[Span]:  # noqa: ARG002
        """No place at all."""
        return ()


class PatternRedactor:
    """Finds the secrets of the built-in patterns, and of a host's `extra` regular expressions.

    Of an extra pattern with a group named `secret` only that group is masked, else the whole match. The built-in
    patterns take time linear in the text; keep yours so.

    The last `remember` texts of up to 2,048 characters are kept in memory with what was found in them, since a
    conversation is read again and again while it goes on; 0 keeps none.

    Raises:
        InvalidRequest: an extra pattern does not compile, or `remember` is no number from 0 up.
    """

    def __init__(self, extra: Sequence[str] = (), *, remember: int = 1_024) -> None:
        if isinstance(extra, str):
            raise InvalidRequest("extra must be a sequence of patterns, not one string")
        self._extra = tuple(_compiled(pattern) for pattern in extra)
        if not isinstance(remember, int) or isinstance(remember, bool) or remember < 0:
            raise InvalidRequest(f"remember must be a number of texts from 0 up, not {remember!r}")
        self._remembering = lru_cache(remember)(self._found)

    def secrets(self, text: str) -> Sequence[Span]:
        """The places of the secrets in `text`, in order and apart from each other; in time linear in its length."""
        return self._remembering(text) if len(text) <= _LONG_TEXT else self._found(text)

    def _found(self, text: str) -> Sequence[Span]:
        found: list[Span] = []
        # A short name alone, as those of tools are, is too short for a form, and nothing stands beside it. In ASCII:
        # other scripts set a name and its value side by side without a sign.
        if len(text) >= LEAST or not (text.isascii() and text.isidentifier()):
            found += _forms(text)
            found += named_secrets(text)
            if "PRIVATE" in text:
                found += _private_keys(text)
        for pattern in self._extra:
            group = "secret" if "secret" in pattern.groupindex else 0
            # A group that took no part in the match names no place: then the whole match is the secret.
            found += (match.span(group if match[group] is not None else 0) for match in pattern.finditer(text))
        return tuple(merged(found)) if found else ()


def _compiled(pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise InvalidRequest(f"an extra pattern must be a string, not {type(pattern).__name__}")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"the extra pattern {pattern!r} is no regular expression: {error}") from error


def _forms(text: str) -> list[Span]:
    found: list[Span] = []
    rules = [rule for gate, rule in _SHORT if gate in text] if ":" in text else []
    # Most words are shorter than any secret, and most texts hold no others.
    if words := _long_words(text):
        longest = max(map(len, words))
        long = " " + " ".join(words)
        marked = ("_" in long or "-" in long) and any(_SIGN.search(long, *run.span()) for run in _RUN.finditer(long))
        tried = _TRIED[marked, long.islower()]
        rules += [rule for gate, rule in tried if gate in long and rule.least <= longest]
    for rule in rules:
        for match in rule.pattern.finditer(text):
            start, end = match.span(match.lastindex or 0)
            start -= rule.lead
            if not is_reference(text[start : min(end, start + LOOK)]):
                found.append((start, end))
    return found


def _long_words(text: str) -> list[str]:
    """The runs of ASCII signs that are long enough to be a secret."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode(errors="surrogatepass")
    signs = data.translate(_SIGNS)
    words = []
    start = signs.find(_LONG_RUN)
    while start >= 0:
        end = signs.find(b" ", start)
        end = len(signs) if end < 0 else end
        words.append(data[start:end].decode("ascii"))
        start = signs.find(_LONG_RUN, end)
    return words


def _private_keys(text: str) -> Iterator[Span]:
    done = at = 0
    while begin := PRIVATE_KEY_BEGINS.search(text, at):
        at = begin.end()
        if _QUOTE.match(text, at) and not _BODY.search(text, at, at + 4 * LOOK):
            # Somebody writes about keys: the line alone, in quotes.
            continue
        yield from _headless(text, done, begin.start())
        end = PRIVATE_KEY_ENDS.search(text, at)
        # Without an end nothing says where the key stops, so nothing behind its beginning is safe to show.
        done = at = end.end() if end else len(text)
        yield begin.start(), done
    yield from _headless(text, done, len(text))


def _headless(text: str, start: int, stop: int) -> Iterator[Span]:
    """Keys in [start, stop) whose first line is not in the text: the lines of base64 before each last line."""
    for end in PRIVATE_KEY_ENDS.finditer(text, start, stop):
        before = text[start : end.start()]
        body = before.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\r\n")
        if line := _BODY.search(before, len(body)):
            yield start + line.start(), end.end()
        start = end.end()
