"""How the command line is called by its tests, and how what it prints is read."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "transcripts"
FIXTURES = ROOT / "tests" / "fixtures" / "transcripts"
SHARED = ROOT.parent / "shared" / "data"
KEY = "agent:main:main"
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What may never reach a terminal from a transcript."""

Run = Callable[..., Result]


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def document(result: Result) -> Any:
    """The one JSON document on stdout."""
    return json.loads(result.stdout_bytes.decode("utf-8"))


def complaint(result: Result) -> str:
    """The one line on stderr, with nothing on stdout."""
    assert result.stdout == ""
    assert re.fullmatch(r"backscroll: [^\n]+\n", result.stderr), result.stderr
    return result.stderr.removeprefix("backscroll: ").rstrip("\n")


def process(*arguments: str | bytes, cwd: Path, **changes: Any) -> "subprocess.CompletedProcess[bytes]":
    """`python -m backscroll` in a process of its own, whose standard streams are pipes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **changes.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "backscroll", *arguments], cwd=cwd, env=env, capture_output=True, timeout=120, **changes
    )
