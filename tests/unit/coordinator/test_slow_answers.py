"""Answers that take long, or are large: they come whole, nobody waits for a reader who has gone, and reports pass
meanwhile."""

import asyncio
import json
import time
from contextlib import ExitStack, closing

import pytest
import urllib3
from jobs.job_models import job_model
from jobs.job_status import container, job
from jobs.query_job import QUERY_JOB, engine_with
from starlette.applications import Starlette

from samzapy.config.loader import load_job
from samzapy.coordinator.client import CoordinatorClient, HttpQuestions
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.page.board import Board
from samzapy.coordinator.page.inspector import Asked, Inspector
from samzapy.coordinator.page.routes import page_routes
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.web import queries as queries_module
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import RetriableError
from samzapy.metrics import Registry
from samzapy.queries import answering as answering_module
from samzapy.queries.answering import Answering
from samzapy.queries.committed import CommittedStores, PublishedStore
from samzapy.queries.exchange import Exchange, LocalQuestions
from samzapy.queries.questions import question_of_key
from samzapy.runner.serving import records_of
from samzapy.testing import ManualClock

TOKEN = "correct-horse"


def store_with(entries, partition):
    stores = CommittedStores()
    stores.publish({"counts": {partition: PublishedStore(engine_with(entries, partition))}})
    return stores


class Scene:
    """A job with one task in each container. Its containers are attempts that are registered, and silent."""

    def __init__(self, containers, timeout_ms=300):
        flat = {**QUERY_JOB, "job.query.page.max.entries": "20", "job.query.timeout.ms": str(timeout_ms)}
        self.coordinator = Coordinator("j", JobSpec(job_model(containers), flat), 60.0)
        self.exchange = Exchange(self.coordinator.holder)
        self.epochs = [self.coordinator.register(str(n)) for n in range(containers)]
        for number, epoch in enumerate(self.epochs):
            self.exchange.take(str(number), epoch)
        self.records = records_of(load_job(flat), self.coordinator, self.exchange)
        self.service = CoordinatorService(self.coordinator, TOKEN, records=self.records)

    def get(self, path):
        headers = {"authorization": f"Bearer {TOKEN}"}
        return urllib3.request("GET", self.service.url + path, headers=headers, retries=False, timeout=60)

    def close(self):
        self.service.close()


def test_silent_containers_cost_the_page_the_time_of_one():
    with closing(Scene(30)) as scene:
        began = time.monotonic()
        with pytest.raises(RetriableError, match="has not answered"):
            scene.records.inspector.answer(Asked("counts", "a"))
        assert time.monotonic() - began < 30 * 0.3 / 2


class Noting(Inspector):
    stores, streams = ("counts",), ()

    def __init__(self):
        self.asked = []

    def answer(self, asked):
        self.asked.append(asked.key)
        return []


@pytest.mark.parametrize(("event", "asked"), [("http.request", ["a"]), ("http.disconnect", [])])
def test_the_question_of_a_reader_who_has_gone_is_not_looked_up(event, asked):
    inspector = Noting()
    status = job(container(0))
    page = Starlette(routes=page_routes(Board(lambda: status, inspector, ManualClock())))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"store=counts&key=a"}

    async def receive():
        return {"type": event, "body": b"", "more_body": False}

    async def send(_):
        pass

    asyncio.run(page(scope, receive, send))
    assert inspector.asked == asked


def test_answers_that_are_large_together_reach_all_who_asked(monkeypatch):
    assert answering_module.HANDED_BYTES < queries_module._BODY_LIMIT // 2
    monkeypatch.setattr(answering_module, "HANDED_BYTES", 80_000)
    monkeypatch.setattr(queries_module, "_BODY_LIMIT", 600_000)
    value = b'"%s"' % (b"x" * 10_000)
    keys = [b"%d" % number for number in range(90)]
    with closing(Scene(1)) as scene, closing(CoordinatorClient(scene.service.url, TOKEN)) as client:
        answers = [scene.exchange.ask("0", question_of_key("counts", key, 1)) for key in keys]
        stores = store_with(dict.fromkeys(keys, value), 0)
        with Answering(HttpQuestions(client, "0", lambda: scene.epochs[0]), stores, Registry()):
            assert [each.result(30).entries[0].key for each in answers] == keys


def test_a_page_of_a_large_job_is_not_a_page_of_each_container():
    keys = sorted(f"{n:04}" for n in range(800))
    with closing(Scene(40, 60_000)) as scene, ExitStack() as answering:
        registries = [Registry() for _ in range(40)]
        for number, epoch in enumerate(scene.epochs):
            stores = store_with({key.encode(): b"1" for key in keys[number::40]}, number)
            source = LocalQuestions(scene.exchange, str(number), lambda epoch=epoch: epoch)
            answering.enter_context(Answering(source, stores, registries[number]))
        found, path = [], "/stores/counts"
        first = json.loads(scene.get(path).data)
        sent = sum(each.snapshot()["queries"]["entries"] for each in registries)
        while True:
            page = json.loads(scene.get(path).data)
            found += [entry["key"] for entry in page["entries"]]
            if page["next"] is None:
                break
            path = f"/stores/counts?after={page['next']}"
    assert len(first["entries"]) == 20
    assert sent < 400, "each of the first containers sends a page, the others what has room in it"
    assert found == keys
