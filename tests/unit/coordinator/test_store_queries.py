"""Stores over HTTP: from a client through the driver to the ports of containers, and back. Engines are real."""

import base64
import json
import socket
from datetime import datetime, timezone
from urllib.parse import urlencode

import pytest
import urllib3
from jobs.query_job import QUERY_JOB, engine_with

import samzapy
from samzapy.admin.store_queries import JobInspector
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.coordinator import port, queries
from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.port import PortSettings, container_port
from samzapy.coordinator.queries import StoreQueries, store_texts
from samzapy.coordinator.server import made_for
from samzapy.coordinator.service import Addresses
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import RetriableError
from samzapy.job.lease import ContainerReport, HttpAddress
from samzapy.job.planner import ContainerModel, JobModel, TaskModel
from samzapy.metrics import Registry
from samzapy.queries.committed import CommittedStores, PublishedStore, Question
from samzapy.runner.driver import serve

TOKEN = "correct-horse"
TASKS = [TaskModel(f"Partition {n}", frozenset({SystemStreamPartition("m", "in", n)}), n) for n in range(4)]
MODEL = JobModel(
    (ContainerModel("0", (TASKS[0], TASKS[2])), ContainerModel("1", (TASKS[1], TASKS[3]))),
    (ContainerModel("1-1", (TASKS[1], TASKS[3])),),
)
FLAT = {
    **QUERY_JOB,
    "stores.numbers.factory": "inmemory",
    "stores.numbers.key.serde": "long",
    "stores.numbers.msg.serde": "json",
}


@pytest.fixture(scope="module", autouse=True)
def _limits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port, "QUESTION_S", 0.3)
        patch.setattr(queries, "PAGE_ENTRIES", 5)
        yield


class Container:
    """An attempt of one container with a port."""

    def __init__(self, scene, container_id, stores, end=None):
        address = scene.service.address
        self.client = CoordinatorClient(address.url, TOKEN, address.fingerprint)
        self.lease, spec = self.client.register(container_id)
        self.stores = CommittedStores()
        parts = (lambda: end,) if end is not None else ()
        self.stores.publish(
            {name: {p: PublishedStore(engine, *parts) for p, engine in by.items()} for name, by in stores.items()}
        )
        settings, model = PortSettings.facing(address, TOKEN), spec.model.container(container_id)
        self._port = container_port(settings, scene.config, model, self.lease, Registry(), self.stores)
        self._port.__enter__()
        self.lease.report(ContainerReport(container_id, self.lease.epoch, "running"))

    def close(self):
        self._port.__exit__(None, None, None)
        self.client.close()


class Scene:
    def __init__(self, flat, addresses=None):
        self.config = load_job(flat)
        self.coordinator = Coordinator("j", JobSpec(MODEL, flat), 15.0)
        self.service = serve(self.config, self.coordinator, TOKEN, addresses or Addresses())
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


def records(scene, **asked):
    answer = urllib3.request(
        "GET",
        f"{scene.service.url}/records?{urlencode(asked)}",
        headers={"authorization": f"Bearer {scene.service.tokens.read}"},
        retries=False,
        timeout=30,
    )
    return answer.json()


def test_the_page_looks_a_key_up_in_the_containers(scene):
    place = "store counts, partition 3, as of changelog offset 6"
    assert records(scene, store="counts", key="d") == {"records": [{"place": place, "key": "d", "value": '{"x":[1]}'}]}
    assert records(scene, store="counts", key="nothing") == {"records": []}
    assert records(scene, store="numbers", key="3")["records"][0]["place"].startswith("store numbers, partition 0")


def test_the_page_finds_keys_by_a_prefix_in_the_containers(scene):
    found = records(scene, store="counts", key="b", how="prefix")["records"]
    assert [(each["key"], each["value"]) for each in found] == [("b", "2"), ("both", "0"), ("both", "1")]
    refused = records(scene, store="numbers", key="3", how="prefix")["error"]
    assert refused == "prefix: needs a key serde that keeps prefixes (string, bytes), long does not"


def test_a_key_is_found_wherever_it_is_with_the_offset_that_it_is_as_of(scene):
    assert scene.get("/stores/counts", key="a")[:2] == (
        200,
        {"store": "counts", "key": "a", "value": 1, "partition": 0, "as_of": 17},
    )
    assert scene.get("/stores/counts", key="d")[1]["value"] == {"x": [1]}
    assert scene.get("/stores/counts", key="c")[1]["as_of"] is None
    status, found, _ = scene.get("/stores/counts", key="ü/x y")
    assert (status, found["key"], found["value"]) == (200, "ü/x y", 9)
    assert scene.get("/stores/numbers", key="3")[1]["value"] == 3, "JSON, for a serde of numbers"


def test_an_absent_key_and_an_unknown_store_are_not_found(scene):
    status, found, _ = scene.get("/stores/counts", key="zz")
    assert (status, found["as_of"]) == (404, {"0": 17, "1": 5, "2": None, "3": 6})
    status, found, _ = scene.get("/stores/nowhere", key="a")
    assert (status, found) == (404, {"error": "store 'nowhere': no such store; the job's stores are counts, numbers"})


def test_a_key_that_several_tasks_have_needs_a_partition(scene):
    status, found, _ = scene.get("/stores/counts", key="both")
    assert (status, found["error"]) == (409, "store 'counts': several tasks have this key; add partition= (0, 1)")
    assert [scene.get("/stores/counts", key="both", partition=n)[1]["value"] for n in (0, 1)] == [0, 1]


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


def test_a_store_without_order_is_read_whole_but_not_by_range_or_prefix(scene):
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


@pytest.mark.parametrize("query", ["key=%ff", "prefix=%c3", "from=%ff", "to=a%ff", "after=%ff"])
def test_a_parameter_that_is_not_utf8_is_refused(scene, query):
    status, found, _ = scene.get(f"/stores/counts?{query}")
    assert (status, found["error"].startswith("store 'counts': parameters: expected UTF-8")) == (400, True)


def test_stores_need_the_token_that_reads(scene):
    for path in ("/stores", "/stores/counts"):
        answer = urllib3.request("GET", scene.service.url + path, retries=False)
        assert answer.status == 403
    assert scene.get("/stores/counts", key="a", token=TOKEN)[0] == 200


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
    status, found, headers = empty.get("/stores/counts", key="a")
    assert (status, headers["retry-after"]) == (503, "1")
    assert found["error"] == "store 'counts': its container is starting or moving; ask again"
    first = empty.container("0", {"counts": {0: engine_with({b"a": b"1"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts", key="a")[0] == 503, "container 1 may have it, too"
    assert empty.get("/stores/counts", key="a", partition=0)[0] == 200
    first.stores.withdraw()
    assert empty.get("/stores/counts", key="a", partition=0)[0] == 503


def test_a_successor_answers_and_the_attempt_before_it_does_not(empty):
    empty.container("0", {"counts": {0: engine_with({b"a": b"1"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts", key="a", partition=0)[1]["value"] == 1
    register = CoordinatorClient(empty.service.url, TOKEN)
    register.register("0")
    assert empty.get("/stores/counts", key="a", partition=0)[0] == 503
    register.close()
    empty.container("0", {"counts": {0: engine_with({b"a": b"2"}, 0), 2: engine_with({}, 2)}})
    assert empty.get("/stores/counts", key="a", partition=0)[1]["value"] == 2


def test_a_container_that_does_not_answer_in_time_is_503(empty):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        epoch = empty.coordinator.register("0")
        port = HttpAddress(f"http://127.0.0.1:{silent.getsockname()[1]}")
        empty.coordinator.report(ContainerReport("0", epoch, "running", port=port))
        status, found, _ = empty.get("/stores/counts", key="a", partition=0)
    assert (status, found["error"]) == (503, "store 'counts': container 0 has not answered for 0.3 s; ask again")
    status, found, _ = empty.get("/stores/counts", key="a", partition=0)
    assert (status, "container 0 does not answer" in found["error"]) == (503, True)


def test_a_page_of_many_containers_is_not_a_page_of_each():
    keys = [b"%04d" % number for number in range(800)]
    texts = store_texts(load_job(FLAT))
    stores = []
    for number in range(40):
        stores.append(CommittedStores())
        stores[-1].publish({"counts": {number: PublishedStore(engine_with(dict.fromkeys(keys[number::40], b"1")))}})
    tasks = [TaskModel(str(number), frozenset(), number) for number in range(40)]
    model = JobModel(tuple(ContainerModel(task.name, (task,)) for task in tasks))
    sent = []

    def ask(container, question):
        answer = stores[int(container)].answer(question)
        sent.append(len(answer.entries))
        return answer

    queries = StoreQueries(ask, model, texts, JobInspector(load_job(FLAT)))
    question = Question("counts", None, None, 20, 1_000_000)
    answer = queries._answer(question, {})
    assert [each.key for each in answer.entries] == keys[:20]
    assert sum(sent) < 400, "the first containers send a page each, the others what has room in it"


def test_a_standby_answers_for_an_owner_that_moves_if_it_is_asked_to(empty):
    copies = {"counts": {1: engine_with({b"b": b"2"}, 1, 5), 3: engine_with({}, 3, 6)}}
    empty.container("1-1", copies, end=10)
    assert empty.get("/stores/counts", key="b", partition=1)[0] == 503
    status, found, headers = empty.get("/stores/counts", key="b", partition=1, standby="true")
    assert (status, found["value"], found["as_of"], headers["samzapy-standby-lag"]) == (200, 2, 5, "4")
    empty.container("1", {"counts": {1: engine_with({b"b": b"3"}, 1, 9), 3: engine_with({}, 3, 9)}})
    status, found, headers = empty.get("/stores/counts", key="b", partition=1, standby="true")
    assert (status, found["value"], "samzapy-standby-lag" in headers) == (200, 3, False)


def test_an_entry_that_cannot_be_shown_is_409(empty):
    broken = engine_with({b"a": b"{"}, 0)
    empty.container("0", {"counts": {0: broken, 2: engine_with({}, 2)}})
    status, found, _ = empty.get("/stores/counts", key="a", partition=0)
    assert (status, found["error"].startswith("store 'counts': the value of a key cannot be read")) == (409, True)
    broken.close()
    assert empty.get("/stores/counts", key="a", partition=0)[0] == 409


def test_a_job_without_queries_says_how_to_turn_them_on():
    made = Scene({key: value for key, value in FLAT.items() if not key.startswith("job.query")})
    try:
        for path in ("/stores", "/stores/counts"):
            assert made.get(path)[:2] == (
                404,
                {"error": "queries are off: job.query.enabled=true lets a job answer them"},
            )
    finally:
        made.close()


def test_with_tls_containers_and_clients_pin_the_certificate():
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
