r"""Whether what stands beside a name such as `password` is a secret, or a placeholder, a reference in code, a remark.

Every function looks at the beginning that it is given and no further, however long the value is. The cheap questions
come first: a text may hold a name every few characters.
"""

import re
from typing import NamedTuple

from backscroll.domain.redaction import MASK

LOOK = 96
"""How many characters of a value are judged. Without a space, no placeholder or remark is as long as that."""


class Place(NamedTuple):
    """How a value stands beside its name."""

    name: str
    """The name itself, in small letters."""
    strong: bool
    """The name means a password, which may be any word; else a token or a key, which is random."""
    quoted: bool
    equals: bool
    """Joined by an equals sign without spaces, as in an environment, a connection string or a URL."""
    constant: bool
    """The name is in capitals, as in an environment."""
    said: bool
    """Joined by words, or by nothing: the value has to speak for itself."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLANK = re.compile(r"[xX*•●]{5}|\*{3}|\.\.\.|…|<[A-Za-z_ -]{1,40}>")
_FILLERS = _words(
    "your yours example examples placeholder redacted dummy removed masked insert replace replaceme changeme"
    " changethis yourkey yourapikey yourtoken yoursecret yourpassword yourpass"
)
"""What a value says, or holds, that stands for another."""

_REFERENCE = re.compile(
    r"\$[{(]|\$\$?[A-Za-z_][\w:]*\W?$|\{[{%]|<%|#\{|%\(|%[sdrq](?![A-Za-z0-9])|%[A-Za-z_]\w*%$|&#?\w+;|@\{|@@?[a-z_]+@?$"
    r"|[\[<{(|>][^\]>})]*[\]>})]?$|[^{}]*\{[A-Za-z_][\w.]*\}|!(?:secret|vault|ref|sub|include|env|getatt|import)\b"
    r"|(?:secret|vault|env|ssm|op|ref|keyring|secretsmanager|data|file|https?)(?:\+\w+)?:|arn:|ENC\["
    r"|ssh-[a-z0-9]+ |-----"
)
"""How a value begins that says where the secret is instead of what it is."""
_OUTSIDE = re.compile(r"[)\]}]|[,;:+]?(?:\s|$)")
"""How a text goes on behind a quotation: the quote behind the name was its last."""

_CODE = re.compile(
    r"(?:await |new |not )?[&*!(]*(?:[A-Za-z_$][\w$.:?>-]*[(\[]"
    r"|(?:self|this|cls|os|process|sys|config|cfg|settings|args|opts|options|env|environ|ctx|context|req|request|params"
    r"|props|state|data|form|event|secrets|vars?|local|module|inputs?|credentials?|user|account|client|app|values?|row"
    r"|obj|matrix|github|steps|needs|import)(?:\.|->|::|\?\.)"
    r"|[A-Za-z_$]+(?:(?:\.|->|::|\?\.)[A-Za-z_$]++)+[!?;]?$)"
)
"""A call, an index, a member of a well-known object, a chain of names."""
_BRACKET = re.compile(r"[()\[\]{}\\]")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@ -]+(?:[/\\][\w.@ -]*)+$")
_SLUG = re.compile(
    r"(?:[A-Za-z]++[0-9]{0,3}[-_./:$ ]{1,2})+(?:[A-Za-z]*[0-9]{0,4}|v[0-9.]+)\W?$|[A-Za-z]+[0-9]{0,2}\W?$"
)
"""Words with at most a few digits behind each: a name, a place in code."""
_OPAQUE = re.compile(r"[A-Za-z+/=_.-]{20,}$")
_JOINED = re.compile(r"[A-Z]?[a-z]{2,}|[-_.:]")
"""What names made of words are made of; a random mix of cases has little of it."""

_LETTER = re.compile(r"[A-Za-z\u00aa-\u2e7f]")
"""Not Han or kana: a sentence in them has no spaces, and any number would make it a mix."""
_DIGIT = re.compile(r"[0-9]")
_JOINTS = re.compile(r"[-_./']")
_NAMES = re.compile(
    r"pass(?:word|wort|wd|phrase|code|$)|pwd|secret|token|credential|kennwort|contrase|senha|passe|wachtwoord|has[lł]o"
    r"|парол|(?:api|access|auth|private|public|signing|encryption)[-_ ]?key|^key$"
)
_LABEL = re.compile(r"pass(?:word|wort|code)|kennwort|contrase|senha|passe|wachtwoord|has[lł]o|парол")
_SCHEMES = re.compile(
    r"sha-?[0-9]|md[45]|base-?[0-9]|bcrypt|scrypt|argon|pbkdf|hmac|utf-?[0-9]|oauth|ipv[46]|x509|x86|nist|ed25519|secp"
    r"|(?:aes|rsa|http|iso|rfc|2fa|k8s|s3|v[0-9]|min[0-9]|max[0-9]|fido|u2f|tls|jwt)(?![a-z])"
    r"|[0-9]+[- ]?(?:\+|chars?|characters?|bits?|bytes?|digits?|days?|hours?|letters?|words?|times?|min|max)"
)
"""What a sentence about passwords says of them, with digits."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_REMARKS = _words(
    "the is are was be not and or if of in to for from with by it its this that you your yours we they he she"
    " please must should may can will can't cannot do does don't has have been at least enter choose create"
    " confirm forgot forgotten change changed update updated use used reset required when where which what why how"
    " only too also invalid incorrect wrong expired char chars character characters contain contains match matches"
    " missing empty optional field fields new current old strong weak short long same different already set here"
    " below above oder und nicht ist bitte neues eingeben ou et est un une le les la de del des el los las por"
    " para su tu tua uma mot"
)
"""Words of sentences and forms: a value with one of them is about secrets, not one."""
_STATES = _words(
    "none null nil undefined true false yes no on off nan void blank unset unknown default str string bytes int"
    " integer number bool boolean float double char text any object dict list array map type varchar nvarchar"
    " secretstr securestring literal input value hash hashed plain plaintext clear cleartext raw random generated"
    " prompt ask auto inherit include static dynamic basic bearer digest form json yaml hidden visible show hide"
    " deleted disabled enabled valid verified correct accepted ok okay error failed failure success done todo tbd"
    " n/a na see user username login email mail name id foo bar baz environment variable keychain stdin argv"
    " getpass erforderlich vergessen falsch requis requise obligatoire obligatorio obligatoria obrigatório"
    " obrigatória"
)
"""What stands behind a name as a type, a state or an example, alone."""


def is_filler(text: str) -> bool:
    """Whether `text` says of itself that it stands for something else, or is a mask."""
    if MASK in text or _BLANK.search(text):
        return True
    lowered = text.lower()
    told = lowered.startswith(("change-me", "change_me")) or lowered.endswith(("-here", "_here"))
    return told or not _FILLERS.isdisjoint(_WORD.findall(lowered))


def is_reference(text: str) -> bool:
    """Whether `text` says where a secret is instead of what it is, or is filler."""
    return _REFERENCE.match(text) is not None or is_filler(text)


def is_random(value: str, least: int) -> bool:
    """Whether `value`, of at least so many characters, mixes letters and digits (or cases) as only a machine does."""
    if len(value) < least or _LETTER.search(value) is None or _SLUG.match(value):
        return False
    mixed = _DIGIT.search(value) or (_OPAQUE.match(value) and 2 * len(_JOINED.sub("", value)) > len(value))
    return bool(mixed) and not is_filler(value)


def is_secret(value: str, place: Place, follows: str) -> bool:
    """Whether `value`, or the longer one that begins so, is a secret in its place, with `follows` right behind it."""
    if len(value) < (3 if place.strong else 6) or _REFERENCE.match(value):
        return False
    if (_OUTSIDE if place.quoted else _CODE).match(value) or _PATH.match(value):
        return False
    lowered = value.lower().strip(".,;:!?*)]}'\"")
    if not lowered or lowered in _REMARKS or lowered in _STATES or is_filler(value):
        return False
    if not place.quoted and (len(value) >= LOOK or (place.constant and place.equals and place.strong)):
        # An environment quotes nothing: what is no reference is the value, be it a word.
        return value.isascii() and (place.strong or not _SLUG.match(value))
    return _is_password(value, lowered, place, follows) if place.strong else _is_token(value, lowered, place)


def _is_loose(place: Place) -> bool:
    """Whether neither quotes nor a bare equals sign mark the value off from prose."""
    return place.said or not (place.quoted or place.equals)


def _is_token(value: str, lowered: str, place: Place) -> bool:
    if " " in value or _SCHEMES.match(lowered) or (not place.quoted and _BRACKET.search(value)):
        return False
    if is_random(value, 10 if _is_loose(place) else 8):
        return True
    if _is_loose(place) or not value.isascii():
        return False
    if place.name in ("secret", "pass") and value.isalnum() and not value.isdigit() and _DIGIT.search(value):
        # Also used for what a person thinks up.
        return True
    if value.isdigit():
        return len(value) >= 8 and place.name != "token"
    # In an environment a word is the value, unless it names another entry.
    plain = value.isalpha() or not _NAMES.search(lowered)
    return place.constant and place.equals and plain and not value.isupper() and not re.search("[/:.]", value)


def _is_password(value: str, lowered: str, place: Place, follows: str) -> bool:
    if place.quoted and (" " in value or "\t" in value):
        # Several words: a passphrase, or a remark about one.
        if len(lowered) < 8 or lowered.count(" ") >= 12 or not lowered.isascii() or _LABEL.search(lowered):
            return False
        return not _is_remark(lowered) and not lowered.startswith(("a ", "an "))
    letters = _LETTER.search(value) is not None
    if not _DIGIT.search(value):
        return letters and _is_word(value, lowered, place, follows)
    if not letters:
        # A PIN beside its name; in a sentence a number is a number.
        return len(lowered) >= 4 and lowered.isascii() and not place.said
    if not _is_loose(place):
        return True
    return len(lowered) >= (6 if place.said else 4) and not _SCHEMES.match(lowered) and not _is_remark(lowered)


def _is_remark(lowered: str) -> bool:
    return not _REMARKS.isdisjoint(_WORD.findall(lowered))


def _is_word(value: str, lowered: str, place: Place, follows: str) -> bool:
    """Whether letters without a digit are a password."""
    if not value.isascii() or _NAMES.search(lowered) or _is_remark(lowered):
        return False
    if not _JOINTS.sub("", lowered).isalpha():
        return not _is_loose(place)
    if place.quoted:
        return not place.said or (len(value) >= 6 and not lowered.endswith("ed"))
    if place.said or not (place.equals or value.isalpha()):
        return len(value) >= 20 and value.isalpha()
    if len(value) < (3 if place.equals else 6):
        return False
    # Unquoted it is one only where nothing more is said of it: at the end of a line, a field, a parameter.
    return follows in ("", "\n", "\r", "\\", "&", ";", "#") or (place.equals and follows in (" ", "\t", '"', "'", "`"))
