"""Stores over HTTP: from the address through the driver to containers and back. Engines are real, containers are
threads."""

import base64
import json
from datetime import datetime, timezone
from urllib.parse import quote, urlencode

import pytest
import urllib3
from jobs.query_job import QUERY_JOB, engine_with

import samzapy
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.coordinator.client import CONNECT_S, CoordinatorClient, HttpQuestions
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.web import queries as queries_module
from samzapy.coordinator.web.tls import made_for
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import RetriableError, TaskMigrated
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.metrics import Registry
from samzapy.queries.answering import Answering
from samzapy.queries.committed import CommittedStores, PublishedStore
from samzapy.queries.exchange import Exchange
from samzapy.queries.questions import Problem, Question
from samzapy.runner.serving import records_of
from samzapy.verify.processes import until

TOKEN = "correct-horse"
TASKS = [TaskModel(f"Partition {n}", frozenset({SystemStreamPartition("m", "in", n)}), n) for n in range(4)]
MODEL = JobModel(
    (ContainerModel("0", (TASKS[0], TASKS[2])), ContainerModel("1", (TASKS[1], TASKS[3]))),
    (ContainerModel("1-1", (TASKS[1], TASKS[3])),),
)
FLAT = {
    **QUERY_JOB,
    "job.query.timeout.ms": "300",
    "job.query.page.max.entries": "5",
    "stores.numbers.factory": "inmemory",
    "stores.numbers.key.serde": "long",
    "stores.numbers.msg.serde": "json",
}


class Container:
    """An attempt of one container that answers over HTTP."""

    def __init__(self, scene, container_id, stores, end=None):
        self.client = CoordinatorClient(scene.service.url, TOKEN, scene.service.address.fingerprint)
        self.lease, _ = self.client.register(container_id)
        self.stores = CommittedStores()
        parts = (lambda: end,) if end is not None else ()
        self.stores.publish(
            {name: {p: PublishedStore(engine, *parts) for p, engine in by.items()} for name, by in stores.items()}
        )
        self.source = HttpQuestions(self.client, container_id, lambda: self.lease.epoch)
        self._thread = Answering(self.source, self.stores, Registry())
        self._thread.__enter__()
        desks = scene.exchange._desks

        def asks():
            desk = desks.get(container_id)
            return desk is not None and desk.epoch == self.lease.epoch and desk.requests

        until(asks, "it does not ask")

    def close(self):
        self._thread.__exit__(None, None, None)
        self.client.close()


class Scene:
    def __init__(self, flat, addresses=None):
        config = load_job(flat)
        self.coordinator = Coordinator("j", JobSpec(MODEL, flat), 15.0)
        self.exchange = Exchange(self.coordinator.holder)
        self.service = CoordinatorService(
            self.coordinator,
            TOKEN,
            addresses or Addresses(),
            records=records_of(config, self.coordinator, self.exchange),
        )
        self.containers = []

    def container(self, container_id, stores, end=None):
        made = Container(self, container_id, stores, end)
        self.containers.append(made)
        return made

    def get(self, path, token=None, **parameters):
        query = f"?{urlencode(parameters)}" if parameters else ""
        answer = urllib3.request(
            "GET",
            self.service.url + path + query,
            headers={"authorization": f"Bearer {token or self.service.tokens.read}"},
            retries=False,
            timeout=30,
        )
        assert answer.data.count(b"\n") == 1
        return answer.status, json.loads(answer.data), answer.headers

    def close(self):
        for each in self.containers:
            each.close()
        self.service.close()


@pytest.fixture
def empty():
    made = Scene(FLAT)
    yield made
    made.close()


@pytest.fixture(scope="module")
def scene():
    """Letters over the tasks; 'both' is in two of them. No test changes it."""
    made = Scene(FLAT)
    numbers = {0: engine_with({n.to_bytes(8, "big"): b"%d" % n for n in range(4)}, 0), 2: engine_with({}, 2)}
    even = {
        0: engine_with({b"a": b"1", b"e": b"5", b"both": b"0"}, 0),
        2: engine_with({b"c": b"3", "ü/x y".encode(): b"9"}, 2, -1),
    }
    odd = {1: engine_with({b"b": b"2", b"both": b"1"}, 1, 5), 3: engine_with({b"d": b'{"x":[1]}'}, 3, 6)}
    made.container("0", {"counts": even, "numbers": numbers})
    made.container("1", {"counts": odd, "numbers": {1: engine_with({}, 1), 3: engine_with({}, 3)}})
    yield made
    made.close()


def page(scene, token=None, **asked):
    headers = {"authorization": f"Bearer {token or scene.service.tokens.read}"}
    answer = urllib3.request(
        "GET", f"{scene.service.url}/?{urlencode(asked)}", headers=headers, retries=False, timeout=30
    )
    return answer.status, answer.data.decode()


def test_the_page_looks_a_key_up_in_the_containers_with_the_token_that_reads(scene):
    status, html = page(scene, store="counts", key="d")
    assert status == 200
    assert "<h3>store counts, partition 3, as of changelog offset 6</h3>" in html
    assert "{&#34;x&#34;:[1]}" in html
    assert page(scene, "wrong", store="counts", key="d")[0] == 403


def test_the_page_shows_a_key_of_several_tasks_once_for_each(scene):
    _, html = page(scene, store="counts", key="both")
    assert html.count('<article class="record">') == 2
    assert "partition 0, as of changelog offset 17" in html
    assert "partition 1, as of changelog offset 5" in html


def test_the_page_takes_json_for_keys_that_are_no_text(scene):
    assert "store numbers, partition 0" in page(scene, store="numbers", key="3")[1]
    assert "expected JSON for the serde long" in page(scene, store="numbers", key="three")[1]


def test_the_page_says_what_it_cannot_show(scene, empty):
    assert "There is no such record." in page(scene, store="counts", key="nothing")[1]
    assert "the stores are counts, numbers" in page(scene, store="other", key="a")[1]
    assert "starting or moving; ask again" in page(empty, store="counts", key="a")[1]


def test_a_key_is_found_wherever_it_is_with_the_offset_that_it_is_as_of(scene):
    assert scene.get("/stores/counts/a")[:2] == (
        200,
        {"store": "counts", "key": "a", "value": 1, "partition": 0, "as_of": 17},
    )
    assert scene.get("/stores/counts/d")[1]["value"] == {"x": [1]}
    assert scene.get("/stores/counts/c")[1]["as_of"] is None


def test_a_key_of_text_may_have_any_character_in_a_path_and_in_a_parameter(scene):
    for status, found, _ in (
        scene.get("/stores/counts/" + quote("ü/x y", safe="")),
        scene.get("/stores/counts", key="ü/x y"),
    ):
        assert (status, found["key"], found["value"]) == (200, "ü/x y", 9)


def test_a_key_of_another_serde_is_json_in_a_parameter(scene):
    assert scene.get("/stores/numbers", key="3")[1]["value"] == 3
    status, found, _ = scene.get("/stores/numbers/3")
    assert (status, found["error"]) == (
        400,
        "store 'numbers': keys are long, not text: ask /stores/numbers?key=JSON",
    )


def test_an_absent_key_and_an_unknown_store_are_not_found(scene):
    status, found, _ = scene.get("/stores/counts/zz")
    assert (status, found["as_of"]) == (404, {"0": 17, "1": 5, "2": None, "3": 6})
    status, found, _ = scene.get("/stores/nowhere/a")
    assert (status, found) == (
        404,
        {"error": "store 'nowhere': no such store; the job's stores are counts, numbers"},
    )


def test_a_key_that_several_tasks_have_needs_a_partition(scene):
    status, found, _ = scene.get("/stores/counts/both")
    assert (status, found["error"]) == (
        409,
        "store 'counts': several tasks have this key; add partition= (0, 1)",
    )
    assert [scene.get("/stores/counts/both", partition=n)[1]["value"] for n in (0, 1)] == [0, 1]


def pages(scene, store="counts", **parameters):
    keys, count = [], 0
    while True:
        status, found, _ = scene.get(f"/stores/{store}", **parameters)
        assert status == 200, found
        keys += [entry["key"] for entry in found["entries"]]
        count += 1
        if found["next"] is None:
            return keys, count
        parameters["after"] = found["next"]


ALL = ["a", "b", "both", "both", "c", "d", "e", "ü/x y"]


#: A cursor with a partition that no packed question can have.
_TOO_FAR = base64.urlsafe_b64encode(b"1" + 30 * b"0" + b":key").decode().rstrip("=")


@pytest.mark.parametrize(("limit", "count"), [(1, 8), (3, 3), (5, 2)])
def test_a_range_over_all_tasks_comes_in_pages_and_in_order(scene, limit, count):
    assert pages(scene, limit=limit) == (ALL, count)
    assert pages(scene, limit=limit, **{"from": "b", "to": "d"})[0] == ["b", "both", "both", "c"]
    assert pages(scene, limit=limit, prefix="bo")[0] == ["both", "both"]
    assert pages(scene, limit=limit, partition=1)[0] == ["b", "both"]
    assert pages(scene, limit=limit, to="")[0] == []


def test_a_store_without_order_is_read_as_a_whole_but_not_by_range_or_prefix(scene):
    assert pages(scene, "numbers")[0] == [0, 1, 2, 3]
    for parameter in ("from", "to", "prefix"):
        status, found, _ = scene.get("/stores/numbers", **{parameter: "1"})
        assert (status, "long does not" in found["error"]) == (400, True)


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"limit": "0"}, "limit: expected a number from 1 to 5, got '0'"),
        ({"limit": "6"}, "limit: expected a number from 1 to 5, got '6'"),
        ({"limit": "x"}, "limit: expected a number from 1 to 5, got 'x'"),
        ({"partition": "4"}, "partition: expected a number from 0 to 3, got '4'"),
        ({"after": "!"}, "after: expected the `next` of the previous page, got '!'"),
        ({"after": "abcd"}, "after: expected the `next` of the previous page, got 'abcd'"),
        ({"after": _TOO_FAR}, f"after: expected the `next` of the previous page, got '{_TOO_FAR}'"),
        ({"standby": "yes"}, "standby: expected true or false, got 'yes'"),
        ({"prefix": "a", "from": "b"}, "prefix: cannot be combined with from and to, choose one of them"),
        ({"form": "b"}, "unknown parameter 'form'; expected after, from, limit, partition, prefix, standby, to"),
        ({"key": "b", "limit": "1"}, "unknown parameter 'limit'; expected key, partition, standby"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(scene, parameters, line):
    assert scene.get("/stores/counts", **parameters)[:2] == (400, {"error": f"store 'counts': {line}"})


def test_a_key_that_is_not_utf8_is_refused(scene):
    status, found, _ = scene.get("/stores/counts/%ff")
    assert (status, found["error"].startswith("store 'counts': key: expected UTF-8")) == (400, True)


@pytest.mark.parametrize("query", ["key=%ff", "prefix=%c3", "from=%ff", "to=a%ff", "after=%ff"])
def test_a_parameter_that_is_not_utf8_is_refused(scene, query):
    status, found, _ = scene.get(f"/stores/counts?{query}")
    assert (status, found["error"].startswith("store 'counts': parameters: expected UTF-8")) == (400, True)


def test_a_path_without_a_plain_slash_before_the_key_is_refused_in_one_line(scene):
    status, body = scene.get("/stores/counts%2Fk")[:2]
    assert (status, "expected /stores/NAME/KEY" in str(body)) == (400, True)


def test_a_question_that_cannot_be_packed_is_refused_and_does_not_cost_the_others(scene):
    good, odd = Question("counts", None, None, 1, 100, (0,)), Question("counts", None, None, 10**30, 100, (0,))
    refused, answered = scene.exchange.ask("0", odd), scene.exchange.ask("0", good)
    assert refused.result(30).problem is Problem.REFUSED
    assert answered.result(30).problem is None


def test_stores_need_the_token_that_reads(scene):
    for path in ("/stores", "/stores/counts", "/stores/counts/a"):
        answer = urllib3.request("GET", scene.service.url + path, retries=False)
        assert answer.status == 403
    assert scene.get("/stores/counts/a", token=TOKEN)[0] == 200
    body = urllib3.request(
        "POST",
        scene.service.url + "/containers/0/questions",
        headers={"authorization": f"Bearer {scene.service.tokens.read}"},
        retries=False,
    )
    assert body.status == 403


def test_the_stores_are_listed_with_their_serdes(scene):
    _, found, _ = scene.get("/stores")
    assert found == {
        "stores": [
            {"name": "counts", "key_serde": "string", "msg_serde": "json", "text_keys": True},
            {"name": "numbers", "key_serde": "long", "msg_serde": "json", "text_keys": False},
        ],
        "partitions": [0, 1, 2, 3],
    }


def test_an_owner_that_is_not_there_is_503_with_a_time_to_ask_again(empty):
    status, found, headers = empty.get("/stores/counts/a")
    assert (status, headers["retry-after"]) == (503, "1")
    assert found["error"] == "store 'counts': its container is starting or moving; ask again"
    first = empty.container("0", {"counts": {0: engine_with({b"a": b"1"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts/a")[0] == 503, "container 1 may have it, too"
    assert empty.get("/stores/counts/a", partition=0)[0] == 200
    first.stores.withdraw()
    assert empty.get("/stores/counts/a", partition=0)[0] == 503


def test_a_successor_answers_and_the_attempt_before_it_does_not(empty):
    old = empty.container("0", {"counts": {0: engine_with({b"a": b"1"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts/a", partition=0)[1]["value"] == 1
    register = CoordinatorClient(empty.service.url, TOKEN)
    register.register("0")
    assert empty.get("/stores/counts/a", partition=0)[0] == 503
    with pytest.raises(TaskMigrated, match="a newer attempt runs this container"):
        old.source.exchange([])
    register.close()
    empty.container("0", {"counts": {0: engine_with({b"a": b"2"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts/a", partition=0)[1]["value"] == 2


def test_a_container_that_does_not_answer_in_time_is_503(empty):
    client = CoordinatorClient(empty.service.url, TOKEN)
    lease, _ = client.register("0")
    assert empty.exchange.take("0", lease.epoch) == []
    status, found, _ = empty.get("/stores/counts/a", partition=0)
    assert (status, found["error"]) == (
        503,
        "store 'counts': container 0 has not answered for 0.3 s (job.query.timeout.ms); ask again",
    )
    client.close()


def test_a_container_whose_connection_ends_is_moving_at_once(empty):
    client = CoordinatorClient(empty.service.url, TOKEN)
    lease, _ = client.register("0")
    source = HttpQuestions(client, "0", lambda: lease.epoch)
    pool = urllib3.HTTPConnectionPool("127.0.0.1", int(empty.service.url.rpartition(":")[2]), retries=False)
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        pool.urlopen(
            "POST",
            "/containers/0/questions",
            body=b"\x92" + (b"\xcf" + lease.epoch.to_bytes(8, "big")) + b"\x90",
            headers={"authorization": f"Bearer {TOKEN}", "host": empty.service.url.removeprefix("http://")},
            timeout=0.2,
        )
    until(lambda: "0" not in empty.exchange._desks, "the container has not left")
    assert empty.get("/stores/counts/a", partition=0)[0] == 503
    del source
    client.close()


def test_a_container_waits_for_questions_longer_than_for_a_connection(empty, monkeypatch):
    monkeypatch.setattr(queries_module, "WAIT_S", CONNECT_S + 0.5)
    client = CoordinatorClient(empty.service.url, TOKEN)
    lease, _ = client.register("0")
    assert HttpQuestions(client, "0", lambda: lease.epoch).exchange([]) == []
    assert "0" in empty.exchange._desks, "it has not left"
    client.close()


def test_a_standby_answers_for_an_owner_that_moves_if_it_is_asked_to(empty):
    copies = {"counts": {1: engine_with({b"b": b"2"}, 1, 5), 3: engine_with({}, 3, 6)}}
    empty.container("1-1", copies, end=10)
    assert empty.get("/stores/counts/b", partition=1)[0] == 503
    status, found, headers = empty.get("/stores/counts/b", partition=1, standby="true")
    assert (status, found["value"], found["as_of"], headers["samzapy-standby-lag"]) == (200, 2, 5, "4")
    empty.container("1", {"counts": {1: engine_with({b"b": b"3"}, 1, 9), 3: engine_with({}, 3, 9)}})
    status, found, headers = empty.get("/stores/counts/b", partition=1, standby="true")
    assert (status, found["value"], "samzapy-standby-lag" in headers) == (200, 3, False)


def test_an_entry_that_cannot_be_shown_is_409(empty):
    broken = engine_with({b"a": b"{"}, 0)
    empty.container("0", {"counts": {0: broken, 2: engine_with({}, 2)}})
    status, found, _ = empty.get("/stores/counts/a", partition=0)
    assert (status, found["error"].startswith("store 'counts': the value of a key cannot be read")) == (409, True)
    broken.close()
    assert empty.get("/stores/counts/a", partition=0)[0] == 409


def test_a_job_without_queries_says_how_to_turn_them_on():
    made = Scene({key: value for key, value in FLAT.items() if not key.startswith("job.query")})
    try:
        for path in ("/stores", "/stores/counts", "/stores/counts/a"):
            assert made.get(path)[:2] == (
                404,
                {"error": "queries are off: job.query.enabled=true lets a job answer them"},
            )
    finally:
        made.close()


@pytest.mark.parametrize(("path", "body", "status"), [
    ("/containers/0/questions", b"no", 400),
    ("/containers/9/questions", b"\x92\x01\x90", 404),
])  # fmt: skip
def test_a_container_that_asks_wrongly_is_refused(empty, path, body, status):
    answer = urllib3.request(
        "POST",
        empty.service.url + path,
        body=body,
        headers={"authorization": f"Bearer {TOKEN}"},
        retries=False,
    )
    assert answer.status == status


def test_a_coordinator_that_answers_something_else_is_asked_again(empty, monkeypatch):
    client = CoordinatorClient(empty.service.url, TOKEN)
    monkeypatch.setattr(client, "questions", lambda *_: b"<html>")
    with pytest.raises(RetriableError, match="sent an unreadable answer to /containers/0/questions"):
        HttpQuestions(client, "0", lambda: 1).exchange([])
    client.close()


def test_keyed_stores_are_asked_of_one_task(empty):
    made = Scene({**FLAT, "job.query.keyed.stores": "counts"})
    try:
        made.container("0", {"counts": {0: engine_with({}, 0), 2: engine_with({}, 2)}})
        found = {made.get(f"/stores/counts/key-{n}")[0] for n in range(8)}
        assert found == {404, 503}, "only the keys of container 1 have to wait for it"
    finally:
        made.close()


def test_with_tls_containers_and_clients_ask_the_certificate_that_they_know():
    identity = made_for("127.0.0.1", datetime.now(timezone.utc))
    made = Scene(FLAT, Addresses(identity=identity))
    try:
        made.container("0", {"counts": {0: engine_with({b"a": b"1"}, 0), 2: engine_with({}, 2)}})
        with samzapy.query(FLAT, made.service.pinned_page, deadline_s=10) as job:
            assert job.store("counts").get("a", partition=0) == 1
        other = made_for("127.0.0.1", datetime.now(timezone.utc)).fingerprint
        for address in (f"{made.service.page}#{other}", made.service.page):
            with (
                samzapy.query(FLAT, address, deadline_s=0) as job,
                pytest.raises(RetriableError, match="does not answer \\(SSLError\\)"),
            ):
                job.store("counts").get("a", partition=0)
    finally:
        made.close()
