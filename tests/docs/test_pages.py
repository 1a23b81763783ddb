"""The documentation is true: its links lead somewhere, its commands are the ones that CI runs, its tables are whole."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backscroll import Settings
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, named

LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def commands() -> Iterator[str]:
    for block in blocks(ROOT / "README.md"):
        if block.language == "sh":
            yield from block.text.splitlines()


def test_readme_has_one_line_for_each_of_its_two_promises() -> None:
    install, test = (line for line in commands() if line.startswith("python3 -m venv"))
    assert "import examples/transcripts" in install
    assert test.endswith("pytest")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    found = re.search(r"command=\$\(grep -E '([^']+)' README.md\)", script)
    assert found is not None
    picked = [line for line in (ROOT / "README.md").read_text().splitlines() if re.search(found[1], line)]
    assert picked == [line for line in commands() if line.endswith("pytest")]
    assert 'bash -euo pipefail -c "${command//.venv/$venv}"' in script


def test_every_setting_is_documented_with_its_default() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(BACKSCROLL_\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    expected = {}
    for name, value in Settings().model_dump().items():
        for inner, default in value.items() if isinstance(value, dict) else [("", value)]:
            expected["BACKSCROLL_" + "__".join(filter(None, (name, inner))).upper()] = default
    assert rows.keys() == expected.keys()
    for name, default in expected.items():
        shown = {None: "not set", True: "true", False: "false"}.get(default, str(default))
        assert rows[name].replace(",", "").strip("` ") == shown, name
