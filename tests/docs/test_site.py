"""The site is built without a network and without a warning, holds every page, and asks nothing of other machines."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import backscroll
from tests.docs.pages import DOCS, ROOT

CONFIG = ROOT / "mkdocs.yml"


def pages_of(entries: object) -> list[str]:
    """The pages that a navigation names, at any depth."""
    if isinstance(entries, str):
        return [entries]
    inner = entries.values() if isinstance(entries, dict) else entries
    return [page for one in inner for page in pages_of(one)]


def test_the_navigation_has_every_page_once() -> None:
    navigation = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"]
    assert sorted(pages_of(navigation)) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


class Resources(HTMLParser):
    """Collects what a browser loads by itself, and the anchors, of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        self.loaded.add(values.get("src", ""))
        if tag == "link":
            self.loaded.add(values.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; made from a copy, since its builder keeps a cache beside its configuration."""
    copy = tmp_path_factory.mktemp("docs")
    shutil.copy(CONFIG, copy)
    shutil.copytree(DOCS, copy / "docs")
    (copy / "backscroll").symlink_to(ROOT / "backscroll")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=copy,
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "site"


def test_the_site_is_whole_and_stands_alone(site: Path) -> None:
    built = {page.relative_to(site).as_posix(): Resources() for page in site.rglob("*.html")}
    for name, resources in built.items():
        resources.feed((site / name).read_text(encoding="utf-8"))
    assert built.keys() >= {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}

    anchors = set().union(*(resources.anchors for resources in built.values()))
    assert {f"backscroll.{name}" for name in backscroll.__all__} <= anchors

    for name, resources in built.items():
        for target in resources.loaded - {""}:
            assert not re.match(r"(\w+:)?//", target), f"{name} loads {target}"
            place = target.partition("?")[0].partition("#")[0]
            assert (site / place.lstrip("/") if place.startswith("/") else (site / name).parent / place).exists(), (
                target
            )
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(\w+:)?//", sheet.read_text(encoding="utf-8")), sheet
    assert "Naxos" in (site / "search.js").read_text(encoding="utf-8")
