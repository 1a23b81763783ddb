"""A session that is said something to."""

from collections.abc import Callable

import pytest

from backscroll import (
    Backscroll,
    NewMessage,
)
from tests.writing.stores import KEY


@pytest.fixture
def talk(scroll: Backscroll) -> Callable[..., None]:
    scroll.ensure_session(KEY)

    def say(*names: str) -> None:
        scroll.append_many(KEY, [NewMessage("user", f"word{name}", message_id=name) for name in names])

    return say
