"""The example's page in a real browser, on the server that its own command starts."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Where everything has to be tested, a missing browser is a failure: see the `browser` fixture.
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium on this machine: the page needs one to be tested"
)

SIZES = {"phone": {"width": 360, "height": 740}, "desktop": {"width": 1280, "height": 800}}
# Milliseconds; generous, for machines that do much else.
TIMEOUT = 15_000
# A root user's browser has no sandbox of its own; and it is to ask nobody for anything.
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
# The elements of the page's main part that hide what does not fit into them.
CUT_OFF = """[...document.querySelectorAll("main *")]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible")
    .map(one => one.outerHTML)"""


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running example, on a free port; it has to end when it is told to."""
    path = shutil.copyfile(filled, tmp_path_factory.mktemp("page") / "example.db")
    environment = {**os.environ, "EXAMPLE_DATABASE_URL": f"sqlite:///{path}", "EXAMPLE_PORT": "0"}
    command = [sys.executable, "-W", "error", "-m", "examples.backend"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address is not None, process.stderr.read()
            yield address[0]
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "the page is tested in Chromium: apt-get install chromium"
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Windows:
    """Opens browser windows and notes what they complain of and whom they ask."""

    def __init__(self, browser: Browser, server: str) -> None:
        self._browser = browser
        self._server = server
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        self.asked: set[str] = set()

    def visit(self, size: str = "desktop", **options: object) -> Page:
        """A window of somebody who has not signed in."""
        context = self._browser.new_context(base_url=self._server, viewport=SIZES[size], **options)
        context.set_default_timeout(TIMEOUT)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.add(request.url))
        page.goto("/")
        return page

    def sign_in(self, name: str = "demo", size: str = "desktop", **options: object) -> Page:
        """A window of a user, who has signed in through the form."""
        page = self.visit(size, **options)
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(f"sample-{name}")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def windows(browser: Browser, server: str) -> Iterator[Windows]:
    opened = Windows(browser, server)
    yield opened
    opened.close()
    assert opened.complaints == []
    assert {url for url in opened.asked if not url.startswith(f"{server}/")} == set()


def begin(page: Page, text: str) -> None:
    page.goto("/")
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Start").click()
    expect(messages(page)).to_have_text([text, f"You said: {text}"])


def messages(page: Page):
    return page.get_by_role("list", name="Messages").locator(".text")


def hits(page: Page):
    return page.get_by_role("region", name="Search results").get_by_role("link")


def has_focus(element: Locator) -> None:
    """Waits until keys go to the element. Whether the window is in front of others does not matter."""
    for _ in range(TIMEOUT // 50):
        if element.evaluate("one => one === document.activeElement"):
            return
        element.page.wait_for_timeout(50)
    raise AssertionError(f"{element} has no focus")


def search(page: Page, words: str) -> None:
    """Types, and does nothing else."""
    # Once the page's script listens.
    page.wait_for_load_state()
    box = page.get_by_role("searchbox", name="Search past conversations")
    box.fill("")
    box.press_sequentially(words)


def test_a_user_chats_finds_it_while_typing_and_opens_it_in_its_context(windows):
    page = windows.sign_in()
    begin(page, "The kettle is in the left cupboard")
    has_focus(page.get_by_label("Your message"))
    page.keyboard.type("And the cups hang above it")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(messages(page)).to_have_count(4)

    page.goto("/")
    status = page.get_by_role("status")
    announced = status.element_handle()
    search(page, "left cupb")
    expect(hits(page)).to_have_count(2)
    expect(hits(page).first.locator("mark")).to_have_text(["left", "cupboard"])
    expect(status).to_have_text("2 messages.")
    # The same element as before, or a screen reader would say nothing.
    assert announced.evaluate("element => element.isConnected")
    search(page, "zeppelin")
    expect(status).to_have_text("Nothing found.")
    expect(hits(page)).to_have_count(0)

    search(page, "cupboard")
    expect(page).to_have_url(re.compile(r"\?q=cupboard$"))
    page.reload()
    hits(page).filter(has_text="You said").click()
    match = page.locator("#hit")
    has_focus(match)
    expect(match).to_be_in_viewport()
    expect(match.locator(".text")).to_have_text("You said: The kettle is in the left cupboard")
    expect(messages(page)).to_have_count(4)
    expect(hits(page)).to_have_count(2)
    page.get_by_role("link", name="Show the latest messages").click()
    has_focus(page.get_by_label("Your message"))


def test_an_edit_makes_a_version_and_versions_are_switched(windows):
    page = windows.sign_in()
    begin(page, "Meet at the granite steps")
    page.get_by_label("Edit: Meet at the granite steps").click()
    page.get_by_label("Say this instead").fill("Meet at the marble steps")
    page.get_by_role("button", name="Send as a new version").click()
    expect(messages(page).first).to_have_text("Meet at the marble steps")
    expect(page.get_by_role("button", name="Version 2")).to_have_attribute("aria-current", "true")
    search(page, "steps")
    expect(hits(page)).to_have_count(2)
    page.get_by_role("button", name="Version 1").click()
    expect(messages(page).first).to_have_text("Meet at the granite steps")
    expect(page.get_by_role("button", name="Version 1")).to_have_attribute("aria-current", "true")
    search(page, "marble")
    expect(page.get_by_role("status")).to_have_text("Nothing found.")
    search(page, "granite")
    expect(hits(page)).to_have_count(2)


def test_a_fresh_start_hides_what_is_still_found(windows):
    page = windows.sign_in()
    begin(page, "The code word is heliotrope")
    page.get_by_role("button", name="Start afresh").click()
    expect(page.get_by_text("A fresh start.")).to_be_visible()
    search(page, "heliotrope")
    hits(page).first.click()
    expect(page.locator("#hit")).to_contain_text("heliotrope")


def test_a_deleted_conversation_is_gone(windows):
    page = windows.sign_in()
    begin(page, "Throw the driftwood away")
    address = page.url.partition("#")[0]
    page.get_by_text("Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("status").filter(has_text="deleted")).to_be_visible()
    expect(page.get_by_role("link", name="driftwood")).to_have_count(0)
    search(page, "driftwood")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    assert page.request.get(address).status == 404


def test_a_user_sees_nothing_of_another(windows):
    theirs = windows.sign_in()
    begin(theirs, "The safe opens with obsidian")
    address = theirs.url.partition("#")[0]
    page = windows.sign_in("guest")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(re.compile("bicycle shed"))
    search(page, "obsidian")
    expect(page.get_by_role("status")).to_have_text("Nothing found.")
    assert page.goto(address).status == 404
    expect(page.get_by_role("heading")).to_have_text("Not Found")
    # The browser's own note of that answer.
    assert len(windows.complaints) == 1
    assert "404" in windows.complaints.pop()


def test_markup_is_shown_and_runs_nowhere(windows):
    page = windows.sign_in()
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script> <b>tourmaline</b>"
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    begin(page, text)
    search(page, "tourmaline")
    expect(hits(page).first.locator(".excerpt")).to_have_text(text)
    hits(page).first.click()
    expect(page.locator("#hit .text")).to_have_text(text)
    assert page.locator("main img, main b, main script, .hits img, .hits b").count() == 0
    assert dialogs == []


def test_the_keyboard_is_enough(windows):
    page = windows.visit()
    has_focus(page.get_by_label("Name"))
    for text in ("demo", "sample-demo"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("Tab")
    has_focus(page.get_by_role("link", name="Skip to the conversation"))
    expect(page.get_by_role("link", name="Skip to the conversation")).to_be_in_viewport()
    page.keyboard.press("Enter")
    has_focus(page.locator("main"))
    page.keyboard.press("Tab")
    has_focus(page.get_by_label("Your message"))
    page.get_by_role("searchbox").focus()
    page.keyboard.type("lentils")
    expect(hits(page)).to_have_count(2)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    has_focus(hits(page).first)
    outline = hits(page).first.evaluate("link => getComputedStyle(link).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    has_focus(page.locator("#hit"))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Say this instead").first).to_be_visible()


def test_the_page_works_without_scripts(windows):
    page = windows.sign_in(java_script_enabled=False)
    page.get_by_role("searchbox").fill("lentils")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_have_text("2 messages.")
    hits(page).first.click()
    expect(page.locator("#hit")).to_contain_text("lentils")
    page.get_by_role("searchbox").fill("lemon")
    page.get_by_role("button", name="Search").click()
    expect(hits(page)).to_have_count(4)
    expect(page.locator("#hit")).to_contain_text("lentils")


def test_light_and_dark_differ(windows):
    colors = [
        windows.visit(color_scheme=scheme).evaluate("getComputedStyle(document.documentElement).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert len(set(colors)) == 2


@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("desktop", "light")])
def test_every_state_is_accessible_and_fits(windows, size, scheme):
    def check(page: Page) -> None:
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
        assert page.evaluate(CUT_OFF) == []

    page = windows.visit(size, color_scheme=scheme)
    check(page)
    page.get_by_label("Name").fill("demo")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check(page)
    assert "401" in windows.complaints.pop()

    page = windows.sign_in("demo", size, color_scheme=scheme)
    check(page)
    search(page, "ferry")
    expect(hits(page)).to_have_count(2)
    check(page)
    hits(page).first.click()
    has_focus(page.locator("#hit"))
    page.get_by_label("Edit: Plan").click()
    page.get_by_text("Delete…").click()
    check(page)
    begin(page, "x" * 300)
    check(page)
    page.get_by_text("Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("status").filter(has_text="deleted")).to_be_visible()
    check(page)
    page.goto("/conversations/missing")
    check(page)
    assert "404" in windows.complaints.pop()
