"""What the index holds of a message, told by what its row has as `search_text`, so that most text is stored once.

NULL: the text itself. `SPELLED`: the text with some letters spelled in others, which the view does whenever it is
read. Anything else: that, the folded text.
"""

from functools import reduce

from backscroll.domain.analyzer import JOINT, SPELLINGS, fold, folded_in_place, is_native, is_spellable, spelled

SPELLED = JOINT
"""No text folds to this."""


def search_text(text: str) -> str | None:
    """What the row of an indexed message with that text has as its `search_text`."""
    if is_native(text):
        return None
    return SPELLED if is_spellable(text) else fold(text)


def is_right(text: str, search_text_of_row: str | None) -> bool:
    """Whether with this `search_text` the index holds what is in the text; older releases spelled out nothing."""
    return search_text_of_row == search_text(text) or search_text_of_row == fold(text)


def body(text: str, search_text: str | None) -> str:
    """What the index holds of a message."""
    if search_text is None:
        return text
    return spelled(text) if search_text == SPELLED else search_text


def folded(text: str, search_text: str | None) -> str | None:
    """The folded form of what the index holds of a message; None where it is that of the text itself."""
    return folded_in_place(spelled(text)) if search_text == SPELLED else search_text


def body_of(row: str) -> str:
    """`body` in SQL, of the row of a message under that name; as revision 0006 has it."""
    letters = list(SPELLINGS.items())
    # In two steps: SQLite's parser has room for so many calls within each other only.
    first, second = (
        reduce(_replaced, some, text)
        for text, some in ((f"{row}.text", letters[:_AT_ONCE]), ("half", letters[_AT_ONCE:]))
    )
    spelled_out = f"(SELECT {second} FROM (SELECT {first} AS half))"
    return f"CASE {row}.search_text WHEN char(31) THEN {spelled_out} ELSE coalesce({row}.search_text, {row}.text) END"


_AT_ONCE = 18


def _replaced(expression: str, spelling: tuple[str, str]) -> str:
    letter, spelled_out = spelling
    return f"replace({expression}, char({ord(letter)}), '{spelled_out}')"
