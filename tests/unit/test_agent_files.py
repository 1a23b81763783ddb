"""File names of agents, the URL as a pattern of paths, and the pool of open files."""

import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backscroll import InvalidRequest, StoreUnavailable
from backscroll.infrastructure.per_agent.fan import fanned_out
from backscroll.infrastructure.per_agent.files import AgentFiles, make
from backscroll.infrastructure.per_agent.names import KIN, agent_named, file_name, is_hashed
from backscroll.infrastructure.per_agent.pool import Pool

agent_ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=256)
WINDOWS_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


@given(agent_ids)
@example("..")
@example("../../etc/passwd")
@example("CON")
@example("nul")
@example("Ａgent")
@example("é" * 256)
@example("%kin")
def test_every_id_has_a_safe_name_that_leads_back(agent_id: str) -> None:
    name = file_name(agent_id)
    assert name == name.lower()
    assert name.isascii()
    assert not set(name) & set('./\\:*?"<>| ')
    assert len(name) <= 160
    assert name not in WINDOWS_RESERVED | {KIN}
    assert agent_named(name) == (None if is_hashed(name) else agent_id)


@given(agent_ids, agent_ids)
@example("bob", "Bob")
@example("é", "e\u0301")
@example("a" * 200, "a" * 201)
@example("%41", "A")
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@given(st.text(max_size=40))
@example("%kin")
@example("%41%")
@example("Bob")
@example("%4")
@example("%ff")
@example("%61")
def test_a_name_that_no_id_has_names_nobody(name: str) -> None:
    agent_id = agent_named(name)
    assert agent_id is None or file_name(agent_id) == name


@pytest.mark.parametrize("pattern", ["{agent_id}.db", "{agent_id}/store.db", "of-{agent_id}/a/b.db", "{agent_id}"])
def test_a_pattern_finds_the_files_that_it_names(tmp_path: Path, pattern: str) -> None:
    files = AgentFiles.of(f"sqlite:///{tmp_path}/{pattern}")
    for agent_id in ("bob", "Bob", "a/b"):
        make(files.path(agent_id), b"")
    make(tmp_path / "something-else", b"")
    make(files.kin, b"")
    assert {agent_named(name) for name in files.names()} - {None} - {"something-else"} == {"bob", "Bob", "a/b"}
    assert all(path.is_relative_to(tmp_path) for path in map(files.path, ("..", "../x", "/etc")))


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///{agent_id}/{agent_id}.db",
        "sqlite:///stores/{agent_id}.db?mode=ro",
        "sqlite:///store.db?name={agent_id}",
        "sqlite:///file:stores/{agent_id}.db?uri=true",
    ],
)
def test_a_pattern_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="must name it once"):
        AgentFiles.of(url)


def test_a_file_that_is_there_is_never_made_again(tmp_path: Path) -> None:
    make(tmp_path / "a" / "b.db", b"first")
    make(tmp_path / "a" / "b.db", b"second")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.db"]
    assert (tmp_path / "a" / "b.db").read_bytes() == b"first"


class Handle:
    """Counts how many like it are open."""

    open_now = most = 0
    lock = threading.Lock()

    def __init__(self, path: Path) -> None:
        if path.name == "bad":
            raise StoreUnavailable("bad")
        self.is_open = True
        with Handle.lock:
            Handle.open_now += 1
            Handle.most = max(Handle.most, Handle.open_now)

    def close(self) -> None:
        assert self.is_open
        self.is_open = False
        with Handle.lock:
            Handle.open_now -= 1


@pytest.fixture(autouse=True)
def _nothing_open() -> None:
    Handle.open_now = Handle.most = 0


def test_the_pool_keeps_what_was_used_last(tmp_path: Path) -> None:
    pool = Pool(Handle, most=2, patience=0)
    handles = []
    for name in ("a", "b", "a", "c", "a"):
        with pool.lease(tmp_path / name) as handle:
            handles.append(handle)
    assert handles[0] is handles[2] is handles[4]
    assert not handles[1].is_open
    assert handles[3].is_open
    assert Handle.most == 2
    pool.close()
    assert Handle.open_now == 0


def test_what_is_in_use_is_never_closed_and_the_rest_waits(tmp_path: Path) -> None:
    pool = Pool(Handle, most=1, patience=0)
    with pool.lease(tmp_path / "a") as first:
        with pytest.raises(StoreUnavailable, match="in time") as refused, pool.lease(tmp_path / "b"):
            pass
        assert refused.value.locked
        with pool.lease(tmp_path / "a") as again:
            assert again is first
        pool.close()
        assert first.is_open
    assert not first.is_open
    with pool.lease(tmp_path / "b") as other:
        assert other.is_open
    # Nobody is left who would close it.
    assert not other.is_open


def test_a_file_that_cannot_be_opened_takes_no_place(tmp_path: Path) -> None:
    pool = Pool(Handle, most=1, patience=0)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="bad"), pool.lease(tmp_path / "bad"):
            pass
    with pool.lease(tmp_path / "good") as handle:
        assert handle.is_open


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    pool = Pool(Handle, most=2, patience=0)
    with pool.lease(path) as first:
        pass
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").replace(path)
    with pool.lease(path) as second:
        assert second is not first
    assert not first.is_open


def test_many_threads_share_few_open_files(tmp_path: Path) -> None:
    pool = Pool(Handle, most=3, patience=30)

    def ask(number: int) -> int:
        with pool.lease(tmp_path / str(number % 17)) as handle:
            assert handle.is_open
        return number

    assert list(fanned_out(ask, range(500), 8)) == list(range(500))
    assert Handle.most <= 3
    pool.close()
    assert Handle.open_now == 0


def test_the_first_failure_in_order_is_raised() -> None:
    def ask(number: int) -> int:
        if number in (3, 7):
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="3"):
        list(fanned_out(ask, range(100), 4))
