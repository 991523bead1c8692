"""The driver's JVM: started quietly, its output kept for the failure message, ended for certain."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from samzapy.errors import EnvironmentFailure

JAVA_NEEDED = 17

#: Seconds the JVM gets to end by itself after its standard input was closed.
GRACE_S = 10.0


class DriverJvm:
    """One JVM with its gateway. Its output is held back until `settled`, then passed on to standard error: by then
    Spark itself is silent, so what comes is what the tasks print."""

    def __init__(self, settings: dict[str, str], *, verbose: bool) -> None:
        self._lines: deque[str] = deque(maxlen=200)
        self._pass_on = verbose
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        read, write = os.pipe()
        self._reader = threading.Thread(target=self._forward, args=(read,), name="spark-output", daemon=True)
        self._reader.start()
        try:
            # A group of its own: a Ctrl-C in the terminal is for us to pass on, by way of the coordinator.
            output: dict[str, Any] = {"stdout": write, "stderr": write, "start_new_session": True}
            self.gateway: Any = launch_gateway(conf, output)
        except (PySparkException, OSError) as cause:
            os.close(write)
            self._reader.join(GRACE_S)
            raise EnvironmentFailure(self._diagnosis()) from cause
        os.close(write)
        self._process: subprocess.Popen[bytes] = self.gateway.proc

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def settled(self) -> None:
        """Spark has started: let what comes now through."""
        self._pass_on = True

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it and wait; forget it, so that another can be started in this process."""
        try:
            self.gateway.shutdown()
        finally:
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            # pyspark remembers its gateway for the life of the process.
            SparkContext._gateway = None  # noqa: SLF001
            SparkContext._jvm = None  # noqa: SLF001

    def _forward(self, read: int) -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                self._lines.append(line.rstrip())
                if self._pass_on:
                    sys.stderr.write(line)

    def _diagnosis(self) -> str:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else shutil.which("java")
        if java is None or not Path(java).exists():
            return f"Spark 4 needs Java {JAVA_NEEDED}+, found none: install a JDK {JAVA_NEEDED} or set JAVA_HOME"
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
        version = re.search(r'version "(\d+)', told.stderr + told.stdout)
        if version is not None and int(version[1]) < JAVA_NEEDED:
            return f"Spark 4 needs Java {JAVA_NEEDED}+, found {version[1]} ({java})"
        said = next((line for line in reversed(self._lines) if line.strip()), "nothing on its output")
        return f"Spark's driver JVM did not start: {said}"
