"""The page in a real browser: it goes on by itself, fits a phone, and is clean for screen readers."""

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.resources import files

import pytest
from jobs.job_status import container, failed_job, job, job_that_skips, six_hours, working_job
from jobs.served_page import OneKey, Shown, served_page

from samzapy.coordinator import views
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import PartitionLag
from samzapy.job.planner import JobModel
from samzapy.pipeline import Pipeline, Tumbling, field

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
PIPELINE = Pipeline("page-views")
VIEWS = PIPELINE.stream("kafka.page-views").join(PIPELINE.table("kafka.users"), how="left").key_by(field("page"))
VIEWS.window(Tumbling("1m")).count().to("kafka.page-view-counts")
VIEWS.filter(lambda view: view["bot"]).to("kafka.bots")
LARGE = job(*(container(number, 5_000, range(number * 20, number * 20 + 20), lag=number) for number in range(50)))


class ServedPage:
    def __init__(self, opened, status, steps=(), history=None):
        self._shown, inspector = Shown(status, JobSpec(JobModel(()), {}), history), OneKey()
        self._page, inspector.steps = ExitStack(), steps
        opened.callback(self._page.close)
        self.address = self._page.enter_context(served_page(self._shown, inspector))
        self.show, self.close = partial(setattr, self._shown, "shown"), self._page.close


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr(views, "PACE_S", 0.2)
    with ExitStack() as opened:
        yield partial(ServedPage, opened)


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
    tab.locator(".card", has_text="Rate").locator(".figure").wait_for()
    page.show(replace(job(container(0, 2_000, [0], lag=70)), seconds=22.0))
    tab.get_by_text("2,000 messages processed").wait_for()
    assert tab.locator(".card", has_text="Rate").locator(".figure").inner_text() == "200 msg/s"
    page.show(failed_job())
    tab.locator(".pill.stalled").first.wait_for()
    assert "broker unreachable for 45 s" in tab.inner_text("#containers")
    assert tab.evaluate("window.stayed")


def test_what_comes_from_the_job_is_text(served, look):
    names = ["local.5\u00b27[0]", "local.<img src=x onerror=alert(1)>[10]", "local." + "\u2460" * 200]
    odd = container(1, lags={name: PartitionLag(1, 2, 1, 0) for name in names})
    status = failed_job()
    tab = look(served(replace(status, containers=(*status.containers, odd))).address)
    tab.locator(".pill.stalled").first.wait_for()
    assert "KeyError: '<user>'" in tab.inner_text("#failures")
    assert all(name in tab.inner_text("#tasks") for name in names)
    assert tab.locator("main img").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1280
    tab.locator("#failures summary").click()
    assert tab.inner_text("#failures pre") == "Traceback …\n<b>"
    assert "Partition 0/counts" in tab.inner_text("#stores details") or tab.locator("#stores details").count() == 1


def test_stores_are_summed_and_lags_sorted(served, look):
    status = job(container(0, 5, [0, 1], lag=7), container(1, 5, [2, 10], lag=70))
    tab = look(served(status).address)
    tab.get_by_text("75 %").wait_for()
    cells = tab.locator("#stores tbody tr").inner_text().split()
    assert cells[:3] == ["counts", "4", "40"]
    rows = tab.locator("#tasks tbody th").all_inner_texts()
    assert rows == ["kafka.in[2]", "kafka.in[10]", "kafka.in[0]", "kafka.in[1]"]
    tab.fill("#search", "in[10]")
    assert tab.locator("#tasks tbody th").all_inner_texts() == ["kafka.in[10]"]
    tab.fill("#search", "no-such")
    assert "No partition, task or container has “no-such”" in tab.inner_text("#tasks")


def test_a_stale_lag_is_a_dash_with_its_age(served, look):
    known = container(0, 5, [0], lag=7)
    unknown = replace(container(1, 5, [1], lag=7), lags=None, measured_at=100.0)
    tab = look(served(job(known, unknown, at=190.0)).address)
    tab.get_by_text("unknown: not every container knows the ends of its inputs").wait_for()
    stale = tab.locator("#tasks tbody tr", has_text="kafka.in[1]")
    assert stale.locator("[data-label='Next offset']").inner_text() == "5"
    assert stale.locator("[data-label=End]").inner_text() == "\u2013"
    assert stale.locator("[data-label=Lag]").inner_text() == "\u2013 for 1 min"
    assert "\u2013 for 1 min" in tab.inner_text("#containers")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_steps_of_a_pipeline_are_drawn_with_their_lags(served, look, width):
    lags = {"kafka.page-views[0]": 12_345, "kafka.page-views-by-page[0]": 3, "kafka.page-views-by-page[1]": 4}
    reader = container(0, 5, lags={name: PartitionLag(5, 5 + lag, lag, 0) for name, lag in lags.items()})
    tab = look(served(job(reader), PIPELINE.plan.picture).address, width)
    tab.locator("#graph svg").wait_for()
    texts = tab.locator("#graph svg text").all_text_contents()
    assert "by-page-window" in texts
    assert not [text for text in texts if text in {"by-page-out", "by-page-in"}]
    assert texts[texts.index("page-views-by-pagekafka.page-views-by-page") + 1] == "\u2013 msg/s \u00b7 lag 7"
    assert tab.locator("#graph path.stream").count() == 1
    assert tab.locator("#graph .behind").all_text_contents() == ["\u2013 msg/s \u00b7 lag 12,345"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert axe.Axe().run(tab).violations_count == 0


def test_the_first_sentence_says_why_and_what_to_type(served, look):
    page = served(failed_job())
    tab = look(page.address)
    tab.locator(".why.is-bad").wait_for()
    assert tab.locator("main section").first.get_attribute("id") == "why"
    assert tab.inner_text(".why .sentence") == "Container 0 is stuck: broker unreachable for 45 s."
    assert tab.inner_text(".why code") == "samzapy check JOB.properties"
    page.show(working_job())
    tab.locator(".why.is-unknown").wait_for()
    assert tab.locator(".why code").count() == 0


def test_a_job_that_skips_messages_has_them_with_line_and_replay(served, look):
    tab = look(served(job_that_skips()).address)
    tab.locator("#failures .record").first.wait_for()
    card = tab.locator(".card", has_text="Failures")
    assert card.locator(".figure").inner_text() == "37"
    assert "0 attempts failed of 2, in 2 containers" in card.inner_text()
    newest = tab.locator("#failures .record").first
    assert newest.locator("strong").inner_text() == "skipped 10 s ago, process of kafka.in[3]@36, container 1"
    codes = newest.locator("code").all_inner_texts()
    assert codes == ["tasks.py:31", 'samzapy replay JOB.properties --until "kafka.in[3]@36"']
    newest.get_by_text("Stack").click()
    assert "NoneType" in newest.locator("pre").inner_text()
    assert tab.locator("#failures .record").count() == 37


def test_charts_have_axes_of_ten_minutes_and_six_hours_and_mark_restarts(served, look):
    tab = look(served(working_job(), history=six_hours()).address)
    rate = tab.locator("#charts figure", has_text="Rate")
    rate.locator("polyline").wait_for()
    texts = rate.locator("svg text").all_text_contents()
    assert texts[-6:] == ["12:00", "12:02", "12:04", "12:06", "12:08", "12:10"]
    assert texts[:2] == ["0", "1k"]
    assert rate.locator(".mark title").text_content() == "1 restart at 2026-11-28T12:06:50Z"
    assert rate.locator("svg").get_attribute("aria-label").startswith("Rate, messages/s: now ")
    tab.get_by_label("six hours").check()
    assert rate.locator("svg text").all_text_contents()[-6:] == [f"{hour:02}:00" for hour in range(7, 13)]
    labels = [each.get_attribute("aria-label") for each in tab.locator("#charts svg[role=img]").all()]
    assert "now p50 0.1, p99 5;" in labels[2]
    assert "whole 71, serialize 2, outputs 12, changelog 23, checkpoint 30, stores 4; at most" in labels[3]


@pytest.mark.slow
def test_the_job_of_a_task_is_drawn_with_its_rates_and_busy_shares(served, look):
    steps = [
        {"name": "kafka.in", "kind": "stream", "about": "input", "inputs": [], "stream": "kafka.in", "stores": []},
        {"name": "CountTask", "kind": "task", "about": "task", "inputs": ["kafka.in"], "stream": "", "stores": []},
        {"name": "counts", "kind": "output", "about": "log", "inputs": ["CountTask"], "stream": "", "stores": []},
    ]
    tab = look(served(working_job(), steps).address)
    tab.locator("#graph svg").wait_for()
    texts = set(tab.locator("#graph svg text").all_text_contents())
    assert {"kafka.in", "CountTask", "42 % busy, task", "counts", "\u2013 msg/s \u00b7 lag 16"} <= texts
    assert tab.locator("#containers [data-label=Busy]").all_inner_texts() == ["42 %", "42 %"]
    tab.locator("#graph text", has_text="20 % busy, log").wait_for(timeout=30_000)


@pytest.mark.slow
def test_a_copy_of_a_status_in_a_file_is_shown(look, tmp_path):
    page, copy = tmp_path / "page.html", tmp_path / "status.json"
    page.write_bytes((files("samzapy.coordinator.overview") / "page.html").read_bytes())
    copy.write_text(json.dumps(failed_job().to_json()))
    tab = look(page.as_uri())
    tab.set_input_files("#file", copy)
    tab.locator(".pill.stalled").first.wait_for()
    assert "broker unreachable for 45 s" in tab.inner_text("#containers")
    assert not tab.is_visible("#inspect")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
@pytest.mark.parametrize("status", [LARGE, failed_job(), job_that_skips()], ids=["a thousand tasks", "stuck", "skips"])
def test_the_page_fits_and_has_no_barriers(served, look, status, width, scheme):
    tab = look(served(status, PIPELINE.plan.picture, six_hours()).address, width, scheme)
    tab.locator("#tasks tbody tr").first.wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.slow
def test_a_key_is_looked_up_and_shown(served, look):
    tab = look(served(job(container(0))).address)
    tab.fill("#key", "ann")
    tab.get_by_role("button", name="Look up").click()
    tab.locator("#records .record").wait_for()
    assert '{"views": 3}' in tab.inner_text("#records")
    tab.select_option("#how", "history")
    tab.get_by_role("button", name="Look up").click()
    tab.get_by_text("store counts, history").first.wait_for()
    assert tab.locator("#records .record").count() == 3
    tab.fill("#partition", "3")
    tab.fill("#from", "17")
    tab.fill("#only", "ann")
    tab.get_by_role("button", name="Show").click()
    tab.get_by_text("kafka.in[3]@17").wait_for()


@pytest.mark.slow
def test_the_log_of_a_container_is_followed(served, look):
    tab = look(served(working_job()).address)
    tab.get_by_text("[container 0]: a <line>").wait_for()
    tab.select_option("#of", "1")
    tab.get_by_text("[container 1]: a <line>").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ended", "stopped", "refused"])
def test_a_page_without_news_says_so_turns_grey_and_comes_back(served, chromium, monkeypatch, how):
    page = served(job(container(0, 5, [0])))
    tab, old = chromium.new_page(), ":root.old"
    tab.clock.install()
    if how == "refused":  # as by a proxy, which ends the events for good
        tab.route("**/events", lambda route: route.fulfill(status=502))
    tab.goto(page.address, wait_until="domcontentloaded")
    if how == "refused":
        tab.locator(old).wait_for()
        tab.unroute("**/events")
        tab.clock.fast_forward(15_000)
    tab.get_by_text("5 messages processed").wait_for()
    assert tab.locator(old).count() == 0
    if how == "ended":
        page.close()
    else:
        monkeypatch.setattr(views, "PACE_S", 60.0)
        tab.clock.fast_forward(60_000)
    tab.get_by_text("No news from the job").wait_for()
    expect = playwright.expect
    expect(tab.locator(f"{old} .title .pill")).to_have_css("color", "rgb(87, 96, 106)", timeout=30_000)
    expect(tab.locator("#age")).to_contain_text("All figures are")
    tab.close()
