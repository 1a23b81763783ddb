"""What an importer remembers of a file: the same with a temporary file as without one."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain.text import storable
from backscroll.infrastructure.importers.seen import Met, Seen
from tests.unit.hostile import any_strings

IDS = st.one_of(st.sampled_from(["a", "b", "c", "aa", "ab", "é", "\U0001f350"]), any_strings(6).map(storable))
HASHES = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(IDS, HASHES, st.integers(0, 9))), st.lists(IDS), st.integers(1, 4))
def test_what_was_met_is_known_wherever_it_is_kept(
    records: list[tuple[str, int, int]], others: list[str], most: int
) -> None:
    met: dict[str, Met] = {}
    with closing(Seen(most)) as seen:
        for record_id, content, era in records:
            assert seen.get(record_id) == met.get(record_id)
            if record_id not in met:
                seen.add(record_id, content, era)
                met[record_id] = Met(content, era)
        for record_id in [*met, *others]:
            assert seen.get(record_id) == met.get(record_id)


@pytest.fixture
def seen() -> Iterator[Seen]:
    with closing(Seen(most=10)) as one:
        yield one


@pytest.mark.parametrize("name", ["{:06}", "{0}"])
def test_no_more_than_so_many_are_in_memory(seen: Seen, name: str) -> None:
    for number in range(1_000):
        assert seen.get(name.format(number)) is None
        seen.add(name.format(number), number, number // 100)
        assert len(seen._newest) <= 10
    assert [seen.get(name.format(number)) for number in (0, 555, 999)] == [Met(0, 0), Met(555, 5), Met(999, 9)]
