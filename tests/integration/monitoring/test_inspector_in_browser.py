"""The page of a running job in a real browser: a key of a store is looked up in the container that has it."""

import threading
import uuid
from concurrent.futures import Future
from contextlib import closing

import pytest
from test_page_in_browser import CHROMIUM, chromium, look  # noqa: F401  # fixtures

from samzapy import InitableTask, RequestScope, StreamTask
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (Debian: apt-get install chromium)"),
]


class Counting(InitableTask, StreamTask):
    """Counts the messages of each key, until one says that it is the last."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        coordinator.commit()
        if envelope.message == "last":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)


class RunningJob:
    """A job on the memory system, in a thread, with its page. Its store has no changelog."""

    def __init__(self):
        self._config = load_job(
            {
                "job.name": "counted",
                "job.query.enabled": "true",
                "task.class": f"{__name__}:Counting",
                "task.inputs": "sys.in",
                "systems.sys.samza.factory": "memory",
                "systems.sys.cluster": uuid.uuid4().hex,
                "systems.sys.default.stream.samza.offset.default": "oldest",
                "systems.sys.default.stream.samza.key.serde": "string",
                "systems.sys.default.stream.samza.msg.serde": "string",
                "stores.counts.factory": "inmemory",
                "stores.counts.key.serde": "string",
                "stores.counts.msg.serde": "json",
            }
        )
        self._settings = self._config.systems["sys"]
        self._factory = system_factory(self._settings)
        self._factory.admin(self._settings, "test").create(StreamSpec("in", 1))
        self._page = Future()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.page = self._page.result(60)

    def send(self, *messages):
        with closing(self._factory.producer(self._settings, "test")) as producer:
            producer.send([OutgoingRecord("in", key.encode(), message.encode(), 0) for key, message in messages])
            producer.flush()

    def _run(self):
        LocalRunner().run(prepare(self._config), RunOptions(on_page=self._page.set_result))

    def close(self):
        self.send(("x", "last"))
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def running():
    job = RunningJob()
    yield job
    job.close()


def test_a_key_is_looked_up_in_the_running_job_by_its_printed_link(running, look):  # noqa: F811
    running.send(("ann", "1"), ("ann", "2"), ("bob", "3"))
    tab = look(running.page)
    tab.get_by_text("3 messages processed").wait_for()
    tab.fill("#key", "ann")
    tab.get_by_role("button", name="Look up").click()
    tab.locator(".record").wait_for()
    shown = tab.inner_text(".record")
    assert "store counts, partition 0" in shown
    assert shown.rstrip().endswith("2")
    assert tab.locator("[role=alert]").count() == 0
