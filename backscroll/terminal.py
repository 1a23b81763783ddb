"""What meets the terminal: text that cannot drive it, commands to copy, JSON, progress.

Transcripts come from anywhere. Every string of theirs goes through `plain` or `one_line` before it is printed, and only
ever into `rich.text.Text`, which takes no markup from its content.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from backscroll.domain.ports import Progress
from backscroll.domain.text import REPLACEMENT, storable

_NARROWEST = 20
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_HIDDEN = (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
# One character for one, so that places in a text stay right: pictures for the controls of ASCII, the replacement
# character for those of Latin-1, for what turns the direction of writing, and for lone surrogates.
_SHOWN = _PICTURES | dict.fromkeys(_HIDDEN, REPLACEMENT) | dict.fromkeys((0x0A, 0x2028, 0x2029), "\n") | {0x09: "\t"}
_FLAT = str.maketrans("\n\t", "  ")


def plain(text: str) -> str:
    """`text` without any character that could drive a terminal; lines and tabs stay, and so does its length."""
    return text.translate(_SHOWN)


def one_line(text: str) -> str:
    """Like `plain`, with a space for every line break and tab."""
    return plain(text).translate(_FLAT)


def quoted(argument: str) -> str:
    """`argument` as one word of a shell command, in printable characters alone."""
    if one_line(argument) == argument:
        return shlex.quote(argument)
    return f"$'{''.join(map(_escaped, argument))}'"


def _escaped(character: str) -> str:
    code = ord(character)
    if character in "\\'":
        return f"\\{character}"
    if one_line(character) == character:
        return character
    # A lone surrogate in an argument is a byte that was no UTF-8.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


@dataclass(frozen=True, slots=True)
class NextCommand:
    """Writes commands to run next, with the options that the person gave for this one."""

    database: str | None
    requester: str | None = None

    def __call__(self, name: str, *words: str, **options: str | int | None) -> str:
        """`backscroll NAME WORDS OPTIONS`; an option that is None is left out, an empty one is a flag."""
        given: list[str] = []
        for option, value in (options | {"as": self.requester}).items():
            if value is not None:
                given.append(f"--{option.replace('_', '-')}")
                given.extend([str(value)] if value != "" else [])
        dashed = any(word.startswith("-") for word in words)
        arguments = [*given, "--", *words] if dashed else [*words, *given]
        database = [] if self.database is None else ["--database", self.database]
        return " ".join(map(quoted, ["backscroll", *database, name, *arguments]))


@dataclass(frozen=True, slots=True)
class Line:
    """Something to print on lines of its own. A `whole` one is never wrapped, so that it can be copied."""

    text: Text
    indent: int = 0
    whole: bool = False


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leaves it to the command line what a closed pipe means."""
        raise BrokenPipeError


def _console(*, stderr: bool = False) -> Console:
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def show(lines: Iterable[Line]) -> None:
    """Prints to stdout: coloured and wrapped for a terminal, else as plain lines."""
    console = _console()
    for line in lines:
        if console.is_terminal and not line.whole:
            pieces = line.text.wrap(console, max(console.width - line.indent, _NARROWEST))
        else:
            pieces = line.text.split("\n", allow_blank=True)
        for piece in pieces:
            piece.rstrip()
            console.print(Text(" " * line.indent if piece.plain else "") + piece, soft_wrap=True)


def write_json(value: object) -> None:
    """Writes one JSON document to stdout, in UTF-8 whatever the locale."""
    document = storable(json.dumps(value, ensure_ascii=False, indent=2))
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{document}\n".encode())
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Says something beside the answer, on stderr."""
    _console(stderr=True).print(Text(one_line(text), style="yellow"), soft_wrap=True)


def complain(text: str) -> None:
    """Says on stderr, in one line, what went wrong."""
    _console(stderr=True).print(Text.assemble(("backscroll: ", "bold red"), one_line(text)), soft_wrap=True)


def give_up_stdout() -> None:
    """Lets what is still to be written go nowhere, so that the interpreter does not fail on it when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress(label: str) -> Iterator[Progress | None]:
    """A bar on stderr while a person watches it there; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
