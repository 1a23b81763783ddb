"""The example backend without a browser: its transactions, its guards, its migrations, what each user sees."""

import re
import sqlite3
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from alembic import command
from examples.backend import agent
from examples.backend.chat import Chat
from examples.backend.database import Database, alembic_config
from examples.backend.models import User
from examples.backend.settings import BackendSettings

ROOT = Path(__file__).parents[2]
ORIGIN = "http://127.0.0.1"
HOST_TABLES = {"users", "sessions", "conversations", "messages"}


def links(page: str, beginning: str = "/conversations/") -> list[str]:
    return [unescape(one) for one in re.findall(rf'href="({beginning}[^"]*)"', page)]


def begun(client, text):
    """The address of a conversation that begins with `text`."""
    answer = client.post("/conversations", data={"text": text})
    assert answer.history[0].status_code == 303
    return answer.url.path


def texts(page: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'<p class="text">(.*?)</p>', page, re.DOTALL)]


def found(client, words: str) -> list[str]:
    """The excerpts, with the marks as brackets."""
    page = client.get("/", params={"q": words}).text
    return [
        unescape(one.replace("<mark>", "[").replace("</mark>", "]"))
        for one in re.findall(r'<span class="excerpt">(.*?)</span>', page, re.DOTALL)
    ]


def edit(client, address: str, was: str, now: str):
    """Sends the edit form of the message that says `was`."""
    page = client.get(address).text
    item = next(one for one in re.findall(r"<li class=.*?</li>", page, re.DOTALL) if f">{was}</p>" in one)
    (action,) = re.findall(r'action="([^"]+)"', item)
    return client.post(action, data={"text": now})


def rows(path: Path) -> dict[str, int]:
    """How many rows every table holds, ours and Backscroll's; login sessions and counters aside."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
    ignored = ("sessions", "sqlite_sequence")
    # How FTS5 lays out its own pages differs from time to time.
    return {name: n for name, n in counts.items() if name not in ignored and not name.endswith(("_data", "_idx"))}


# Signing in.


def test_a_user_signs_in_and_out(visitor):
    answer = visitor.post("/sign-in", data={"name": "demo", "password": "sample-demo"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    attributes = answer.headers["set-cookie"].lower()
    assert "httponly" in attributes
    assert "samesite=lax" in attributes
    assert "Naxos" in visitor.get("/").text
    token = visitor.cookies["session"]
    visitor.post("/sign-out")
    assert "session" not in visitor.cookies
    visitor.cookies["session"] = token
    assert visitor.get("/").url.path == "/sign-in"


@pytest.mark.parametrize(("name", "password"), [("demo", "sample-guest"), ("nobody", "sample-demo"), ("demo", "")])
def test_a_wrong_name_and_a_wrong_password_read_the_same(visitor, name, password):
    answer = visitor.post("/sign-in", data={"name": name, "password": password})
    assert answer.status_code == (401 if password else 422)
    assert "session" not in visitor.cookies
    if password:
        assert "No user has that name and password." in answer.text


def test_a_session_ends(demo, path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sessions SET expires_at = '2020-01-01 00:00:00.000000'")
    assert demo.get("/").url.path == "/sign-in"


def test_neither_tokens_nor_passwords_are_in_the_database(demo, path):
    with closing(sqlite3.connect(path)) as connection:
        dump = "\n".join(connection.iterdump())
    assert demo.cookies["session"] not in dump
    assert "sample-demo" not in dump


@pytest.mark.parametrize("address", ["/", "/conversations/x", "/?q=ferry"])
def test_who_has_not_signed_in_is_sent_to_the_form(visitor, address):
    answer = visitor.get(address, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert visitor.get(address, headers={"HX-Request": "true"}).headers["HX-Redirect"] == "/sign-in"


# Requests of other sites.


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "http://127.0.0.1:9"},
        {"Origin": ""},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
    ],
)
def test_nothing_changes_for_another_site(demo, path, headers):
    before = rows(path)
    for address in ("/conversations", f"{links(demo.get('/').text)[0]}/delete", "/sign-in", "/sign-out"):
        answer = demo.post(address, data={"text": "x", "name": "demo", "password": "sample-demo"}, headers=headers)
        assert answer.status_code == 403
    assert rows(path) == before
    assert demo.get("/").url.path == "/"


def test_another_host_name_is_refused(demo):
    assert demo.get("/", headers={"Host": "elsewhere.example"}).status_code == 400


def test_every_answer_keeps_the_page_to_itself(visitor, demo):
    for client, address in ((visitor, "/sign-in"), (demo, "/"), (demo, "/conversations/x"), (demo, "/static/app.css")):
        headers = client.get(address).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert ("no-store" in headers.get("cache-control", "")) == (not address.startswith("/static/"))
    assert demo.get("/static/htmx/htmx-2.min.js").text.startswith("var htmx=")


# One transaction.


def test_a_failing_request_leaves_neither_rows_nor_messages(demo, path, monkeypatch):
    address = begun(demo, "granite")
    before = rows(path)

    def fail(said: str) -> str:
        raise RuntimeError(said)

    monkeypatch.setattr(agent, "answer", fail)
    assert demo.post("/conversations", data={"text": "basalt"}).status_code == 500
    assert demo.post(f"{address}/messages", data={"text": "basalt"}).status_code == 500
    assert edit(demo, address, "granite", "basalt").status_code == 500
    assert rows(path) == before
    assert found(demo, "basalt") == []
    assert texts(demo.get(address).text) == ["granite", "You said: granite"]


def test_a_busy_database_is_said_and_changes_nothing(demo, path):
    before = rows(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert demo.get("/").status_code == 200
        answer = demo.post("/conversations", data={"text": "basalt"})
    assert answer.status_code == 503
    assert "Nothing was changed" in answer.text
    assert rows(path) == before


def test_requests_that_write_at_once_wait_for_each_other(path):
    """Each reads before it writes, on the same conversation."""
    with Database(BackendSettings(database_url=f"sqlite:///{path}")) as database:

        def say(number: int) -> None:
            with database.transaction(writing=True) as (db, scroll):
                chat = Chat(db, scroll, db.get(User, 1))
                chat.say(chat.conversations()[0], f"number {number}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(say, range(20)))
        with database.transaction(writing=False) as (db, scroll):
            chat = Chat(db, scroll, db.get(User, 1))
            said = [message.text for message in chat.read(chat.conversations()[0]).messages[-40:]]
            assert scroll.verify().ok
    assert sorted(said[::2]) == sorted(f"number {number}" for number in range(20))
    assert said[1::2] == [f"You said: {text}" for text in said[::2]]


def test_a_deletion_leaves_no_row(demo, path):
    before = rows(path)
    address = begun(demo, "granite")
    edit(demo, address, "granite", "basalt")
    demo.post(f"{address}/start-afresh")
    demo.post(f"{address}/messages", data={"text": "quartz"})
    assert rows(path) != before
    answer = demo.post(f"{address}/delete")
    assert "The conversation is deleted." in answer.text
    assert rows(path) == before
    assert demo.get(address).status_code == 404


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 4001])
def test_a_message_has_bounds(demo, path, text):
    before = rows(path)
    assert demo.post("/conversations", data={"text": text}).status_code == 422
    assert rows(path) == before


# What each user sees.


def test_a_user_finds_and_lists_nothing_of_another(demo, guest):
    assert found(demo, "bicycle") == []
    assert found(guest, "bicycle") != []
    assert found(guest, "naxos") == []
    assert not set(links(demo.get("/").text)) & set(links(guest.get("/").text))


@pytest.mark.parametrize(
    "action", ["", "messages", "messages/{message}", "versions/{branch}", "start-afresh", "delete"]
)
def test_what_belongs_to_another_reads_as_if_it_did_not_exist(demo, guest, path, action):
    """For reading and for every kind of writing, even when message and branch ids are known."""
    address = begun(demo, "granite")
    edit(demo, address, "granite", "basalt")
    page = demo.get(address).text
    known = {
        "message": re.findall(r'messages/([^"]+)"', page)[0],
        "branch": re.findall(r'versions/([^"]+)"', page)[0],
    }
    before = rows(path)

    def asked(client, conversation: str):
        to = f"{conversation}/{action.format(**known)}".rstrip("/")
        return client.post(to, data={"text": "x"}) if action else client.get(to, params={"message": known["message"]})

    foreign, missing = asked(guest, address), asked(guest, "/conversations/missing")
    assert foreign.status_code == missing.status_code == 404
    assert foreign.content == missing.content
    assert rows(path) == before
    assert demo.get(address).text == page


def test_a_message_of_another_conversation_cannot_be_edited_through_ones_own(demo, guest):
    own, foreign = begun(guest, "granite"), begun(demo, "basalt")
    message = re.findall(r'messages/([^"]+)"', demo.get(foreign).text)[0]
    branch = re.findall(r'versions/([^"]+)"', edit(demo, foreign, "basalt", "quartz").text)[0]
    assert guest.post(f"{own}/messages/{message}", data={"text": "x"}).status_code == 404
    assert guest.post(f"{own}/versions/{branch}").status_code == 404
    assert guest.get(own, params={"transcript": "missing"}).status_code == 404


def test_no_environment_variable_widens_what_users_see(monkeypatch, request):
    monkeypatch.setenv("BACKSCROLL_VISIBILITY", "all")
    guest = request.getfixturevalue("guest")
    assert (found(guest, "naxos"), len(found(guest, "shed"))) == ([], 2)


# Text is text.


def test_markup_in_messages_and_queries_stays_text(demo):
    hostile = "kettle <script>alert(1)</script> <img src=x onerror=alert(1)> \"quoted\" & 'more'"
    address = begun(demo, hostile)
    pages = [demo.get("/").text, demo.get(address).text, demo.get("/", params={"q": "kettle"}).text]
    pages += [demo.get(address, params={"q": '"><script>alert(1)</script>', "message": "'><script>"}).text]
    pages += [demo.get("/", params={"q": "kettle"}, headers={"HX-Request": "true", "HX-Target": "results"}).text]
    for page in pages:
        assert re.findall(r"<script(?! src=\"/static/htmx/htmx-2.min.js\" defer></script>)", page) == []
        assert "<img" not in page
    assert texts(pages[1])[0] == hostile
    assert found(demo, "kettle")[0].replace("[", "").replace("]", "") in (hostile, f"You said: {hostile}")


def test_a_line_break_is_one_character(demo):
    address = begun(demo, "first\r\nsecond")
    assert texts(demo.get(address).text)[0] == "first\nsecond"


# Searching and reading.


def test_matches_are_marked_while_the_last_word_is_incomplete(demo):
    assert found(demo, "fast fer") == [
        "The [fast] [ferry] leaves at 17:00, two hours less at sea.",
        "You said: The [fast] [ferry] leaves at 17:00, two hours less at sea.",
    ]
    assert found(demo, "备份")[0] == "后天上午我们检查[备份]策略"


def test_htmx_gets_the_results_and_the_sentence_alone(demo):
    answer = demo.get("/", params={"q": "ferry"}, headers={"HX-Request": "true", "HX-Target": "results"}).text
    assert "<html" not in answer
    assert '<span hx-swap-oob="innerHTML:#search-status">2 messages.</span>' in answer
    assert answer.count("<mark>") == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [("", ""), ("?!", "Type a letter or a digit."), ("zeppelin", "Nothing found."), ("lentils", "2 messages.")],
)
def test_a_sentence_says_what_was_found(demo, words, sentence):
    page = demo.get("/", params={"q": words}).text
    assert re.findall(r'role="status">(.*?)</p>', page) == [sentence]


def test_more_than_a_page_of_hits_is_said(demo):
    for _ in range(11):
        begun(demo, "granite")
    assert "The 20 best messages of more." in demo.get("/", params={"q": "granite"}).text


def test_a_hit_opens_where_it_was_said(demo):
    page = demo.get("/", params={"q": "rehearsed"}).text
    hit = next(one for one in links(page) if "message=" in one)
    opened = demo.get(hit).text
    # From before a fresh start: nothing of what came after it.
    assert "cleaning of the log folder" not in opened
    assert "The restore has to be rehearsed" in texts(opened)[2]
    assert len(re.findall(r'<li class="user hit" id="hit" tabindex="-1">', opened)) == 1
    assert "rehearsed" not in "".join(texts(demo.get(hit.partition("?")[0]).text))


def test_older_messages_are_a_link_away(demo):
    address = begun(demo, "number 0")
    for number in range(1, 30):
        demo.post(f"{address}/messages", data={"text": f"number {number}"})
    latest = demo.get(address).text
    assert len(texts(latest)) == 40
    (older,) = (one for one in links(latest) if "before=" in one)
    assert texts(demo.get(older).text) == [
        said for number in range(10) for said in (f"number {number}", f"You said: number {number}")
    ]


def test_an_edit_makes_a_version_and_search_follows_the_one_that_is_shown(demo):
    address = begun(demo, "granite")
    demo.post(f"{address}/messages", data={"text": "quartz"})
    page = edit(demo, address, "granite", "basalt").text
    assert texts(page) == ["basalt", "You said: basalt"]
    assert (found(demo, "quartz"), len(found(demo, "basalt"))) == ([], 2)
    first, second = re.findall(r'versions/([^"]+)"', page)
    page = demo.post(f"{address}/versions/{first}").text
    assert texts(page) == ["granite", "You said: granite", "quartz", "You said: quartz"]
    assert (len(found(demo, "quartz")), found(demo, "basalt")) == (2, [])
    hit = next(one for one in links(demo.get("/", params={"q": "quartz"}).text) if "message=" in one)
    demo.post(f"{address}/versions/{second}")
    assert "That message is in another version" in demo.get(hit).text


def test_an_edit_keeps_what_came_before_and_can_be_repeated(demo):
    address = begun(demo, "granite")
    demo.post(f"{address}/messages", data={"text": "quartz"})
    for text in ("slate", "marble"):
        edit(demo, address, "quartz" if text == "slate" else "slate", text)
    page = demo.get(address).text
    assert texts(page) == ["granite", "You said: granite", "marble", "You said: marble"]
    assert "Version 3" in page


def test_the_page_says_that_something_is_being_indexed(demo, path):
    begun(demo, "granite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE backscroll_messages SET text = 'basalt' WHERE text = 'granite'")
    assert "still being indexed" in demo.get("/", params={"q": "granite"}).text


# Two histories of migrations.


def test_the_backends_revisions_leave_backscroll_alone(settings):
    with Database(settings) as database, database.transaction(writing=True) as (db, scroll):
        config = alembic_config(db.connection())
        command.check(config)
        command.downgrade(config, "base")
        names = {name for (name,) in db.connection().exec_driver_sql("SELECT name FROM sqlite_master")}
        assert names & HOST_TABLES == set()
        assert scroll.verify().ok
        command.upgrade(config, "head")
        command.check(config)


def test_the_alembic_command_works_from_the_root(settings, monkeypatch):
    from alembic.config import Config

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("EXAMPLE_DATABASE_URL", settings.database_url)
    command.check(Config("examples/backend/alembic.ini"))


def test_samples_are_put_into_an_empty_database_alone(settings, path):
    from examples.backend import sample

    before = rows(path)
    with Database(settings) as database:
        sample.fill(database)
    assert rows(path) == before


def test_what_the_example_needs_is_tested_here():
    lines = (ROOT / "examples/backend/requirements.txt").read_text().splitlines()
    needed = {str(Requirement(line)) for line in lines if line and not line.startswith("#")}
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    assert needed <= {str(Requirement(line)) for line in dev}
