"""The page in a real browser: it goes on by itself, fits a phone, and is clean for screen readers."""

import shutil
import socket
import threading
from dataclasses import replace

import pytest
import uvicorn
from jobs.job_status import container, failed_job, job
from starlette.applications import Starlette

from samzapy.coordinator.page.board import Board
from samzapy.coordinator.page.inspector import Found, Inspector
from samzapy.coordinator.page.routes import page_routes
from samzapy.testing import ManualClock

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (Debian: apt-get install chromium)")

#: A browser that looks for nothing on any other host.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LARGE = job(*(container(number, 5_000, range(number * 20, number * 20 + 20), lag=number) for number in range(50)))


class OneKey(Inspector):
    stores = ("counts",)
    streams = ("kafka.in",)

    def answer(self, asked):
        return [Found("store counts, partition 0", asked.key, '{"views": 3}')]


class ServedPage:
    """A page on loopback, and the status that it shows."""

    def __init__(self, status):
        self.clock, self._status = ManualClock(), status
        self.board = Board(lambda: self._status, OneKey(), self.clock)
        self.board.refresh()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        application = Starlette(routes=page_routes(self.board))
        self._server = uvicorn.Server(
            uvicorn.Config(application, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def show(self, status):
        self._status = status
        self.clock.advance(2)
        self.board.refresh()

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


@pytest.fixture
def served():
    pages = []

    def make(status):
        pages.append(ServedPage(status))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def look(chromium):
    """Opens an address; what the browser complains about fails the test."""
    contexts, complaints = [], []

    def at(address, width=1280, scheme="light"):
        contexts.append(chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(address, wait_until="domcontentloaded")
        return tab

    yield at
    for context in contexts:
        context.close()
    assert complaints == []


def test_the_page_follows_the_job_without_a_reload(served, look):
    page = served(job(container(0, 0, [0])))
    tab = look(page.address)
    tab.evaluate("window.stayed = true")
    page.show(job(container(0, 2_000, [0], lag=70)))
    tab.get_by_text("2,000 messages processed").wait_for()
    page.show(failed_job())
    tab.locator(".pill.stalled").first.wait_for()
    assert "broker unreachable for 45 s" in tab.inner_text("#containers")
    assert tab.evaluate("window.stayed")


@pytest.mark.slow
def test_a_traceback_that_was_opened_stays_open_while_the_page_goes_on(served, look):
    page = served(failed_job())
    tab = look(page.address)
    tab.get_by_text("Traceback", exact=True).click()
    tab.evaluate("document.activeElement.blur()")
    changed = failed_job()
    page.show(replace(changed, failures=(*changed.failures, replace(changed.failures[0], epoch=2))))
    tab.locator("ol.errors li").nth(1).wait_for()
    assert tab.locator("#errors details[open]").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
@pytest.mark.parametrize("status", [LARGE, failed_job()], ids=["a thousand tasks", "in trouble"])
def test_the_page_fits_and_has_no_barriers(served, look, status, width, scheme):
    tab = look(served(status).address, width, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.slow
def test_the_keyboard_reaches_the_overview_first_and_a_search_narrows_the_tasks(served, look):
    tab = look(served(LARGE).address)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the overview"
    tab.focus("#search")
    tab.keyboard.type("in[77]")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**search=**")
    assert tab.locator("#tasks tbody tr").count() == 1


@pytest.mark.slow
def test_a_key_is_looked_up_and_shown(served, look):
    tab = look(served(job(container(0))).address)
    tab.fill("#key", "ann")
    tab.get_by_role("button", name="Look up").click()
    tab.locator(".record").wait_for()
    assert '{"views": 3}' in tab.inner_text(".record")


@pytest.mark.slow
def test_a_job_that_has_ended_leaves_a_page_that_says_so(served, chromium):
    page = served(job(container(0, 5, [0])))
    tab = chromium.new_page()
    tab.goto(page.address, wait_until="domcontentloaded")
    tab.get_by_text("5 messages processed").wait_for()
    page.close()
    tab.get_by_text("No news from the job").wait_for()
    tab.close()
