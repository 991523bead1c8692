"""The client of a running job's stores, against a server that answers as the driver does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from samzapy.admin.queries import JobQueries, StoreEntry
from samzapy.config.loader import load_job
from samzapy.container.supervision.logs import PageAddress, log_folder
from samzapy.testing import ManualClock

INDEX = {"stores": [{"name": "counts", "text_keys": True}, {"name": "numbers", "text_keys": False}], "partitions": [0]}
ENTRY = {"store": "counts", "key": "a", "value": [1], "partition": 2, "as_of": 17}


class Clock(ManualClock):
    """Stands still but for its waits."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, seconds):
        self.waits.append(seconds)
        self.advance(seconds)


class Driver:
    """Answers with what is put into `answers`, (status, body, headers) each; the list of stores needs no answer."""

    def __init__(self):
        self.answers, self.asked, self.tokens = [], [], set()
        driver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                driver.tokens.add(self.headers["authorization"])
                parts = urlsplit(self.path)
                if parts.path == "/stores":
                    status, body, headers = 200, INDEX, {}
                else:
                    driver.asked.append((parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}))
                    status, body, headers = driver.answers.pop(0)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/?token=reads"

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def driver():
    made = Driver()
    yield made
    made.close()


@pytest.fixture
def flat(tmp_path):
    stores = {f"stores.{name}.factory": "inmemory" for name in ("counts", "numbers")}
    serdes = {f"stores.{name}.{part}.serde": "json" for name in ("counts", "numbers") for part in ("key", "msg")}
    return {
        "job.name": "j",
        "task.class": "a:B",
        "task.inputs": "m.in",
        "systems.m.samza.factory": "memory",
        "job.log.dir": str(tmp_path),
        **stores,
        **serdes,
    }


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def job(driver, flat, clock):
    with JobQueries(load_job(flat), driver.address, deadline_s=3, clock=clock, wait=clock.wait) as made:
        yield made


def test_a_key_has_a_value_or_none(job, driver):
    driver.answers += [(200, ENTRY, {}), (404, {"error": "no entry", "as_of": {}}, {})]
    store = job.store("counts")
    assert store.get("a") == [1]
    assert store.get("b", partition=3) is None
    assert driver.asked == [("/stores/counts", {"key": "a"}), ("/stores/counts", {"key": "b", "partition": "3"})]
    assert driver.tokens == {"Bearer reads"}


@pytest.mark.parametrize(
    ("key", "text"), [(7, "7"), ("x", '"x"'), (b"\x00\xff", '"00ff"'), ([1, "a"], '[1,"a"]'), ({"a": 1}, '{"a":1}')]
)
def test_a_key_that_is_not_text_travels_as_json(job, driver, key, text):
    driver.answers += [(200, ENTRY, {})]
    job.store("numbers").get(key)
    assert driver.asked == [("/stores/numbers", {"key": text})]


def test_a_range_goes_on_page_by_page(job, driver):
    def page(key, following):
        return 200, {"entries": [{"key": key, "value": 1, "partition": 0}], "as_of": {"0": 5}, "next": following}, {}

    driver.answers += [page("a", "cursor"), page("b", None)]
    found = list(job.store("counts").range("a", "c"))
    assert found == [StoreEntry("a", 1, 0, 5), StoreEntry("b", 1, 0, 5)]
    assert [asked for _, asked in driver.asked] == [
        {"from": "a", "to": "c"},
        {"from": "a", "to": "c", "after": "cursor"},
    ]
    driver.answers += [page("k", None)]
    assert len(list(job.store("counts").prefix("k", partition=0))) == 1
    assert driver.asked[-1][1] == {"prefix": "k", "partition": "0"}


def test_an_owner_that_moves_is_asked_again_when_it_says(job, driver, clock):
    driver.answers += [(503, {"error": "moving"}, {"retry-after": "1"})] * 2 + [(200, ENTRY, {})]
    assert job.store("counts").get("a") == [1]
    assert clock.waits == [1.0, 1.0]


def test_a_driver_that_is_started_again_is_found_by_its_new_address(driver, flat, clock):
    config = load_job(flat)
    address = PageAddress(log_folder(config.supervision.log, config.job_name))
    driver.answers += [(200, ENTRY, {})]
    address.write("http://127.0.0.1:9/?token=gone")

    def wait(seconds):
        clock.wait(seconds)
        address.write(driver.address)

    with JobQueries(config, clock=clock, wait=wait) as job:
        assert job.store("counts").get("a") == [1]
    assert len(clock.waits) == 1
