"""The rules of reopening against plain lists of messages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.model import SPOKEN, Reset, Role
from backscroll.domain.paths import Stretch, active_path, closed_interval, current_view, window
from tests.factories import ResetFactory

ROLES = st.lists(st.sampled_from(list(Role)), max_size=12)


def reset_at(depth: int, roles: list[Role], first_kept: int | None = None) -> Reset:
    """A reset behind the first `depth` messages that keeps those from the depth `first_kept` on."""
    kept = 0 if first_kept is None else sum(role in SPOKEN for role in roles[first_kept - 1 : depth])
    return ResetFactory(depth=depth, first_kept_depth=first_kept, kept=kept)


def held(stretch: Stretch, roles: list[Role]) -> list[int]:
    """The depths of the messages in the stretch."""
    return [depth for depth, role in enumerate(roles, start=1) if stretch.holds(depth, role)]


# The active path


@given(st.lists(st.integers(0, 30), max_size=30), st.data())
def test_the_active_path_leads_from_the_root_to_the_head_by_each_parent(
    choices: list[int], data: st.DataObject
) -> None:
    parents: dict[str, str | None] = {}
    lines: dict[str | None, list[str]] = {None: []}
    for number, choice in enumerate(choices):
        above = None if number == 0 or choice == 0 else f"m{(choice - 1) % number}"
        parents[f"m{number}"] = above
        lines[f"m{number}"] = [*lines[above], f"m{number}"]
    head = data.draw(st.sampled_from([None, *parents]))
    assert active_path(parents, head) == lines[head]


@pytest.mark.parametrize(
    "parents", [{"a": "a"}, {"a": "b", "b": "c", "c": "b"}, {"a": "b"}, {}, {"a": "b", "b": "gone"}]
)
def test_parents_that_lead_to_no_root_are_an_error_and_no_endless_walk(parents: dict[str, str | None]) -> None:
    with pytest.raises(ValueError, match="do not lead to a root"):
        active_path(parents, "a")


def test_a_line_of_thousands_of_messages_is_no_recursion() -> None:
    parents: dict[str, str | None] = {f"m{number}": f"m{number - 1}" for number in range(1, 5_000)}
    parents["m0"] = None
    assert len(active_path(parents, "m4999")) == 5_000


# What a reader sees


def test_without_a_reset_everything_is_in_view() -> None:
    roles = [Role.SYSTEM, Role.USER, Role.TOOL, Role.ASSISTANT]
    assert held(current_view(4, None), roles) == [1, 2, 3, 4]
    assert held(current_view(0, None), []) == []


@settings(max_examples=120)
@given(ROLES, st.data())
def test_the_current_view_is_what_the_latest_reset_kept_and_all_after_it(
    roles: list[Role], data: st.DataObject
) -> None:
    depth = data.draw(st.integers(0, len(roles)))
    first_kept = data.draw(st.none() | st.integers(1, depth)) if depth else None
    latest = reset_at(depth, roles, first_kept)
    spoken = [] if first_kept is None else [at for at in range(first_kept, depth + 1) if roles[at - 1] in SPOKEN]
    view = current_view(len(roles), latest)
    assert held(view, roles) == spoken + list(range(depth + 1, len(roles) + 1))
    # What a store needs to count the view without reading it.
    assert view.kept == len(spoken)
    assert view.kept + max(view.last - max(view.kept_until, view.first - 1), 0) == len(held(view, roles))


@settings(max_examples=120)
@given(ROLES, st.data())
def test_closed_intervals_and_what_follows_the_last_reset_part_the_whole_path(
    roles: list[Role], data: st.DataObject
) -> None:
    depths = sorted(data.draw(st.lists(st.integers(0, len(roles)), max_size=4)))
    resets = [reset_at(depth, roles) for depth in depths]
    seen: list[int] = []
    for previous, closing in zip([None, *resets], resets, strict=False):
        seen += held(closed_interval(previous, closing), roles)
    assert seen == list(range(1, (depths or [0])[-1] + 1))
    assert seen + held(current_view(len(roles), (resets or [None])[-1]), roles) == list(range(1, len(roles) + 1))


def test_a_closed_interval_holds_nothing_from_before_or_after_its_resets_also_when_they_kept_some() -> None:
    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER, Role.ASSISTANT, Role.USER]
    one, two = reset_at(2, roles, first_kept=1), reset_at(5, roles, first_kept=4)
    assert held(closed_interval(None, one), roles) == [1, 2]
    assert held(closed_interval(one, two), roles) == [3, 4, 5]
    assert held(current_view(6, two), roles) == [4, 5, 6]


def test_a_reset_behind_nothing_and_two_at_one_place_hide_no_more_than_they_should() -> None:
    roles = [Role.USER, Role.ASSISTANT]
    assert held(current_view(2, reset_at(0, roles)), roles) == [1, 2]
    assert held(closed_interval(None, reset_at(0, roles)), roles) == []
    assert held(closed_interval(reset_at(2, roles), reset_at(2, roles)), roles) == []
    assert held(current_view(2, reset_at(2, roles)), roles) == []


# Windows


@given(st.integers(1, 12), st.integers(0, 15), st.integers(0, 15))
def test_a_window_is_half_newer_the_rest_older_and_shifted_to_stay_full(limit: int, older: int, newer: int) -> None:
    line = list(range(-older, newer + 1))
    # A frame of `limit` messages with limit // 2 behind the anchor, moved into the line.
    end = min(older + limit // 2, len(line) - 1)
    start = max(end - limit + 1, 0)
    end = min(start + limit - 1, len(line) - 1)
    older_taken, newer_taken = window(limit, older, newer)
    assert line[older - older_taken : older + newer_taken + 1] == line[start : end + 1]
    assert older_taken + 1 + newer_taken == min(limit, len(line))


@pytest.mark.parametrize(
    ("limit", "older", "newer", "taken"),
    [
        (1, 9, 9, (0, 0)),
        (2, 9, 9, (0, 1)),
        (2, 9, 0, (1, 0)),
        (3, 9, 9, (1, 1)),
        (4, 9, 9, (1, 2)),
        (5, 9, 9, (2, 2)),
        (5, 9, 1, (3, 1)),
        (5, 1, 9, (1, 3)),
        (5, 0, 0, (0, 0)),
        (200, 3, 4, (3, 4)),
    ],
)
def test_windows_by_example(limit: int, older: int, newer: int, taken: tuple[int, int]) -> None:
    assert window(limit, older, newer) == taken
