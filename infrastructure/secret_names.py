r"""Secrets that stand beside a name: `PASSWORD=...`, `"api_key": "..."`, `the password is "..."`, `Bearer ...`.

The name is found in the lower-cased text, with whatever joins it to its value: a sign, an attribute, a few words. The
value is read to its end, which depends on how it opens, and `secret_values` says whether it is a secret. Only the
value is masked.

Linear: every repeat in the patterns is bounded or possessive, and a value is judged by its first few characters; no
more of it is read before it is known to be one, and then the search goes on behind it.
"""

import re
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from backscroll.domain.redaction import Span
from backscroll.infrastructure.secret_values import LOOK, Place, is_random, is_reference, is_secret

_NAME = r"p(?:ass(?:w(?:or[dt]|d)|phrase|code)?|wd?)|token|secret|credentials?|auth|key|identified by"
_FOREIGN = (
    r"kennwort|contrase[ñn]a|senha|mot[ _-]?de[ _-]?passe|wachtwoord|has[lł]o|lösenord|şifre|parola|пароль|密[码碼]"
    r"|口令|パスワード|비밀번호"
)
# Each way to write a name begins with one of these.
_GATES = ("pass", "pw", "token", "secret", "key", "auth", "credential", "identified by")
_WEAK = frozenset(("pass", "token", "secret", "credential", "credentials", "auth", "key"))
"""Names of tokens and keys; the others are names of passwords."""
_SHORT = frozenset(("pw", "pwd", "pass", "auth", "senha", "haslo", "parola"))
"""Names that are also the end of other words, and so must begin one."""

_SUFFIX = (
    r"(?:[_ .-]?access)?(?:[_ .-]?key)?"
    r"(?:[_-]?(?:value|base|prod|dev|test|staging|live|old|new|confirm(?:ation)?|again)|[_-]?[0-9]{1,2}){0,2}"
)
_CLOSED = r"[*_]{0,3}(?:\\{0,7}[\"'`”])?\]?[*_]{0,3}(?:[ ]\([^()\n]{1,30}\))?"
_GAP = r"[ \t]{0,8}"
_LINE = r"(?P<line>\r?\n[ \t]{0,16}(?![\s-]|[\w .-]{1,40}[:=]))?"
_QUOTED = r"[rbfu@$&]{0,2}\\{0,7}[\"'`“‘„«「]"
_IS = r"(?:is|was|to|are|ist|lautet|es|est)"
_JOINTS = (
    # A type between the name and the sign: password: str = "..."
    rf"{_GAP}:[ ]{{0,3}}[a-z&][\w.\[\]|&<>' ?]{{0,40}}?[ ]{{0,3}}=[ ]{{0,3}}(?={_QUOTED})",
    rf"(?P<sign>{_GAP}(?:[=-]>|[:=!?]?={{1,2}}|＝){_GAP}[*_]{{0,3}})",
    rf"{_GAP}[:：][*_]{{0,3}}{_GAP}[*_]{{0,3}}{_LINE}",
    # The name in one attribute, the value in the next: name="password" value="...", "name": "TOKEN", "value": "..."
    rf",?(?:\s|\\n){{0,40}}\\{{0,7}}[\"']?\bvalue\\{{0,7}}[\"']?{_GAP}[:=]{_GAP}",
    # A few words: the password for the printer is ..., set the root password to ..., API key for staging: ...
    rf"(?P<said>(?:[ \t]{{1,3}}(?!{_IS}[ \t])[a-z0-9'’@._/-]{{1,24}}+){{0,6}}"
    rf"(?:[ \t]{{1,3}}{_IS}(?:[ \t]now)?(?:[ \t]{{0,3}}:)?[ \t]{{1,3}}|[ \t]{{0,3}}:[ \t]{{1,3}}|[ ]?是[ ]?|は[ ]?))",
    rf"(?P<bare>(?:[ \t]{{1,3}}|\()(?={_QUOTED}))",
    rf"(?P<listed>[ ]{{0,2}},[ ]{{0,2}}(?={_QUOTED}))",
    r"(?P<element>>)(?=[^<\s][^<\n]{0,200}</)",
)
_OPEN = r"(?P<open>[rbfu@$&]{0,2}\\{0,7}(?:\"\"\"|'''|[\"'`“‘„«「]))?"
_TAIL = rf"{_SUFFIX}{_CLOSED}(?:{'|'.join(_JOINTS)}){_OPEN}"
_HEAD = re.compile(rf"(?P<name>{_NAME}){_TAIL}")
_FOREIGN_HEAD = re.compile(rf"(?P<name>{_FOREIGN}){_TAIL}")

_FLAG = re.compile(
    r"-(?<![\w-]-)(?:(?:-user|u)[ =][\"']?[\w.@+-]{1,64}:"
    r"|-(?P<name>(?:[a-z0-9]{1,20}-){0,3}(?:pass(?:word|wd|phrase)?|pwd|token|secret|(?:api|access|secret|secret-access)-?key))"
    r"[ ]{1,4})(?P<open>[\"'])?"
)
_CLIENT = re.compile(
    r"(?:(?:mysql|mariadb)[a-z-]{0,8}(?:[ ]{1,4}(?!-p\S)[^\s'\"]{1,80}+){0,12}[ ]{1,4}-p(?=\S)"
    r"|sshpass[ ]{1,4}-p[ ]{0,4})(?P<open>[\"'])?(?P<name>)"
)
_HEADER = re.compile(
    r"authorization(?:\\{0,7}[\"'`])?\]?[ \t]{0,4}[:=,][ \t]{0,4}(?:[rbfu$]{0,2}\\{0,7}[\"'`])?"
    r"(?P<scheme>(?:bearer|basic|bot|token|api-?key|ghtoken|jwt|key|splunk|genie-?key|negotiate)(?:[ ]|%20|\+){1,4})?"
)
_SCHEME = re.compile(r"b(?P<scheme>earer|asic)(?:[ ]|%20|\+){1,4}")
_HEADER_WORD = re.compile(
    r"(?:access|auth|api|id|refresh|jwt|bearer|my|the|some|user|client)?[-_.]?(?:token|key|secret|jwt|credentials?)s?"
    r"|auth(?:entication|orization)?|scheme|header|required|undefined|null|string"
)
_CREDENTIALS = re.compile(r"[A-Za-z0-9._~+/=\-]*+")

# What an unquoted value is made of, a piece at a time: Python before 3.11.5 matches a possessive group of alternatives
# wrongly (https://github.com/python/cpython/issues/106052), and another could give back what it took. A sign that also
# ends values belongs to them when more plainly follows.
_PIECE = re.compile(
    r"(?:[^\s\"'`<>,;&\\|()\[\]{}”’»」。，；、]++"
    r"|,(?![\s\"'{\[]|[\w.\-]{1,40}[=:]|$)"
    r"|;(?![\s\"']|[\w .\-]{1,40}=|$)"
    r"|&(?![\w.\-\[\]]{1,40}=|\s|$|amp;)"
    r"|\\(?![\\nrtu\"'`]|$)"
    r"|'(?=\w)|<(?![/a-zA-Z!])|[>|](?!\s|$)|[(\[{]|[)\]}](?=[\w!@#$%^*+=~/-]))"
)
_ELEMENT = re.compile(r"[^<\n]*+")

_CLOSING = {"“": "”", "„": "“", "‘": "’", "«": "»", "「": "」"}
_NO_TOKEN = re.compile(
    r"(?:page|input|output|continuation|sync|next|eos|bos|pad|unk|mask|cls|sep|special|image|start|end|stop|first|last"
    r"|cancel(?:lation)?)[_ -]?\Z"
)
_KEYS = re.compile(
    r"(?:api|access|auth|private|encryption|signing|account|master|app|deploy|consumer|service)[ _.-]?\Z"
)
_SETTER = re.compile(r"(?:define|(?:set|put)?env|set|put|add|append|\w*property|\w*header)\([ ]?\\{0,7}[\"'][\w.-]*\Z")
_ELEMENT_NAME = re.compile(r"<[\w:.-]*\Z")
_LOGIN = re.compile(r"://[\w.%+-]*\Z")


def named_secrets(text: str) -> list[Span]:
    """The places of the values beside names that mean a secret."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # A letter that becomes two would shift every place behind it.
        lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    found: list[Span] = []
    if named := _may_name(lowered):
        names = [gate for gate in _GATES if gate in lowered]
        found += _assigned(text, lowered, _heads(lowered, names))
        if "authorization" in lowered:
            found += _headers(text, lowered, _HEADER)
    if (named and "passe" in lowered) or _may_name_abroad(lowered):
        found += _assigned(text, lowered, partial(_FOREIGN_HEAD.search, lowered))
    if "-" in lowered:
        if "mysql" in lowered or "mariadb" in lowered or "sshpass" in lowered:
            found += _flags(text, lowered, _CLIENT)
        if " -u" in lowered or "--" in lowered:
            found += _flags(text, lowered, _FLAG)
    if "bearer" in lowered or "basic" in lowered:
        found += _headers(text, lowered, _SCHEME)
    return found


# Most text holds none of the beginnings, and they are looked for one by one: a loop takes longer.
def _may_name(lowered: str) -> bool:
    return (
        "key" in lowered
        or "token" in lowered
        or "pass" in lowered
        or "secret" in lowered
        or "auth" in lowered
        or "pw" in lowered
        or "credential" in lowered
        or "identified by" in lowered
    )


def _may_name_abroad(lowered: str) -> bool:
    return (
        "kennwort" in lowered
        or "contrase" in lowered
        or "senha" in lowered
        or "wachtwoord" in lowered
        or "haslo" in lowered
        or "parola" in lowered
        or (not lowered.isascii() and _may_name_in_other_letters(lowered))
    )


def _may_name_in_other_letters(lowered: str) -> bool:
    return (
        "密" in lowered
        or "口令" in lowered
        or "パスワード" in lowered
        or "비밀번호" in lowered
        or "пароль" in lowered
        or "hasło" in lowered
        or "lösenord" in lowered
        or "şifre" in lowered
    )


def _heads(lowered: str, names: Sequence[str]) -> Callable[[int], re.Match[str] | None]:
    """What finds the first head at or behind a place: as `_HEAD.search`, but where names begin alone."""
    starts = sorted(start for gate in names for start in _places(lowered, gate))

    def search(at: int) -> re.Match[str] | None:
        for place in range(bisect_left(starts, at), len(starts)):
            if head := _HEAD.match(lowered, starts[place]):
                return head
        return None

    return search


def _places(text: str, gate: str) -> Iterator[int]:
    at = text.find(gate)
    while at >= 0:
        yield at
        at = text.find(gate, at + 1)


def _assigned(text: str, lowered: str, search: Callable[[int], re.Match[str] | None]) -> Iterator[Span]:
    at = 0
    while head := search(at):
        at, start = head.end("name"), head.end()
        first = text[start : start + 1]
        # Nothing follows, or a sentence in Han or kana does.
        if first.isspace() or not "" < first < "\u2e80" or not _is_name(text, lowered, head):
            continue
        place = _place(text, head)
        end = _value_end(text, start, head["open"], place, tagged=head["element"] is not None)
        # More is identified by words than users are.
        if end and not (head["name"] == "identified by" and text[start:end].isalpha()):
            yield start, end
            at = end


def _is_name(text: str, lowered: str, head: re.Match[str]) -> bool:
    name, start = head["name"], head.start("name")
    if name in _SHORT and text[start - 1 : start].isalpha() and not _is_hump(text, start):
        return False
    before = lowered[max(start - 40, 0) : start]
    if name == "key":
        return _KEYS.search(before) is not None
    if name == "auth" and not head["open"] and not before.endswith(("_", ":")):
        return False
    if (name == "pass" and (head["said"] or head["bare"])) or (name == "token" and _NO_TOKEN.search(before)):
        return False
    if before.endswith(":") and lowered.startswith(":", head.end("name")):
        # The parts of a resource's name, as in arn:...:secret:...
        return False
    if head["listed"] is not None:
        return _SETTER.search(before) is not None
    if head["element"] is not None:
        return _ELEMENT_NAME.search(before) is not None
    # The name of a user in a URL, whose password the form of a URL tells.
    return "://" not in before or _LOGIN.search(before) is None


def _is_hump(text: str, start: int) -> bool:
    """Whether a capital behind a small letter begins a word here, as in userPass."""
    return text[start].isupper() and text[start - 1 : start].islower()


def _place(text: str, head: re.Match[str]) -> Place:
    name, (start, end) = head["name"], head.span("name")
    strong = name not in _WEAK
    if name == "pass" and start:
        # Otherwise a verb, and the word for success.
        strong = text[start - 1] in "_-." or _is_hump(text, start)
    return Place(
        name=name,
        strong=strong,
        quoted=head["open"] is not None or head["element"] is not None,
        equals=head["sign"] == "=",
        constant=text[start:end].isupper(),
        said=(head["said"] or head["line"] or head["bare"] or head["listed"]) is not None,
    )


def _value_end(text: str, start: int, opening: str | None, place: Place, *, tagged: bool = False) -> int:
    """Where the secret that begins at `start` ends; 0 if what stands there is none."""
    soon = min(start + LOOK, len(text))
    end = _read(text, start, opening, tagged, soon)
    value = text[start:end]
    # A shell runs what stands in backquotes; a person puts one word there.
    if (opening == "`" and " " in value) or not is_secret(value, place, text[end : end + 1]):
        return 0
    return _read(text, start, opening, tagged, len(text)) if end == soon else end


def _read(text: str, start: int, opening: str | None, tagged: bool, stop: int) -> int:
    if opening:
        return _quotation_end(text, opening, start, stop)
    piece = _ELEMENT if tagged else _PIECE
    while (found := piece.match(text, start, stop)) and found.end() > start:
        start = found.end()
    return start


def _quotation_end(text: str, opening: str, start: int, stop: int) -> int:
    """Where the quotation closes; where the line or the text ends, if it does not.

    A quote at the depth of n backslashes closes behind n of them, whole escaped pairs aside; one behind fewer closes
    a quotation around it.
    """
    line = text.find("\n", start, stop)
    stop = line if line >= 0 else stop
    mark = opening.lstrip("rbfu@$&")
    quote = mark.lstrip("\\")
    depth = len(mark) - len(quote)
    quote = _CLOSING.get(quote, quote)
    at = text.find(quote, start, stop)
    while at >= 0:
        slashes = 0
        while at - slashes > start and text[at - slashes - 1] == "\\":
            slashes += 1
        if slashes < depth or slashes % (2 * depth + 2) == depth:
            return at - min(slashes, depth)
        at = text.find(quote, at + 1, stop)
    return stop


def _flags(text: str, lowered: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    at = 0
    while head := pattern.search(lowered, at):
        at, start, name = head.end(), head.end(), head["name"] or "password"
        strong = "pass" in name or "pwd" in name
        place = Place(
            name=name,
            strong=strong,
            quoted=head["open"] is not None,
            equals=False,
            constant=False,
            said=True,
        )
        if end := _value_end(text, start, head["open"], place):
            yield start, end
            at = end


def _headers(text: str, lowered: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    at = 0
    while head := pattern.search(lowered, at):
        at = start = head.end()
        found = _CREDENTIALS.match(text, start, start + LOOK)
        if found and _is_credential(text, found.span(), head["scheme"], within=pattern is _HEADER):
            whole = _CREDENTIALS.match(text, start)
            at = whole.end() if whole else found.end()
            yield start, at


def _is_credential(text: str, place: Span, scheme: str | None, *, within: bool) -> bool:
    """Whether there is what a header with this scheme, or the mere name of a scheme, announces."""
    value, follows = text[slice(*place)], text[place[1] : place[1] + 1]
    if within and scheme:
        # A word is taken for one where the header ends with it.
        whole = follows in ("", "\n", "\r", "\\", '"', "'", "`") and not _HEADER_WORD.fullmatch(value.lower())
        return is_random(value, 6) or _names_itself(value) or (whole and len(value) >= 6 and not is_reference(value))
    if within:
        return is_random(value, 12)
    return is_random(value, 16) if scheme == "earer" else len(value) >= 8 and _names_itself(value)


def _names_itself(value: str) -> bool:
    """Whether it is the base64 of a name, a colon and a password."""
    try:
        return b":" in b64decode(value[: len(value) // 4 * 4])
    except ValueError:
        return False
