"""Imports into a real store: bad lines hide nothing, a second import adds what is new, real files are found again."""

import json
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll import Backscroll, ImportFailed, InvalidRequest, Requester, SessionNotFound
from backscroll.infrastructure.settings import BoundsSettings
from backscroll.infrastructure.tree import SqlMessages
from tests.factories import NothingSecret, opened

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "transcripts"
EXAMPLES = ROOT / "examples" / "transcripts"
SHARED = ROOT.parent / "shared" / "data"
OPERATOR = Requester.operator()


def header(session_id: str) -> dict[str, object]:
    return {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-02-01T09:00:00.000Z", "cwd": "/srv"}


def said(name: str, parent: str | None, text: str, role: str = "user") -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    return {
        "type": "message",
        "id": name,
        "parentId": parent,
        "timestamp": "2026-02-01T09:00:01.000Z",
        "message": {"role": role, "content": content},
    }


def write(path: Path, *records: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def listed(scroll: Backscroll) -> dict[str, str]:
    """Every session's key by its current transcript's id."""
    return {one.session_id: one.session_key for one in scroll.sessions(requester=OPERATOR, limit=500)}


def texts(scroll: Backscroll, session_id: str, **asked: object) -> list[str]:
    page = scroll.history(listed(scroll)[session_id], requester=OPERATOR, session_id=session_id, limit=200, **asked)
    return [message.text for message in page.messages]


def found(scroll: Backscroll, query: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(query, requester=OPERATOR, limit=25).hits)


def test_a_bad_line_hides_nothing_and_a_line_completed_later_is_taken_then(scroll, tmp_path):
    path = tmp_path / "ten-lines.jsonl"
    shutil.copyfile(FIXTURES / "ten-lines.jsonl", path)
    lines = path.read_bytes().split(b"\n")
    assert len(lines) == 10
    first = scroll.import_transcripts(path)
    assert texts(scroll, "ten-lines") == ["Where is the spare key?", "Behind the blue door.", "And the other one?"]
    assert (first.messages, first.sessions, first.bad) == (3, 1, 4)
    assert [problem.line for problem in first.problems] == [4, 6, 8, 10]
    assert all(problem.file.endswith("ten-lines.jsonl") for problem in first.problems)
    assert first.skipped >= 1
    last = json.dumps(said("t10", "t7", "The other one is lost for good.", "assistant")).encode()
    assert last.startswith(lines[9][:20])
    path.write_bytes(b"\n".join([*lines[:9], last, json.dumps(said("t11", "t10", "What a pity")).encode(), b""]))
    second = scroll.import_transcripts(path)
    assert (second.messages, second.known) == (2, 3)
    assert [problem.line for problem in second.problems] == [4, 6, 8]
    assert texts(scroll, "ten-lines")[3:] == ["The other one is lost for good.", "What a pity"]
    assert found(scroll, "lost for good") == ["t10"]


def test_importing_again_makes_no_second_session(store_path, scroll, tmp_path):
    records = [header("S1"), *[said(f"m{n}", f"m{n - 1}" if n else None, f"granite {n}") for n in range(4)]]
    path = write(tmp_path / "S1.jsonl", *records)
    assert scroll.import_transcripts(path).messages == 4
    again = scroll.import_transcripts(path)
    assert (again.messages, again.known, again.sessions) == (0, 4, 1)

    elsewhere = tmp_path / "copies"
    elsewhere.mkdir()
    copy = shutil.copyfile(path, elsewhere / "S1.jsonl")
    assert scroll.import_transcripts(copy).messages == 0
    renamed = scroll.import_transcripts(shutil.copyfile(path, elsewhere / "another-name.jsonl"))
    assert renamed.messages == 0
    assert any("another-name" in problem.file for problem in renamed.problems)

    records += [said(f"m{n}", f"m{n - 1}", f"granite {n}") for n in (4, 5, 6)]
    write(path, *records)
    with opened(store_path) as restarted:
        assert restarted.import_transcripts(path).messages == 3
    assert list(listed(scroll)) == ["S1"]
    assert texts(scroll, "S1") == [f"granite {n}" for n in range(7)]

    write(path, *records[:3])
    truncated = scroll.import_transcripts(path)
    assert (truncated.messages, truncated.known) == (0, 2)
    assert len(found(scroll, "granite")) == 7


def test_an_import_that_is_stopped_goes_on_where_it_was(scroll, tmp_path):
    records = [header("S1"), *[said(f"m{n}", f"m{n - 1}" if n else None, f"granite {n}") for n in range(2_500)]]
    path = write(tmp_path / "S1.jsonl", *records)

    class StopError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        assert 0 < done <= total
        raise StopError

    with pytest.raises(StopError):
        scroll.import_transcripts(path, progress=stop)
    stored = scroll.verify().messages
    assert 0 < stored < 2_500
    report = scroll.import_transcripts(path)
    assert (report.messages, report.known) == (2_500 - stored, stored)
    assert [branch.depth for branch in scroll.branches(listed(scroll)["S1"])] == [2_500]


def test_a_tree_is_imported_with_its_branches_and_the_files_own_head(scroll, tmp_path):
    path = write(
        tmp_path / "S1.jsonl",
        header("S1"),
        said("m1", None, "root"),
        said("m2", "m1", "left limestone"),
        said("m3", "m2", "left further"),
        said("x2", "m1", "right basalt"),
        said("x3", "x2", "right further"),
    )
    scroll.import_transcripts(path)
    assert texts(scroll, "S1") == ["root", "right basalt", "right further"]
    assert (found(scroll, "limestone"), found(scroll, "basalt")) == ([], ["x2"])
    key = listed(scroll)["S1"]
    assert {(one.head, one.active) for one in scroll.branches(key)} == {("x3", True), ("m3", False)}
    before = scroll.branches(key)
    scroll.import_transcripts(path)
    assert scroll.branches(key) == before


def test_what_was_edited_since_stays_and_is_reported(scroll, tmp_path):
    path = write(tmp_path / "S1.jsonl", header("S1"), said("m1", None, "granite"))
    scroll.import_transcripts(path)
    scroll.edit(listed(scroll)["S1"], "m1", "edited")
    report = scroll.import_transcripts(path)
    assert (report.messages, len(report.problems)) == (0, 1)
    assert texts(scroll, "S1") == ["edited"]


def test_a_broken_surrogate_in_a_file_stops_nothing(scroll, tmp_path):
    broken = json.dumps(said("id\ud83d", None, "broken \ud83d text"))
    good = json.dumps(said("m2", "id\ud83d", "good \U0001f600 neighbour"))
    path = tmp_path / "S1.jsonl"
    path.write_text("\n".join([json.dumps(header("S1")), broken, good, ""]), encoding="ascii")
    assert scroll.import_transcripts(path).messages == 2
    assert texts(scroll, "S1") == ["broken \ufffd text", "good \U0001f600 neighbour"]
    assert found(scroll, "neighbour") == ["m2"]
    assert scroll.import_transcripts(path).messages == 0


@pytest.mark.parametrize("name", ["missing.jsonl", "missing/folder"])
def test_a_path_that_does_not_exist_fails_and_stores_nothing(scroll, tmp_path, name):
    with pytest.raises(ImportFailed):
        scroll.import_transcripts(tmp_path / name)
    assert listed(scroll) == {}


def test_what_holds_no_transcript_fails_and_an_unknown_format_is_refused(scroll, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("nothing of ours")
    with pytest.raises(ImportFailed):
        scroll.import_transcripts(other)
    with pytest.raises(InvalidRequest):
        scroll.import_transcripts(other, format="never")
    with pytest.raises(InvalidRequest):
        scroll.import_transcripts(other, agent_id="")
    assert listed(scroll) == {}


def test_the_samples_are_found_and_reopened(scroll):
    report = scroll.import_transcripts(EXAMPLES)
    assert (report.files, report.sessions, report.bad, report.problems) == (6, 6, 0, ())
    assert scroll.verify().messages == report.messages > 50
    for one in scroll.sessions(requester=OPERATOR):
        page = scroll.history(one.session_key, requester=OPERATOR)
        assert page.messages
    again = scroll.import_transcripts(EXAMPLES)
    assert (again.messages, again.known) == (0, report.messages)


def expectations(program: str) -> list[dict[str, object]]:
    path = SHARED / program / "expected.json"
    return json.loads(path.read_text()) if path.is_file() else []


def spoken(turns: list[dict[str, object]]) -> list[str]:
    return [text for turn in turns for text in [turn["user"], *turn["assistant"]]]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_real_transcripts_of_pi_are_stored_found_and_reopened(open_store):
    scroll = open_store(redactor=NothingSecret(), bounds=BoundsSettings(message_chars=100_000, history_bytes=10**7))
    report = scroll.import_transcripts(SHARED / "pi")
    assert (report.files, report.sessions, report.bad) == (6, 6, 0)
    keys = listed(scroll)
    for expected in expectations("pi"):
        with (SHARED / str(expected["file"])).open() as lines:
            session_id = json.loads(lines.readline())["id"]
        texts_expected = spoken(expected["turns"])
        assert [text for text in texts(scroll, session_id) if text] == texts_expected
        for text in texts_expected:
            words = " ".join(text.split()[:6])
            hits = scroll.search(words, requester=OPERATOR, session_key=keys[session_id], limit=25).hits
            assert hits, words
            hit = hits[0]
            page = scroll.history(
                hit.session_key, requester=OPERATOR, session_id=hit.session_id, message_id=hit.message_id
            )
            assert hit.message_id in [message.message_id for message in page.messages]
    assert scroll.import_transcripts(SHARED / "pi").messages == 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_real_transcripts_of_openclaw_are_stored_under_their_keys(scroll):
    report = scroll.import_transcripts(SHARED / "openclaw" / "legacy-source")
    assert (report.files, report.sessions, report.messages, report.bad) == (6, 6, 38, 0)
    assert sorted(listed(scroll).values()) == [
        "agent:main:discord:channel:4711",
        "agent:main:legacy-five",
        "agent:main:legacy-three",
        "agent:main:main",
        "agent:main:recovered:44444444-dddd-4000-8000-000000000004",
        "agent:main:recovered:66666666-ffff-4000-8000-000000000006",
    ]
    assert found(scroll, "right path cider press")
    assert not found(scroll, "left path beehives")
    assert scroll.import_transcripts(SHARED / "openclaw" / "legacy-source").messages == 0


def test_messages_that_find_no_session_are_not_passed_over(scroll: Backscroll, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: SqlMessages, branch: object, messages: object) -> None:
        raise SessionNotFound

    with monkeypatch.context() as patched:
        patched.setattr(SqlMessages, "extend", gone)
        with pytest.raises(SessionNotFound):
            scroll.import_transcripts(EXAMPLES)
    assert scroll.import_transcripts(EXAMPLES).messages == 72


@pytest.mark.parametrize(("usual", "meanwhile"), [(-16_384, -2_048), (-1_000, -1_000), (50, 50)])
def test_an_import_keeps_little_of_the_database_in_memory_and_leaves_the_cache_as_it_was(usual, meanwhile, tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    said_to_sqlite: list[str] = []

    @event.listens_for(engine, "connect")
    def _connected(connection, record):
        connection.execute(f"PRAGMA cache_size = {usual}")
        connection.set_trace_callback(said_to_sqlite.append)

    with Backscroll.open(engine) as scroll:
        said_to_sqlite.clear()
        scroll.import_transcripts(write(tmp_path / "s.jsonl", header("s"), said("m1", None, "granite")))
        sizes = [one for one in said_to_sqlite if one.startswith("PRAGMA cache_size =")]
        assert sizes == [f"PRAGMA cache_size = {meanwhile}", f"PRAGMA cache_size = {usual}"]
        assert found(scroll, "granite") == ["m1"]
    engine.dispose()
