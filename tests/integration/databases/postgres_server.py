"""A real PostgreSQL of this test run: Debian's package, in a temporary folder, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest

_PAUSE = threading.Event()
_IS_ROOT = os.geteuid() == 0


class PostgresServer:
    """Starts and stops one cluster, without fsync. PostgreSQL refuses to run as root: then it runs as `postgres`."""

    def __init__(self) -> None:
        self._bin = _binaries()
        # Not below pytest's folder, which only its owner can enter.
        self._folder = Path(tempfile.mkdtemp(prefix="samzapy-pg-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._as_user = ["setpriv", "--pdeathsig", "INT"]
        if _IS_ROOT:
            shutil.chown(self._folder, "postgres", "postgres")
            self._as_user += ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        self._process: subprocess.Popen[bytes] | None = None
        initdb = [str(self._bin / "initdb"), "-D", str(self._folder / "data"), "-U", "samzapy", "-A", "trust"]
        self._run([*initdb, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"])

    def dsn(self, database: str = "postgres") -> str:
        """A connection string."""
        return f"host=127.0.0.1 port={self._port} user=samzapy dbname={database}"

    def start(self) -> None:
        """Returns when the server takes connections."""
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}", "fsync=off"]
        command = [str(self._bin / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user, *command, *(part for each in settings for part in ("-c", each))],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        for _ in range(300):
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                _PAUSE.wait(0.1)
            else:
                return
        raise AssertionError(f"PostgreSQL does not answer: {(self._folder / 'log').read_text()}")

    def crash(self) -> None:
        """Stop at once: every session is cut off, and the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._process is not None:
            self._end(signal.SIGINT)
        shutil.rmtree(self._folder)

    def create_database(self, name: str) -> str:
        """A new, empty database; returns its connection string."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.dsn(name)

    def _run(self, command: list[str]) -> None:
        done = subprocess.run([*self._as_user, *command], capture_output=True, text=True, cwd=self._folder, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _end(self, by: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        self._process.wait(60)
        self._process = None


def _binaries() -> Path:
    found = _installed()
    if found is None and _IS_ROOT and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"]
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=False, timeout=150)
        found = _installed()
    if found is None:
        pytest.fail("no PostgreSQL server here; install it: apt-get install postgresql", pytrace=False)
    return found


def _installed() -> Path | None:
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if folders:
        return max(folders, key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None
