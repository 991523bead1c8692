"""A connection answers requests that repeat at once, and never takes another request for one of them."""

import socket
import threading

import pytest
import uvicorn

from samzapy.coordinator.web import admission as admission_module
from samzapy.coordinator.web.access import TRUST
from samzapy.coordinator.web.admission import Admission
from samzapy.coordinator.web.connection import REPEAT, connections
from samzapy.coordinator.web.server import WatchedServer

HEAD = b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nx-key: 1\r\n\r\n"


class Echo:
    """Answers with the path and the body. Notes the paths of requests that came the whole way."""

    def __init__(self):
        self.whole_way = []

    async def __call__(self, scope, receive, send):
        self.whole_way.append(scope["path"])
        scope[TRUST]()
        scope[REPEAT](lambda body: (200, b"%s:%s" % (scope["path"].encode(), body)))
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        answer = b"%s:%s" % (scope["path"].encode(), body)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class Rig:
    def __init__(self):
        self.echo = Echo()
        self._listening = socket.create_server(("127.0.0.1", 0))
        admission = Admission(strangers=256)
        settings = uvicorn.Config(self.echo, log_config=None, lifespan="off", http=connections(admission))
        self._server = WatchedServer(settings, admission)
        self._thread = threading.Thread(target=self._server.run, args=([self._listening],))
        self._thread.start()

    def connect(self):
        return Caller(socket.create_connection(self._listening.getsockname(), timeout=60))

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()


class Caller:
    """Sends bytes, and reads answers one by one."""

    def __init__(self, connection):
        self.connection = connection
        self._read = connection.makefile("rb")

    def send(self, data):
        self.connection.sendall(data)

    def post(self, body, head=HEAD):
        self.send(head % len(body) + body)
        return self.answer()[1]

    def answer(self):
        head = b"".join(iter(self._read.readline, b"\r\n"))
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, self._read.read(length)

    def is_closed(self):
        try:
            return self._read.read(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self._read.close()
        self.connection.close()


@pytest.fixture
def rig():
    made = Rig()
    yield made
    made.close()


@pytest.fixture
def caller(rig):
    made = rig.connect()
    yield made
    made.close()


def test_a_request_that_repeats_is_answered_without_the_whole_way_whatever_its_body(rig, caller):
    bodies = [b"a", b"bc", b"", b"d" * 60_000, b'{"epoch": 1}']
    assert [caller.post(body) for body in bodies] == [b"/echo:" + body for body in bodies]
    assert rig.echo.whole_way == ["/echo"]


def test_both_ways_answer_with_the_same_head(caller):
    heads = []
    for _ in range(2):
        caller.send(HEAD % 1 + b"a")
        heads.append(sorted(line for line in caller.answer()[0].lower().splitlines() if not line.startswith(b"date")))
    assert heads[0] == heads[1]


@pytest.mark.parametrize(
    "other",
    [
        HEAD.replace(b"x-key: 1", b"x-key: 2"),
        HEAD.replace(b"/echo", b"/else"),
        HEAD.replace(b"Host: h", b"Host: g"),
        HEAD.replace(b"\r\n\r\n", b"\r\nextra: 1\r\n\r\n"),
        HEAD.replace(b"POST", b"PUT"),
    ],
)
def test_a_request_with_another_head_goes_the_whole_way(rig, caller, other):
    caller.post(b"a")
    before = len(rig.echo.whole_way)
    caller.post(b"b", other)
    assert len(rig.echo.whole_way) == before + 1
    assert caller.post(b"c") == b"/echo:c"
    assert len(rig.echo.whole_way) == before + 1


def test_what_one_connection_knows_holds_for_no_other(rig, caller):
    caller.post(b"a")
    stranger = rig.connect()
    stranger.post(b"b")
    stranger.close()
    assert rig.echo.whole_way == ["/echo", "/echo"]


def test_a_request_that_repeats_may_come_in_pieces(rig, caller):
    caller.post(b"a")
    for cut in (len(HEAD % 3), len(HEAD % 3) + 1):
        sent = HEAD % 3 + b"bcd"
        caller.send(sent[:cut])
        # A round trip on another connection: the piece has arrived by then.
        other = rig.connect()
        other.post(b"x")
        other.close()
        caller.send(sent[cut:])
        assert caller.answer()[1] == b"/echo:bcd"
    assert rig.echo.whole_way == ["/echo"] * 3


def test_requests_in_a_row_are_answered_in_their_order(caller):
    bodies = [b"%d" % number for number in range(20)]
    for _ in range(3):
        caller.send(b"".join(HEAD % len(body) + body for body in bodies))
        assert [caller.answer()[1] for _ in bodies] == [b"/echo:" + body for body in bodies]


def test_the_second_of_two_requests_in_a_row_is_not_taken_for_the_first(caller):
    other = HEAD.replace(b"/echo", b"/else")
    caller.send(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n" + other % 1 + b"a")
    assert [caller.answer()[1] for _ in range(2)] == [b"/first:", b"/else:a"]
    caller.send(HEAD % 1 + b"b" + other % 1 + b"c")
    assert [caller.answer()[1] for _ in range(2)] == [b"/echo:b", b"/else:c"]
    assert caller.post(b"d") == b"/echo:d"
    assert caller.post(b"e", other) == b"/else:e"


@pytest.mark.parametrize(
    "field", [b"Connection: keep-alive", b"Expect: 100-continue", b"Transfer-Encoding: chunked", b"Content-length: 1"]
)
def test_a_head_that_speaks_of_the_connection_or_twice_of_the_body_is_not_kept(rig, caller, field):
    body = b"1\r\na\r\n0\r\n\r\n" if b"chunked" in field else b"a"
    head = HEAD.replace(b"x-key: 1", field) % 1
    if b"chunked" in field:
        head = head.replace(b"Content-Length: 1\r\n", b"")
    for _ in range(2):
        caller.send(head + body)
        answer = caller.answer() if b"Expect" not in field else after_continue(caller)
        assert answer[1] == b"/echo:a"
    assert rig.echo.whole_way == ["/echo", "/echo"]


def after_continue(caller):
    """The answer; HTTP/1.1 100 Continue may be before it."""
    line = caller._read.peek(12)
    if line.startswith(b"HTTP/1.1 100"):
        while caller._read.readline() != b"\r\n":
            pass
    return caller.answer()


def test_a_body_that_does_not_come_ends_the_connection_though_its_head_is_known(monkeypatch, caller):
    monkeypatch.setattr(admission_module, "REQUEST_S", 0.1)
    caller.post(b"a")
    caller.post(b"b")
    caller.send(HEAD % 2 + b"c")
    assert caller.is_closed()
