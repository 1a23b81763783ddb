"""The reference pages tell all of the public names, and all of the command line."""

import re
from enum import StrEnum

import typer
from typer.core import TyperGroup

import backscroll
from backscroll.cli import app
from backscroll.running import EXIT_CODES
from tests.docs.pages import DOCS

REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))


def test_every_public_name_is_in_the_reference_once() -> None:
    assert sorted(re.findall(r"^::: backscroll\.(\w+)$", REFERENCE, re.MULTILINE)) == sorted(backscroll.__all__)


def test_every_method_of_the_facade_is_in_the_reference() -> None:
    listed = re.findall(r"^ +- (\w+)$", (DOCS / "api/backscroll.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [name for name in dir(backscroll.Backscroll) if not name.startswith("_")]


def test_every_value_of_an_enumeration_is_in_its_docstring() -> None:
    public = [getattr(backscroll, name) for name in backscroll.__all__]
    enumerations = [one for one in public if isinstance(one, type) and issubclass(one, StrEnum)]
    assert enumerations
    for one in enumerations:
        assert re.findall(r"`(\w+)`", one.__doc__ or "") == [value.value for value in one], one


def bullet(parameter: object) -> str:
    """An argument or option of a command, as the page shows it."""
    if isinstance(parameter, typer.core.TyperArgument):
        name = parameter.metavar
    else:
        assert isinstance(parameter, typer.core.TyperOption)
        name = " ".join(filter(None, (parameter.opts[0], parameter.metavar)))
    default = f" Default: `{parameter.default}`." if isinstance(parameter.default, str) else ""
    return f"- `{name}`: {parameter.help}{default}"


def test_the_command_line_page_has_every_command_option_and_exit_code() -> None:
    head, *sections = (DOCS / "cli.md").read_text(encoding="utf-8").split("\n## ")
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    told = {name: text.strip() for name, text in (section.split("\n", 1) for section in sections)}
    assert list(told) == [*(f"backscroll {name}" for name in group.commands), "Exit codes"]

    def bullets(text: str) -> list[str]:
        return re.findall(r"^- `.+", text, re.MULTILINE)

    assert bullets(head) == [bullet(one) for one in group.params]
    for name, command in group.commands.items():
        text = told[f"backscroll {name}"]
        assert text.startswith(f"{command.help}\n")
        assert bullets(text) == [bullet(one) for one in command.params]
    codes = [line.split(" ", 1) for line in EXIT_CODES.split("\n\n")[1:]]
    assert bullets(told["Exit codes"]) == [f"- `{code}`: {meaning}" for code, meaning in codes]
