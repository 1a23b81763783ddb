"""A search that tells the ids of what it found."""

import pytest

from backscroll import (
    Backscroll,
    Requester,
)
from tests.search.searching import names


@pytest.fixture
def look(scroll: Backscroll, operator: Requester):
    def search(query: str, **asked: object) -> list[str]:
        return names(scroll.search(query, **{"requester": operator, **asked}))

    return search
