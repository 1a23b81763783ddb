"""The pages of the documentation and the fenced blocks in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples/README.md", *sorted(DOCS.rglob("*.md"))]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    A comment in front of it is its remark: `<!-- not run: REASON -->`, for commands alone, or
    `<!-- run by tests/FILE.py -->`, where another test reads the page and runs it.
    """

    language: str
    text: str
    line: int
    remark: str = ""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """The page's blocks in order; one that is only indented, and so names no language, is one of them."""
    comment = ""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map is not None:
            remark = comment.strip().removeprefix("<!--").removesuffix("-->").strip()
            yield Block(token.info, token.content, token.map[0] + 1, remark)
        comment = token.content if token.type == "html_block" else ""
