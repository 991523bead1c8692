"""A real Kafka on this machine: one node, loopback only, its data in one folder.

A file in the folder names the process that serves it. The probe sends one request of Kafka's protocol by hand, because
a client would connect and retry in the background.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

import psutil

from samzapy.clock import SYSTEM_CLOCK, Clock, process_start
from samzapy.devkafka.runtime import (
    DATA,
    Listener,
    chosen_version,
    kafka_class_path,
    locked,
    new_cluster_id,
    server_properties,
)
from samzapy.errors import EnvironmentFailure
from samzapy.java import KAFKA, find_java

#: Full speed matters less than a quick start here: the first compiler tier starts in about half the time.
JVM_OPTIONS = (
    "-Xms256m",
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)

_FILE, _SETTINGS = "broker.json", "server.properties"


class RunningBroker(NamedTuple):
    """A broker's process, and Kafka's version. Its start distinguishes it from a later process with the same pid:
    `born`, in ticks since the boot of the machine, or `created`, in seconds since 1970, where the system has no
    ticks."""

    pid: int
    created: float
    port: int
    version: str
    born: int

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for its clients."""
        return f"127.0.0.1:{self.port}"

    def process(self) -> psutil.Process | None:
        """None if it has ended."""
        return living_process(self.pid, self.born, self.created)


def remember(folder: Path, pid: int, port: int, version: str) -> RunningBroker:
    """Record that `pid` serves the folder, in one atomic write."""
    running = RunningBroker(pid, psutil.Process(pid).create_time(), port, version, process_start(pid))
    new = folder / f"{_FILE}.tmp"
    new.write_text(json.dumps(running._asdict()))
    new.replace(folder / _FILE)
    return running


def running_broker(folder: Path) -> RunningBroker | None:
    """The broker that serves the folder now; None if it has ended, even if its file is still there. Raises
    EnvironmentFailure if the file cannot be read."""
    result = _remembered(folder)
    return result if result is not None and result.process() is not None else None


def last_port(folder: Path) -> int | None:
    """The port of the folder's last broker, running or not."""
    result = _remembered(folder)
    return None if result is None else result.port


def living_process(pid: int, born: int, created: float) -> psutil.Process | None:
    """The process that began at that time; None if it has ended. `born`: in ticks since the boot, 0 where the kernel
    does not say; `created`: in seconds since 1970, of a clock that may be set."""
    with suppress(psutil.Error):
        result = psutil.Process(pid)
        same = process_start(pid) == born if born else result.create_time() == created
        if same and result.status() != psutil.STATUS_ZOMBIE:
            return result
    return None


def _remembered(folder: Path) -> RunningBroker | None:
    try:
        return RunningBroker(**json.loads((folder / _FILE).read_text()))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None
    except OSError as cause:
        raise EnvironmentFailure(f"{folder / _FILE}: the broker's file cannot be read ({cause.strerror})") from cause


HOST = "127.0.0.1"

#: Metadata, version 1, correlation id 1, client id "probe", of no topics.
_METADATA = struct.pack(">hhih5si", 3, 1, 1, 5, b"probe", 0)


def answers(port: int, timeout_s: float = 1.0) -> bool:
    """Whether the broker on that port of this machine is up and counts itself as ready for clients."""
    try:
        with socket.create_connection((HOST, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(_METADATA)) + _METADATA)
            head = _read(connection, 12)
    except OSError:
        return False
    # Size, correlation id, number of brokers.
    return len(head) == 12 and struct.unpack(">iii", head)[2] > 0


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
            attempt.listen()
        except OSError:
            return False
        return True


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            break
        data += more
    return data


#: Of `samzapy kafka start`.
BROKER_FOLDER, BROKER_PORT = Path(".samzapy/kafka"), 9092


def development_broker() -> str:
    """The address of this folder's development broker, else of one on the default port. Raises EnvironmentFailure if
    neither answers."""
    running = running_broker(BROKER_FOLDER)
    if running is not None:
        return running.bootstrap
    if answers(BROKER_PORT):
        return f"{HOST}:{BROKER_PORT}"
    raise EnvironmentFailure(
        f"kafka: no broker runs in {BROKER_FOLDER}, and none answers at {HOST}:{BROKER_PORT}: start one with "
        "`samzapy kafka start`, or name another with --bootstrap or --job"
    )


#: A start renames a larger log to `broker.log.1`.
LOG_BYTES = 10_485_760

_LONGEST_START_S = 90.0
_LONGEST_STOP_S = 30.0
_POLL_S = 0.05


class DevBroker:
    """The broker of `folder`; several objects, in several processes, may stand for the same one.

    `port` 0 means the folder's last port, or a free one. A broker outlives its starter unless it is `tied` to it.
    `listeners` are addresses besides `port`; `properties` are further lines of `server.properties`. A node of a larger
    cluster gets the `cluster_id` that all its nodes share. `version` is Kafka's, as `chosen_version` reads it; data
    that a newer version has written are not for an older one.
    """

    jvm_options: ClassVar[tuple[str, ...]] = JVM_OPTIONS

    def __init__(  # addresses and settings
        self,
        folder: Path,
        port: int = 0,
        *,
        tied: bool = False,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        version: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._folder = folder.absolute()
        self._port = port
        self._tied = tied
        self._listeners = tuple(listeners)
        self._properties = dict(properties or {})
        self._cluster_id = cluster_id
        self._version = version
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> DevBroker:  # noqa: PYI034  typing.Self is newer than Python 3.10
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def running(self) -> RunningBroker | None:
        """The process, port and bootstrap string; None if no broker serves the folder. Raises EnvironmentFailure if the
        folder cannot be read."""
        return running_broker(self._folder)

    @property
    def log(self) -> Path:
        """The broker's warnings and errors; the file before it is `broker.log.1`."""
        return self._folder / "broker.log"

    def start(self) -> str:
        """Start it unless it runs, wait until it answers, and return its bootstrap string.

        Raises EnvironmentFailure without Java 17+, if the port is taken, if the folder cannot be written to, or if the
        broker does not come up. A folder that it makes is for this user only; one that is there keeps its rights.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self._folder):
                running = self.running
                if running is None:
                    running = self._launch()
                else:
                    self._refuse_another(running)
                self._wait_until_it_answers(running)
                return running.bootstrap
        except OSError as cause:
            place = cause.filename or self._folder
            raise EnvironmentFailure(
                f"{place}: Kafka cannot be started in {self._folder} ({cause.strerror})"
            ) from cause

    def stop(self) -> bool:
        """Stop it in good order, within 30 s; False if it did not run. Raises EnvironmentFailure without permission."""
        return self._end(signal.SIGTERM)

    def kill(self) -> bool:
        """Stop it as a crash would; False if it did not run. Raises like `stop`."""
        return self._end(signal.SIGKILL)

    def restart(self) -> str:
        """Stop and start on the same port with the same data."""
        self.stop()
        return self.start()

    def _refuse_another(self, running: RunningBroker) -> None:
        """Raise EnvironmentFailure if the running broker is not the requested one."""
        if self._port not in {0, running.port}:
            raise EnvironmentFailure(
                f"port {self._port}: the broker of {self._folder} runs on {running.bootstrap} already"
            )
        if self._version is not None and chosen_version(self._version) != running.version:
            raise EnvironmentFailure(
                f"Kafka {self._version}: the broker of {self._folder} runs with version {running.version} "
                "already; stop it first, or use another folder"
            )

    def _launch(self) -> RunningBroker:
        port = self._port or last_port(self._folder) or free_port()
        if not is_free(port):
            raise EnvironmentFailure(f"port {port}: something else listens on 127.0.0.1:{port}; choose another port")
        version = chosen_version(self._version)
        java = [str(find_java(KAFKA).command), *self.jvm_options, "-cp", kafka_class_path(version)]
        text = server_properties(port, free_port(), self._listeners, self._properties)
        (self._folder / _SETTINGS).write_text(text, encoding="ascii")
        if not (self._folder / DATA / "meta.properties").is_file():
            self._format(java)
        if self.log.is_file() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name("broker.log.1"))
        # A separate session: otherwise a Ctrl-C for the job in the same terminal would also end the broker.
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [*self._tie(), *java, "kafka.Kafka", _SETTINGS],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            return remember(self._folder, self._child.pid, port, version)
        except BaseException:
            # Without a record, no `stop` finds this broker, and it keeps the port.
            self._child.kill()
            self._child.wait()
            raise

    def _tie(self) -> list[str]:
        tie = shutil.which("setpriv") if self._tied else None
        return [tie, "--pdeathsig", "KILL"] if tie else []

    def _format(self, java: list[str]) -> None:
        cluster_id = self._cluster_id or new_cluster_id()
        command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", _SETTINGS]
        try:
            done = subprocess.run(
                command, cwd=self._folder, capture_output=True, text=True, timeout=_LONGEST_START_S, check=False
            )
        except subprocess.TimeoutExpired as cause:
            raise EnvironmentFailure(
                f"{self._folder / DATA}: cannot be formatted for Kafka within {_LONGEST_START_S:.0f} s"
            ) from cause
        if done.returncode:
            # Stack frames are indented; the reason is not.
            said = [line for line in (done.stderr or done.stdout).splitlines() if line and not line[0].isspace()]
            reason = said[-1] if said else f"exit code {done.returncode}"
            raise EnvironmentFailure(f"{self._folder / DATA}: cannot be formatted for Kafka: {reason}")

    def _wait_until_it_answers(self, running: RunningBroker) -> None:
        deadline = self._clock.monotonic() + _LONGEST_START_S
        while not answers(running.port):
            if running.process() is None:
                raise EnvironmentFailure(f"Kafka on {running.bootstrap} ended while it started, see {self.log}")
            if self._clock.monotonic() > deadline:
                waited = f"{_LONGEST_START_S:.0f} s"
                raise EnvironmentFailure(f"Kafka on {running.bootstrap} does not answer after {waited}, see {self.log}")
            time.sleep(_POLL_S)

    def _end(self, how: signal.Signals) -> bool:
        try:
            if not self._folder.is_dir():
                return False
            with locked(self._folder):
                running = self.running
                process = None if running is None else running.process()
                if process is None:
                    return False
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(how)
                self._wait_until_it_has_ended(process)
                return True
        except psutil.AccessDenied as cause:
            reason = f"process {cause.pid} is another user's"
            raise EnvironmentFailure(f"{self._folder}: its broker cannot be stopped ({reason})") from cause
        except OSError as cause:
            place = cause.filename or self._folder
            raise EnvironmentFailure(
                f"{place}: the broker of {self._folder} cannot be stopped ({cause.strerror})"
            ) from cause

    def _wait_until_it_has_ended(self, process: psutil.Process) -> None:
        try:
            if self._child is not None and self._child.pid == process.pid:
                self._child.wait(_LONGEST_STOP_S)
            else:
                process.wait(_LONGEST_STOP_S)
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            process.kill()
            process.wait(_LONGEST_STOP_S)
