"""A proxy between Kafka's clients and its broker that does to their connections what networks do.

What goes through is cut into Kafka's frames, so a fault can be aimed at one kind of request. Nothing is ever lost on
the way while a connection lives: what a closed gate holds back arrives late, as TCP's retransmissions would bring it,
also when the client has closed the connection meanwhile.
"""

import asyncio
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

HOST = "127.0.0.1"
_LONGEST_FRAME = 128 * 1024 * 1024


class Way(Enum):
    """A direction through the proxy."""

    REQUEST = "request"
    RESPONSE = "response"


class Api:
    """Kafka's numbers for the requests that faults are aimed at."""

    PRODUCE, FETCH, METADATA = 0, 1, 3
    INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN = 22, 24, 25
    END_TXN, TXN_OFFSET_COMMIT = 26, 28


class Hold:
    """Frames of one kind that wait until `release`; everything behind them on their connection waits, too."""

    def __init__(self, api_key, way, count):
        self.api_key = api_key
        self.way = way
        self.left = count
        self.seen = 0
        self.answered = threading.Event()
        self._arrived = threading.Condition()
        self._released = asyncio.Event()

    def wait(self, count=1, timeout_s=60.0):
        """Until `count` frames are held."""
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: self.seen >= count, timeout_s)
        assert arrived, f"{self.seen} of {count} frames of API key {self.api_key} came within {timeout_s:g} s"

    def wait_until_answered(self, timeout_s=60.0):
        """Until the broker has answered a request that was held, whether or not anybody still listens."""
        assert self.answered.wait(timeout_s), f"no answer to API key {self.api_key} within {timeout_s:g} s"

    def takes(self, api_key, way):
        """Whether this frame is to wait; counts it."""
        if self.left == 0 or api_key != self.api_key or way is not self.way:
            return False
        self.left -= 1
        with self._arrived:
            self.seen += 1
            self._arrived.notify_all()
        return True

    async def over(self):
        await self._released.wait()

    def open(self):
        """On the proxy's loop."""
        self.left = 0
        self._released.set()


@dataclass
class _Weather:
    """What the network is like now."""

    closed: set = field(default_factory=set)
    refusing: bool = False


class TcpProxy:
    """Listens on `port` of loopback and passes everything to `upstream_port`, on a thread of its own.

    Faults last until `heal`; they may be combined. `passed` counts frames by (API key, way).
    """

    def __init__(self, upstream_port, port=0):
        self.upstream_port = upstream_port
        self.passed = Counter()
        self.weather = _Weather()
        self.holds = []
        self.gates = {way: asyncio.Event() for way in Way}
        for gate in self.gates.values():
            gate.set()
        self._connections = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self._server = self._do(self._serve(port))
        self.port = self._server.sockets[0].getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Cut every connection and stop."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def heal(self):
        """Everything passes again; what was held back arrives now."""
        self._do(self._change(_Weather()))
        self._do(self._release(list(self.holds)))

    def black_hole(self):
        """Connections are accepted and read, and nothing comes out at either end."""
        self._do(self._change(_Weather(closed=set(Way))))

    def half_open(self, closed):
        """One direction is a black hole."""
        self._do(self._change(_Weather(closed={closed})))

    def refuse(self):
        """New connections are reset; the others live."""
        self._do(self._change(_Weather(refusing=True)))

    def reset(self):
        """Reset every connection there is (RST, not FIN); how many there were."""
        return self._do(self._reset())

    def cut(self, hold=None):
        """As `reset` for the clients alone: what they have sent still arrives; only where `hold` holds, if it is given.
        How many connections there were."""
        return self._do(self._cut(hold))

    def hold(self, api_key, way=Way.REQUEST, count=1):
        """Hold the next `count` frames of this kind until `release` or `heal`."""
        return self._do(self._hold(Hold(api_key, way, count)))

    def release(self, hold):
        """Let go what is held."""
        self._do(self._release([hold]))

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _serve(self, port):
        return await asyncio.start_server(self._accept, HOST, port)

    async def _accept(self, reader, writer):
        if self.weather.refusing:
            _abort(writer)
            return
        try:
            upstream = await asyncio.open_connection(HOST, self.upstream_port)
        except OSError:
            _abort(writer)
            return
        connection = _Connection(self, (reader, writer), upstream)
        self._connections.add(connection)
        try:
            await connection.run()
        except asyncio.CancelledError:
            # By `close`. A callback of asyncio's own would complain of it in Python 3.11.
            connection.reset()
        finally:
            self._connections.discard(connection)

    async def _change(self, weather):
        self.weather = weather
        for way, gate in self.gates.items():
            if way in weather.closed:
                gate.clear()
            else:
                gate.set()

    async def _reset(self):
        cut = list(self._connections)
        for connection in cut:
            connection.reset()
        return len(cut)

    async def _cut(self, hold):
        cut = [each for each in self._connections if hold is None or each.holds(hold)]
        for connection in cut:
            connection.cut()
        return len(cut)

    async def _hold(self, hold):
        self.holds.append(hold)
        return hold

    async def _release(self, holds):
        for hold in holds:
            hold.open()
            self.holds.remove(hold)

    async def _close(self):
        self._server.close()
        await self._reset()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Connection:
    """One client's connection and its own to the broker."""

    def __init__(self, proxy, client, upstream):
        self._proxy = proxy
        self._client_reader, self._client = client
        self._upstream_reader, self._upstream = upstream
        self._api_keys = {}
        self._held = {}
        self._settled = asyncio.Event()
        self._settled.set()

    async def run(self):
        """Until both directions have ended."""
        await asyncio.gather(
            self._pass(Way.REQUEST, self._client_reader, self._upstream),
            self._pass(Way.RESPONSE, self._upstream_reader, self._client),
        )

    def reset(self):
        """RST to both sides, whatever is under way."""
        _abort(self._client)
        _abort(self._upstream)

    def holds(self, hold):
        """Whether a frame of this connection waits."""
        return hold in self._held.values()

    def cut(self):
        """RST to the client alone."""
        _abort(self._client)

    async def _pass(self, way, reader, writer):
        frames = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(way, reader, frames))
        try:
            await self._write(way, writer, frames)
            if way is Way.REQUEST:
                await self._settled.wait()
        except OSError:
            # The receiver is gone. What the sender still says is read, since somebody may wait for it to be said.
            await reading
        finally:
            reading.cancel()
            if way is Way.RESPONSE:
                self._settled.set()
            with suppress(OSError, RuntimeError):
                writer.close()

    async def _read(self, way, reader, frames):
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readexactly(4)
                size = struct.unpack(">i", head)[0]
                assert 0 <= size <= _LONGEST_FRAME, f"a frame of {size} bytes is not Kafka's"
                frame = head + await reader.readexactly(size)
                frames.put_nowait((self._request_of(way, frame), frame))
        frames.put_nowait(None)

    def _request_of(self, way, frame):
        """(API key, correlation id); a response carries the latter only, so requests are remembered."""
        if way is Way.REQUEST:
            _, api_key, _, correlation = struct.unpack_from(">ihhi", frame)
            self._api_keys[correlation] = api_key
            return api_key, correlation
        correlation = struct.unpack_from(">ii", frame)[1]
        if correlation in self._held:
            self._held.pop(correlation).answered.set()
            self._settled.set()
        return self._api_keys.pop(correlation, None), correlation

    async def _write(self, way, writer, frames):
        while (due := await frames.get()) is not None:
            (api_key, correlation), frame = due
            for hold in list(self._proxy.holds):
                if hold.takes(api_key, way):
                    self._held[correlation] = hold
                    self._settled.clear()
                    await hold.over()
            await self._proxy.gates[way].wait()
            self._proxy.passed[api_key, way] += 1
            writer.write(frame)
            await writer.drain()


def _abort(writer):
    """Close with a reset instead of an end."""
    connection = writer.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
