"""The inner layers by the imports in their files; `lint-imports` checks the outer ones."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "domain": ("backscroll.domain",),
    "services": ("backscroll.domain", "backscroll.services"),
    "infrastructure": ("backscroll.domain", "backscroll.infrastructure"),
}


def imports(file: Path) -> Iterator[str]:
    """The full names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name} has a relative import"
            assert node.module is not None
            # `from backscroll import services` names the module in its second half.
            yield from (f"backscroll.{alias.name}" for alias in node.names if node.module == "backscroll")
            yield from () if node.module == "backscroll" else (node.module,)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("layer", ["domain", "services"])
def test_inner_layers_use_the_standard_library_and_what_lies_below(layer: str) -> None:
    files = list((ROOT / layer).rglob("*.py"))
    assert files
    foreign = {
        (file.name, name)
        for file in files
        for name in imports(file)
        if name.partition(".")[0] not in sys.stdlib_module_names and not within(name, ALLOWED[layer])
    }
    assert foreign == set()


@pytest.mark.parametrize("layer", list(ALLOWED))
def test_no_layer_reaches_up_or_across(layer: str) -> None:
    ours = {
        (file.name, name)
        for file in (ROOT / layer).rglob("*.py")
        for name in imports(file)
        if name.partition(".")[0] in ("backscroll", "domain", "services", "infrastructure")
    }
    assert {(file, name) for file, name in ours if not within(name, ALLOWED[layer])} == set()


def test_only_the_wiring_and_the_front_door_know_the_adapters() -> None:
    knowing = {
        file.name
        for file in (ROOT / "backscroll").glob("*.py")
        if any(within(name, ("backscroll.infrastructure",)) for name in imports(file))
    }
    assert knowing <= {"__init__.py", "bootstrap.py", "asynchronous.py"}
