"""The proxy does what it says, between loopback clients and a server that speaks Kafka's framing."""

import queue
import socket
import struct
import threading
from contextlib import closing

import pytest
from rigs.tcp_proxy import HOST, Api, TcpProxy, Way

SHORT_S, LONG_S = 0.2, 30.0


class EchoServer:
    """Answers every frame with its correlation id and its body; remembers the bodies in `heard`."""

    def __init__(self):
        self.heard = queue.Queue()
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection):
        with connection:
            try:
                while frame := read_frame(connection):
                    self.heard.put(frame[8:])
                    connection.sendall(struct.pack(">i", len(frame) - 4) + frame[4:])
            except OSError:
                return


class Client:
    """One connection through the proxy."""

    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port), LONG_S)
        self._correlation = 0

    def send(self, body, api_key=Api.PRODUCE):
        self._correlation += 1
        frame = struct.pack(">hhi", api_key, 1, self._correlation) + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, timeout_s=LONG_S):
        self.socket.settimeout(timeout_s)
        frame = read_frame(self.socket)
        return frame[4:] if frame else None

    def ask(self, body, api_key=Api.PRODUCE):
        self.send(body, api_key)
        return self.receive()

    def hears_nothing(self):
        try:
            return self.receive(SHORT_S) is None
        except TimeoutError:
            return True

    def close(self):
        self.socket.close()


def read_frame(connection):
    head = read(connection, 4)
    return read(connection, struct.unpack(">i", head)[0]) if head else b""


def read(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


@pytest.fixture
def server():
    with closing(EchoServer()) as running:
        yield running


@pytest.fixture
def proxy(server):
    with TcpProxy(server.port) as running:
        yield running


@pytest.fixture
def connect(proxy):
    made = []
    yield lambda: made.append(Client(proxy.port)) or made[-1]
    for client in made:
        client.close()


def test_a_black_hole_accepts_and_reads_and_delivers_when_it_has_healed(proxy, connect, server):
    old = connect()
    assert old.ask(b"before") == b"before"
    proxy.black_hole()
    new = connect()
    for client in (old, new):
        client.send(b"x" * 500_000)
        assert client.hears_nothing()
    assert server.heard.get(timeout=LONG_S) == b"before"
    assert server.heard.empty()
    proxy.heal()
    assert old.receive() == new.receive() == b"x" * 500_000


@pytest.mark.parametrize(("closed", "heard"), [(Way.REQUEST, False), (Way.RESPONSE, True)])
def test_a_half_open_connection_carries_one_direction(proxy, connect, server, closed, heard):
    client = connect()
    assert client.ask(b"before") == b"before"
    server.heard.get(timeout=LONG_S)
    proxy.half_open(closed)
    client.send(b"during")
    assert client.hears_nothing()
    if heard:
        assert server.heard.get(timeout=LONG_S) == b"during"
    else:
        assert server.heard.empty()
    proxy.heal()
    assert client.receive() == b"during"


def test_a_held_request_holds_what_is_behind_it_and_nothing_else(proxy, connect, server):
    held, other = connect(), connect()
    hold = proxy.hold(Api.END_TXN)
    held.send(b"end", Api.END_TXN)
    held.send(b"behind")
    hold.wait(timeout_s=LONG_S)
    assert other.ask(b"other", Api.END_TXN) == b"other"
    assert held.hears_nothing()
    assert server.heard.get(timeout=LONG_S) == b"other"
    proxy.release(hold)
    assert [held.receive(), held.receive()] == [b"end", b"behind"]


@pytest.mark.parametrize("cut", [False, True])
def test_a_request_arrives_late_although_its_client_has_gone(proxy, connect, server, cut):
    client = connect()
    hold = proxy.hold(Api.END_TXN)
    client.send(b"late", Api.END_TXN)
    hold.wait(timeout_s=LONG_S)
    if cut:
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.receive()
    else:
        client.close()
    assert connect().ask(b"next") == b"next"
    assert server.heard.get(timeout=LONG_S) == b"next"
    assert not hold.answered.is_set()
    proxy.release(hold)
    hold.wait_until_answered(LONG_S)
    assert server.heard.get(timeout=LONG_S) == b"late"
