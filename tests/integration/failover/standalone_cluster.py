"""A Spark of several hosts: a master, and on loopback addresses of their own workers with folders of their own."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from samzapy.devkafka.broker import free_port
from samzapy.runner.spark.standalone import launch
from samzapy.verify.processes import end, gone, resume, suspend, until, with_children

_MASTER_HOST = "127.0.0.1"


class StandaloneCluster:
    """Real processes, ended by their ids. Each host has one core, and its state below `state(host)`."""

    def __init__(self, folder: Path, hosts: list[str]) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen] = {}
        self._port = free_port()
        self.master = f"spark://{_MASTER_HOST}:{self._port}"
        self._start_master()
        for host in hosts:
            self.start_host(host)

    def restart_master(self) -> None:
        """Kill the master, and start one that knows nothing of the applications."""
        self.lose_host(_MASTER_HOST)
        self._start_master()

    def _start_master(self) -> None:
        self._launch(_MASTER_HOST, "master.Master", ["--port", str(self._port)])

    def state(self, host: str) -> Path:
        """The folder of the stores with a changelog on that host."""
        return self._folder / host / "state"

    def start_host(self, host: str) -> None:
        """A worker, and wait until the master knows it."""
        sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / host / "work")]
        self._launch(host, "worker.Worker", [*sizes, self.master])

    def lose_host(self, host: str) -> None:
        """SIGKILL to everything on it at once."""
        worker = self._running.pop(host)
        lost = with_children(worker.pid)
        end(lost)
        worker.wait()
        until(lambda: all(map(gone, lost)), f"something has outlived host {host}")

    def hang_host(self, host: str) -> Callable[[], None]:
        """SIGSTOP to everything on it; what it returns lets it go on."""
        stopped = with_children(self._running[host].pid)
        suspend(stopped)
        return lambda: resume(stopped)

    def close(self) -> None:
        """End whatever runs."""
        for host in list(self._running):
            self.lose_host(host)

    def _launch(self, host: str, role: str, arguments: list[str]) -> None:
        home = self._folder / host
        home.mkdir(parents=True, exist_ok=True)
        log = home / f"{role}-{len(list(home.glob('*.log')))}.log"
        self._running[host] = launch(role, host, arguments, log, {"LOGGED_STORE_BASE_DIR": str(self.state(host))})
