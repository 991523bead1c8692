"""A standalone Spark on this machine, for development: a master and workers on loopback, from the classes of pyspark.

FOLDER/spark.json        the address, and the processes
FOLDER/master.log        Spark's log of the master
FOLDER/worker-N.log      and of each worker
FOLDER/worker-N/         the work folders of its executors
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from samzapy.clock import SYSTEM_CLOCK, process_start
from samzapy.devkafka.broker import is_free, living_process
from samzapy.devkafka.runtime import locked
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.java import SPARK, find_java, installed_spark

HOST, PORT = "127.0.0.1", 7077
MASTER = "master"
_START_S, _STOP_S, _POLL_S = 60.0, 20.0, 0.05
_SAYS = {"master.Master": "I have been elected leader", "worker.Worker": "Successfully registered with master"}


class Daemon(NamedTuple):
    """A process of the cluster. Its start distinguishes it from a later one with its pid; see `living_process`."""

    pid: int
    born: int
    created: float
    port: int = 0
    cores: int = 0

    def process(self) -> psutil.Process | None:
        """None if it has ended."""
        return living_process(self.pid, self.born, self.created)


def launch(
    role: str, host: str, arguments: Sequence[str], log: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start `master.Master` or `worker.Worker` of the installed Spark on that address, and wait until it is ready.

    `environ`: variables besides those of this process. Raises EnvironmentFailure without a Java for Spark, and if the
    process does not come up, which ends it.
    """
    java, links = find_java(SPARK), log.with_suffix(".java")
    shutil.rmtree(links, ignore_errors=True)
    if not java.complete:
        links.mkdir(mode=0o700)
    home = installed_spark().package
    variables = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m", **environ}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", host]
    with log.open("wb") as out:
        # A separate session: a Ctrl-C for the job in the same terminal is not for the cluster.
        started = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            cwd=log.parent,
            env={**os.environ, **java.environment(links), **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = SYSTEM_CLOCK.monotonic() + _START_S
    with ExitStack() as unfinished:
        # Nothing else knows the process: after a Ctrl-C it would keep the port.
        unfinished.callback(started.kill)
        while _SAYS[role] not in log.read_text("utf-8", "replace"):
            if started.poll() is not None or SYSTEM_CLOCK.monotonic() > deadline:
                raise EnvironmentFailure(f"Spark's {role.partition('.')[0]} did not start, see {log}")
            time.sleep(_POLL_S)
        unfinished.pop_all()
    return started


class StandaloneSpark:
    """The cluster of `folder`; several objects, in several processes, may stand for the same one. Its processes outlive
    the one that starts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def running(self) -> dict[str, Daemon]:
        """The processes that run now by name, the master first: `master`, `worker-1`. Raises EnvironmentFailure if the
        record cannot be read."""
        try:
            known = json.loads((self._folder / "spark.json").read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as cause:
            raise EnvironmentFailure(f"{self._folder / 'spark.json'}: cannot be read: {cause}") from cause
        daemons = {name: Daemon(**item) for name, item in known.items()}
        return {name: daemon for name, daemon in daemons.items() if daemon.process() is not None}

    def start(self, workers: int, cores: int, port: int = PORT) -> str:
        """Start the master, and `workers` workers of `cores` cores, unless they run; returns the master's address.

        Raises EnvironmentFailure like `launch`, and if something else listens on the port.
        """
        with self._locked():
            running = self.running()
            if MASTER not in running:
                if not is_free(port):
                    raise EnvironmentFailure(f"port {port}: something else listens on {HOST}:{port}; take another one")
                self._end(list(running))
                running = {}
                self._launch(running, MASTER, "master.Master", ["--port", str(port)], port=port)
            address = f"spark://{HOST}:{running[MASTER].port}"
            for name in (f"worker-{number}" for number in range(1, workers + 1)):
                if name not in running:
                    sizes = ["--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(self._folder / name)]
                    self._launch(running, name, "worker.Worker", [*sizes, address], cores=cores)
            return address

    def stop(self) -> bool:
        """End all of it, the workers first; False if nothing ran."""
        with self._locked():
            names = list(self.running())
            self._end(names[1:] + names[:1])
            return bool(names)

    def kill(self, name: str) -> None:
        """SIGKILL to a worker and everything that it runs, as the loss of its host. Raises ConfigError for a name that
        does not run."""
        running = self.running()
        process = running[name].process() if name in running else None
        if process is None:
            raise ConfigError.of("NAME", name, f"expected one of those that run: {', '.join(running) or 'none'}")
        with suppress(psutil.NoSuchProcess):
            lost = [process, *process.children(recursive=True)]
            for item in lost:
                with suppress(psutil.NoSuchProcess):
                    item.kill()
            psutil.wait_procs(lost, _STOP_S)

    def _launch(self, running: dict[str, Daemon], name: str, role: str, arguments: Sequence[str], **sizes: int) -> None:
        """Start a process, and add it to the record."""
        started = launch(role, HOST, arguments, self._folder / f"{name}.log", {})
        created = psutil.Process(started.pid).create_time()
        running[name] = Daemon(started.pid, process_start(started.pid), created, **sizes)
        new = self._folder / "spark.json.tmp"
        new.write_text(json.dumps({name: item._asdict() for name, item in running.items()}), "utf-8")
        new.replace(self._folder / "spark.json")

    def _end(self, names: Sequence[str]) -> None:
        running = self.running()
        for name in names:
            process = running[name].process()
            if process is not None:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGTERM)
                    _, alive = psutil.wait_procs([process], _STOP_S)
                    for item in alive:
                        item.kill()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Allow one start or stop at a time. Raises EnvironmentFailure for a folder that cannot be written to."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self._folder):
                yield
        except OSError as cause:
            place = cause.filename or self._folder
            raise EnvironmentFailure(f"{place}: cannot be used for a development Spark ({cause.strerror})") from cause
