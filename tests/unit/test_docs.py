"""The documentation is true: its examples run, its links lead somewhere, its commands are the ones that CI runs."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backscroll import Settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for language, text in found if language in languages]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python", "pycon")], ids=named)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    report: list[str] = []
    for language, text in blocks(page, "python", "pycon"):
        if language == "python":
            exec(compile(text, named(page), "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(text, names, named(page), str(page), 0)
            runner.run(test, out=report.append, clear_globs=False)
            names.update(test.globs)
    assert not runner.summarize(verbose=False).failed, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def commands() -> Iterator[str]:
    for _, text in blocks(ROOT / "README.md", "sh"):
        yield from text.splitlines()


def test_readme_has_one_line_for_each_of_its_three_promises() -> None:
    install, test, backend = (line for line in commands() if line.startswith("python3 -m venv"))
    assert "import examples/transcripts" in install
    assert backend.endswith("-r examples/backend/requirements.txt && python -m examples.backend")
    assert test.endswith("pytest")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    found = re.search(r"command=\$\(grep -E '([^']+)' README.md\)", script)
    assert found is not None
    picked = [line for line in (ROOT / "README.md").read_text().splitlines() if re.search(found[1], line)]
    assert picked == [line for line in commands() if line.endswith("pytest")]
    assert 'bash -euo pipefail -c "${command//.venv/$venv}"' in script


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(BACKSCROLL_\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    expected = {}
    for name, value in Settings().model_dump().items():
        for inner, default in value.items() if isinstance(value, dict) else [("", value)]:
            expected["BACKSCROLL_" + "__".join(filter(None, (name, inner))).upper()] = default
    assert rows.keys() == expected.keys()
    for name, default in expected.items():
        shown = {None: "not set", True: "true", False: "false"}.get(default, str(default))
        assert rows[name].replace(",", "").strip("` ") == shown, name
