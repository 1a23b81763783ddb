"""Every block of code in the documentation runs, or says why not."""

import configparser
import doctest
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import Backscroll
from tests.docs.pages import PAGES, ROOT, Block, blocks, named

OPTIONS = doctest.ELLIPSIS
SHELL = shutil.which("bash") or "bash"


class Runner:
    """Runs the blocks of one page in order, in one folder and one namespace."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "example"}
        self.languages: dict[str, Callable[[Block], object]] = {
            "python": lambda block: exec(compile("\n" * block.line + block.text, str(page), "exec"), self.names),
            "pycon": self.pycon,
            "sh": lambda block: self.command(block.text),
            "console": self.console,
            "sql": self.sql,
            "json": lambda block: json.loads(block.text),
            "toml": lambda block: tomllib.loads(block.text),
            "ini": lambda block: configparser.ConfigParser().read_string(block.text),
            "text": lambda block: None,
        }

    def run(self, block: Block) -> None:
        if block.remark.startswith("run by "):
            other = ROOT / block.remark.removeprefix("run by ")
            assert self.page.name in other.read_text(encoding="utf-8"), f"{block.remark}: it does not read the page"
        elif block.remark.startswith("not run: "):
            assert block.language == "sh", "only commands may be left out"
        else:
            known = ", ".join(self.languages)
            assert block.language in self.languages, f"the language must be one of {known}, not {block.language!r}"
            self.languages[block.language](block)

    def pycon(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, self.names, self.page.name, str(self.page), block.line)
        report: list[str] = []
        result = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(
            test, out=report.append, clear_globs=False
        )
        self.names.update(test.globs)
        assert not result.failed, "".join(report)

    def console(self, block: Block) -> None:
        """Runs each line after a `$`, and compares what it prints with the lines that follow, empty last ones aside."""
        first, *examples = ("\n" + block.text).split("\n$ ")
        assert examples, "no command after a $"
        assert not first.strip(), "output before the first command"
        for example in examples:
            command, _, expected = example.partition("\n")
            want, got = expected.rstrip() + "\n", self.command(command).rstrip() + "\n"
            assert doctest.OutputChecker().check_output(want, got, OPTIONS), f"{command}\n{got}"

    def command(self, text: str) -> str:
        """What commands print; they find `backscroll` and the examples where a reader has them."""
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            [SHELL, "-euo", "pipefail", "-c", text], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def sql(self, block: Block) -> None:
        """Runs in the store of the page's folder, which is made if need be."""
        Backscroll.open(f"sqlite:///{self.folder}/backscroll.db").close()
        with closing(sqlite3.connect(self.folder / "backscroll.db")) as connection:
            connection.executescript(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=named)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    runner = Runner(page, tmp_path)
    for block in blocks(page):
        try:
            runner.run(block)
        except BaseException as error:
            error.add_note(f"in {named(page)}, line {block.line}")
            raise


@pytest.mark.parametrize(
    "text",
    [
        "```\nno language\n```",
        "    only indented",
        "```cobol\nunknown\n```",
        "```python\nraise ValueError\n```",
        "```pycon\n>>> 1 + 1\n3\n```",
        "```sh\nfalse | true\n```",
        "```console\n$ echo naxos\nparos\n```",
        "```console\nnaxos\n```",
        "```sql\nSELECT nothing FROM nowhere;\n```",
        "```json\n{,}\n```",
        "```toml\na = \n```",
        "```ini\nnaxos\n```",
        "<!-- not run: a whim -->\n```python\nraise ValueError\n```",
        "<!-- run by tests/no_such_file.py -->\n```sh\nfalse\n```",
        "<!-- run by tests/docs/test_site.py -->\n```sh\nfalse\n```",
        "<!-- a remark -->\n```sh\nfalse\n```",
    ],
)
def test_a_block_that_is_wrong_is_noticed(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n")
    (block,) = blocks(page)
    with pytest.raises(Exception):  # noqa: B017 - of whatever kind the language has
        Runner(page, tmp_path).run(block)


def test_a_block_that_is_right_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nplace = 'Naxos'\n```\n```pycon\n>>> place\n'Na...'\n```\n"
        "```console\n$ echo Naxos > place\n\n$ cat place\nNa...\n```\n```sh\ngrep -q Naxos place\n```\n"
        "```sql\nSELECT count(*) FROM backscroll_messages;\n```\n<!-- not run: cannot -->\n```sh\nfalse\n```\n"
        "<!-- run by tests/docs/test_blocks.py -->\n```sh\nfalse\n```\n"
    )
    runner = Runner(page, tmp_path)
    for block in blocks(page):
        runner.run(block)
