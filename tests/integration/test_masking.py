"""What a reader sees of secrets, and of text that only looks like some, through the facade."""

import sqlite3
import traceback
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from backscroll import Backscroll, BackscrollError, NoRedactor, PatternRedactor, Requester, StoreUnavailable

ME = Requester("agent:a:me")
KEY = "agent:a:one"
ORDINARY = (
    "task-sk-learn-pipeline_2026, id 5f0a8b7c-aaaa-4bbb-8ccc-1234567890ab, risk-assessment-of-the-whole-migration,"
    " author=team, token count = 512, commit 9f1c2d3e4b5a69788796a5b4c3d2e1f001234567"
    " data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
)
WORD = "heliotrope"
SECRET = "sk-proj-" + "Ab3dEf6hIj9k" * 4


def test_identifiers_hashes_and_images_are_shown_as_they_are_and_stored_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Backscroll.open(f"sqlite:///{path}") as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", ORDINARY, message_id="m1")
        for word in ("pipeline_2026", "assessment", "author=team", "512", "9f1c2d3e4b5a69788796a5b4c3d2e1f001234567"):
            (hit,) = scroll.search(word, requester=ME).hits
            assert hit.excerpt.strip("…") in ORDINARY
        page = scroll.history(KEY, requester=ME, message_id="m1")
        assert [message.text for message in page.messages] == [ORDINARY]
        assert not page.redacted
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT text FROM backscroll_messages").fetchall() == [(ORDINARY,)]


def test_a_search_for_a_secrets_own_text_finds_its_message_and_shows_it_masked(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    text = f"the deploy key is {SECRET}, keep it quiet"
    with Backscroll.open(f"sqlite:///{path}") as scroll:
        scroll.ensure_session(KEY, title=f"about {SECRET}")
        scroll.append(KEY, "user", text, message_id="m2")
        (hit,) = scroll.search(f'"{SECRET}"', requester=ME).hits
        assert hit.message_id == "m2"
        assert SECRET not in hit.excerpt
        assert "keep it quiet" in hit.excerpt
        page = scroll.history(KEY, requester=ME, message_id="m2")
        assert page.redacted
        assert SECRET not in repr(page)
        assert SECRET not in repr(scroll.sessions(requester=ME))
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT text FROM backscroll_messages").fetchall() == [(text,)]


def test_a_host_adds_patterns_or_brings_a_redactor_of_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Backscroll.open(url) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", f"badge HX-4711 and {SECRET}")
    for redactor, badge, secret in (
        (PatternRedactor(), True, False),
        (PatternRedactor([r"HX-(?P<secret>\d+)"]), False, False),
        (NoRedactor(), True, True),
    ):
        with Backscroll.open(url, redactor=redactor) as scroll:
            (message,) = scroll.history(KEY, requester=ME).messages
            assert ("4711" in message.text, SECRET in message.text) == (badge, secret)


def test_no_error_and_no_log_line_carries_what_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    said: list[str] = []
    with caplog.at_level("DEBUG"), Backscroll.open(f"sqlite:///{path}") as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", WORD, message_id="m1")
        refused = [
            lambda: scroll.append(KEY, "user", f"{WORD} again", message_id="m1"),
            lambda: scroll.append(KEY, "nobody", WORD),
            lambda: scroll.append(KEY, "user", [{"type": WORD[:3], "text": WORD}]),
            lambda: scroll.append(KEY, "user", [{"type": "text", "text": WORD, "more": 1}]),
            lambda: scroll.append(KEY, "user", WORD, parent_id="never"),
            lambda: scroll.append("agent:a:none", "user", WORD),
            lambda: scroll.edit(KEY, "m2", WORD),
            lambda: scroll.append(KEY, "user", WORD, created_at=datetime(2026, 1, 1)),
            lambda: scroll.append(KEY, "user", WORD, metadata={"x": object()}),
        ]
        for call in refused:
            with pytest.raises(BackscrollError) as caught:
                call()
            said += traceback.format_exception(caught.value)
        with closing(sqlite3.connect(path)) as plain:
            plain.execute("DROP TABLE backscroll_message_index")
            plain.commit()
        for call in (lambda: scroll.append(KEY, "user", WORD), lambda: scroll.search(WORD, requester=ME)):
            with pytest.raises(StoreUnavailable) as caught:
                call()
            said += traceback.format_exception(caught.value)
    assert WORD not in "\n".join((*said, caplog.text))
