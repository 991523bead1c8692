"""The page as HTML: what it shows, that it escapes, that it stays small, and what readers get of it."""

import asyncio
import itertools
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import urllib3
import uvicorn
from jobs.job_status import container, failed_job, job
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request

from samzapy.coordinator.clocks import ClockStatus
from samzapy.coordinator.page.board import SECTIONS, SHARE, Board
from samzapy.coordinator.page.history import SAMPLES, History
from samzapy.coordinator.page.inspector import Asked, Found, Inspector, NoInspector
from samzapy.coordinator.page.routes import READERS, page_routes
from samzapy.coordinator.status import ChangelogSize
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.lease import PartitionLag
from samzapy.testing import ManualClock


class Told(Inspector):
    stores = ("counts",)
    streams = ("kafka.in",)

    def answer(self, asked):
        if asked.key == "wrong":
            raise ConfigError([ConfigProblem("key", "wrong", "expected <right>")])
        return [Found("store counts, partition 0", asked.key, '{"views": 3}')] if asked.key == "ann" else []


class Texts(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def board_of(status, inspector=None, clock=None):
    board = Board(lambda: status, inspector or NoInspector(), clock or ManualClock())
    board.refresh()
    return board


def test_a_page_has_every_section_and_the_jobs_name():
    html = board_of(job(container(0, 5, [0, 1], lag=7)), Told()).page()
    sections = [attrs["data-section"] for _, attrs in Texts(html).tags if "data-section" in attrs]
    assert sorted(sections) == sorted(SECTIONS)
    assert "page-views" in html
    assert "kafka.in[1]" in html


def test_what_comes_from_outside_is_escaped():
    html = board_of(failed_job()).page("<script>alert(1)</script>")
    assert "<script>alert" not in html
    assert "KeyError: &#39;&lt;user&gt;&#39;" in html
    assert "Traceback …\n&lt;b&gt;" in html


def test_a_stall_a_failure_and_a_restore_are_shown():
    text = " ".join(Texts(board_of(failed_job()).page()).texts)
    assert "broker unreachable for 45 s" in text
    assert "a stack" in text
    assert "Partition 0/counts" in text
    assert "stalled" in board_of(failed_job()).sections()["state"]


def test_the_greatest_lag_comes_first_and_a_search_narrows_the_table():
    status = job(container(0, 5, [0, 1], lag=7), container(1, 5, [2, 10], lag=70))
    tasks = board_of(status).sections()["tasks"]
    rows = [tasks.index(f'<th scope="row">kafka.in[{number}]') for number in (2, 10, 0, 1)]
    assert rows == sorted(rows)
    assert "kafka.in[0]</th>" not in board_of(status).sections("in[10]")["tasks"]
    assert "no-such" in board_of(status).sections("no-such")["tasks"]


def test_a_thousand_tasks_make_a_page_of_bounded_size():
    containers = [container(number, 5, range(number * 20, number * 20 + 20), lag=number) for number in range(500)]
    assert len(board_of(job(*containers)).page()) < 600_000


def test_rates_come_from_the_last_samples_and_the_history_is_bounded():
    clock, processed = ManualClock(), iter(range(0, 10_000_000, 2_000))
    history = History(clock)
    for _ in range(2 * SAMPLES):
        history.observe(job(container(0, next(processed), [0])))
        clock.advance(2)
    assert history.rate == pytest.approx(1_000)
    assert history.rate_of("kafka.in[0]") == pytest.approx(1_000)
    assert history.rate_of("kafka.in[9]") == 0
    assert len(history.rates) < SAMPLES


def test_a_job_that_goes_back_has_no_negative_rate():
    clock = ManualClock()
    history = History(clock)
    for processed in (100, 50):
        history.observe(job(container(0, processed, [0])))
        clock.advance(2)
    assert history.rate == 0
    assert min(history.rates) == 0


def test_a_question_is_answered_on_the_page():
    board = board_of(job(container(0)), Told())
    assert "views" in board.page(asked=Asked(store="counts", key="ann"))
    assert "There is no such record" in board.page(asked=Asked(store="counts", key="bob"))
    assert "expected &lt;right&gt;" in board.page(asked=Asked(store="counts", key="wrong"))
    assert "Inspect" not in board_of(job(container(0))).page()


def test_sections_are_drawn_once_a_snapshot():
    board = board_of(job(container(0)))
    assert board.sections() is board.sections()
    before = board.sections()
    board.refresh()
    assert board.sections() is not before


def test_a_snapshot_and_a_drawing_pause_at_each_container():
    status, pauses = job(*(container(number, 5, [number]) for number in range(200))), []
    board = Board(lambda: status, NoInspector(), ManualClock(), pause=lambda: pauses.append(1))
    board.refresh()
    of_the_snapshot = len(pauses)
    assert of_the_snapshot >= 200
    board.sections("in[1]")
    assert len(pauses) >= of_the_snapshot + 400


def test_the_next_snapshot_waits_for_the_share_of_this_one_and_of_the_drawing_before_it():
    work_s = itertools.count().__next__
    board = Board(lambda: job(container(0)), NoInspector(), ManualClock(), work_s=work_s)
    assert board.refresh() == SHARE
    board.sections()
    assert board.refresh() == 2 * SHARE
    assert board.refresh() == SHARE


@pytest.fixture
def address():
    """Of a page that is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    application = Starlette(routes=page_routes(board_of(failed_job(), Told())))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listening.close()


def got(address, path):
    answer = urllib3.request("GET", address + path)
    assert answer.status == 200
    return answer.data.decode()


def test_every_file_that_the_page_names_is_served(address):
    page = Texts(got(address, "/"))
    named = {attrs.get("href") or attrs.get("src") for tag, attrs in page.tags if tag in {"link", "script"}}
    assert named == {"/page.css", "/page.js", "/icon.svg"}
    assert all(got(address, name) for name in named)


def test_questions_come_in_the_address(address):
    assert "views" in got(address, "/?store=counts&key=ann")
    assert "There is no such record" in got(address, "/?store=counts&key=%00%ff")


def test_the_page_asks_nothing_of_another_host(address):
    texts = got(address, "/") + got(address, "/page.css") + got(address, "/page.js")
    assert "//" not in texts.replace("// ", "").replace("http://www.w3.org", "")


def test_readers_who_come_at_once_get_no_more_places_than_there_are():
    (events,) = (route for route in page_routes(board_of(failed_job())) if route.path == "/events")
    request = Request({"type": "http", "query_string": b"", "headers": []})

    async def gone(message):
        raise OSError

    async def statuses():
        answers = [await events.endpoint(request) for _ in range(READERS + 5)]
        refused = [each.status_code for each in answers[READERS:]]
        with suppress(ClientDisconnect):
            await answers[0]({"type": "http", "asgi": {"spec_version": "2.4"}}, None, gone)
        return [each.status_code for each in answers[:READERS]], refused, (await events.endpoint(request)).status_code

    assert asyncio.run(statuses()) == ([200] * READERS, [503] * 5, 200)


def test_a_store_shows_the_length_of_its_changelog_once_it_is_known():
    status = job(container(0, 5, [0]))
    known = replace(status, changelogs={"counts": ChangelogSize(2, 1_234_567)})
    board = Board(lambda: known, NoInspector(), ManualClock())
    assert "1,234,567" in board.sections()["stores"]


def test_a_partition_may_have_any_name():
    names = ["local.5\u00b27[0]", "local.\u0663[10]", "local.\u0663[9]", "local.\u2460"]
    status = job(container(0, lags={name: PartitionLag(1, 2, 1, 0) for name in names}))
    html = board_of(status).page()
    assert all(name in html for name in names)


def test_a_snapshot_that_cannot_be_had_leaves_the_page_as_it_was():
    statuses = [job(container(0, 5, [0]))]
    board = Board(lambda: statuses[0], NoInspector(), ManualClock())
    board.refresh()
    statuses.clear()
    with pytest.raises(IndexError):
        board.refresh()
    assert "5 messages" in board.page()
    board.close()


def test_a_clock_beyond_the_calendar_is_shown_as_a_number():
    clocks = ClockStatus(10**17, -(10**17))
    assert "100000000000000000 ms" in board_of(job(container(0), clocks=clocks)).page()


def test_a_stale_lag_is_a_dash_with_its_age():
    known = container(0, 5, [0], lag=7)
    unknown = replace(container(1, 5, [1], lag=7), lags=None, measured_at=100.0)
    board = board_of(job(known, unknown, at=190.0))
    rows = [row.split("<tr>")[-1] for row in board.sections()["tasks"].split("</tr>")]
    (stale,) = (row for row in rows if "kafka.in[1]" in row)
    assert 'data-label="Next offset" class="n">5<' in stale
    assert 'data-label="End" class="n">\u2013<' in stale
    assert 'data-label="Lag" class="n">\u2013 <small>for 1 min</small>' in stale
    assert "\u2013 <small>for 1 min</small>" in board.sections()["containers"]
    assert 'class="figure">\u2013<' in board.sections()["overview"]
    assert "unknown: not every container knows" in board.sections()["overview"]


def test_a_lag_that_went_stale_is_not_the_last_known_one_of_the_history():
    statuses = [job(container(0, 5, [0], lag=7)), job(replace(container(0, 9, [0], lag=7), lags=None))]
    board = Board(lambda: statuses[0], NoInspector(), ManualClock())
    board.refresh()
    del statuses[0]
    board.refresh()
    assert 'class="figure">\u2013<' in board.sections()["overview"]
