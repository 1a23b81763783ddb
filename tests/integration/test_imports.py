"""Importing reads nothing and starts nothing, and nothing that a store does stays behind in a module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backscroll import Settings

WALK = """
import importlib, pkgutil, sys
import backscroll

def modules():
    yield "backscroll"
    for found in pkgutil.walk_packages(backscroll.__path__, "backscroll."):
        # Revisions and their environment are Alembic's to load; running the package is the command line.
        if not found.name.startswith("backscroll.migrations") and found.name != "backscroll.__main__":
            yield found.name
"""

IMPORTING = f"""
import os, sys, threading
{WALK}
names = list(modules())
assert len(names) > 60, names
# What else they need is theirs: loaded before, so that only our own files are opened from here on.
import alembic.command, pydantic_settings, rich.console, rich.progress, sqlalchemy.orm, typer, typer.core
opened, environment = [], dict(os.environ)

def seen(event, arguments):
    if event == "open" and not str(arguments[0]).endswith((".py", ".pyc")):
        opened.append(arguments)
    elif event in ("socket.connect", "sqlite3.connect", "subprocess.Popen", "os.putenv", "logging.basicConfig"):
        opened.append((event, arguments))

sys.addaudithook(seen)
for name in names:
    importlib.import_module(name)
print(opened, threading.active_count(), environment == dict(os.environ), os.listdir("."))
"""


def nonsense() -> dict[str, str]:
    """Every setting in a form that no store would open with."""
    names = [*Settings.model_fields, "bounds__search_hits", "agent_to_agent__allow", "of_no_setting"]
    return {f"BACKSCROLL_{name.upper()}": "{nonsense" for name in names}


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be made read-only")
def test_importing_every_module_reads_no_setting_and_no_file_and_starts_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | nonsense()
    result = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", IMPORTING],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert (result.stderr, result.stdout) == ("", "[] 1 True []\n")


TWO_STORES = f"""
import asyncio, logging, threading, types
{WALK}
from backscroll import AsyncBackscroll, Backscroll, NoRedactor, Requester, Settings
from backscroll.infrastructure import sqlite_checks

loaded = {{name: importlib.import_module(name) for name in modules()}}
sqlite_checks.check_library()  # tells of a library's faults once in a process, and remembers that
for name in backscroll.__all__:
    getattr(backscroll, name)

def state():
    seen = {{}}
    for name, module in loaded.items():
        owners = {{name: vars(module)}}
        owners |= {{f"{{name}}.{{key}}": vars(value) for key, value in vars(module).items()
                   if isinstance(value, type) and value.__module__ == name}}
        for owner, values in owners.items():
            for key, value in values.items():
                if key.startswith("__") or key in ("registry", "metadata") or isinstance(value, types.ModuleType):
                    continue
                content = repr(value) if isinstance(value, (list, dict, set, frozenset, tuple, int, str)) else id(value)
                seen[owner, key] = content
    return seen

class Everything:
    def secrets(self, text):
        return [(0, len(text))]

KEY, OPERATOR = "agent:main:main", Requester.operator()
before, root = state(), list(logging.getLogger().handlers)
told = {{1: [], 2: [], 3: [], 4: []}}

async def main():
    strict = Settings(database_url="sqlite:///one.db", visibility="self", bounds={{"search_hits": 1}})
    plain = Settings(database_url="sqlite:///two.db")
    with (
        Backscroll.open(strict, audit=told[1].append) as one,
        Backscroll.open(plain, redactor=NoRedactor(), audit=told[2].append) as two,
    ):
        three = AsyncBackscroll.open("sqlite:///three.db", settings=strict, redactor=Everything(), audit=told[3].append)
        four = AsyncBackscroll.open("sqlite:///four.db", settings=plain, audit=told[4].append)
        async with three as three, four as four:
            for number in range(2):
                for place, scroll in enumerate((one, three, two, four)):
                    made = scroll.ensure_session(KEY)
                    if place % 2:
                        await made
                    stored = scroll.append(KEY, "user", f"granite password=Tr0ub4dor&3x9 {{number}}")
                    if place % 2:
                        await stored
            asking = Requester("agent:main:other")
            pages = [
                one.search("granite", requester=OPERATOR), two.search("granite", requester=OPERATOR),
                await three.search("granite", requester=OPERATOR), await four.search("granite", requester=OPERATOR),
            ]
            hidden = [
                one.search("granite", requester=asking), two.search("granite", requester=asking),
                await three.search("granite", requester=asking), await four.search("granite", requester=asking),
            ]
    assert [len(page.hits) for page in pages] == [1, 2, 1, 2], pages
    assert [len(page.hits) for page in hidden] == [0, 2, 0, 2], hidden
    assert ["granite" in page.hits[0].excerpt for page in pages] == [True, True, False, True]
    assert ["Tr0ub4dor" in page.hits[0].excerpt for page in pages] == [False, True, False, False]

asyncio.run(main())
assert {{place: len(events) for place, events in told.items()}} == {{1: 2, 2: 2, 3: 2, 4: 2}}
after = state()
print(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)),
      logging.getLogger().handlers == root)
"""


def test_stores_of_one_process_share_nothing_and_leave_no_module_changed(tmp_path: Path) -> None:
    program = [sys.executable, "-W", "error", "-c", TWO_STORES]
    result = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path)
    # How a character folds is the same for all.
    assert (result.stderr, result.stdout) == ("", "[('backscroll.domain.analyzer', '_FOLDS')] True\n")
