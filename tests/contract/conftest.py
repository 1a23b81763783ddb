"""A facade of each kind, with a few messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.facades import Kind, kind_of, stored


@pytest.fixture(params=["thread, file", "loop, file", "thread, memory", "loop, memory"])
def kind(request: pytest.FixtureRequest, store_path: Path) -> Iterator[Kind]:
    with kind_of(request.param, store_path) as kind:
        yield kind


@pytest.fixture(params=["thread", "loop"])
def filed(request: pytest.FixtureRequest, store_path: Path) -> Iterator[Kind]:
    """Facades on a file, which a host shares."""
    with kind_of(request.param, store_path) as kind:
        yield kind


@pytest.fixture
def scroll(kind: Kind) -> Iterator[Any]:
    with kind.open() as scroll:
        yield stored(scroll)
        assert scroll.verify().problems == ()
