"""The JVM of a Spark driver, and the folder of a run with one: the settings of its log and of Spark, its SPARK_HOME.

pyspark can start the JVM itself, but it waits for it without a limit, for ever if the JVM ends with code 0, and runs
Python between fork and exec, which may hang in a process with threads. So samzapy starts the program and hands pyspark
the address."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import javaproperties
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from samzapy.errors import EnvironmentFailure
from samzapy.java import installed_spark
from samzapy.runner.spark.master import default_settings

#: Seconds in which the JVM has to end after its standard input is closed.
GRACE_S = 10.0
#: A line of the client of a standalone master. It is the only place where Spark says why an executor did not start.
_CLIENT = re.compile(
    r"\S+ [A-Z]+ StandaloneAppClient\$ClientEndpoint: (?:Executor updated: \S+ is now "
    r"(?P<end>EXITED|FAILED|LOST)(?P<why>.*))?"
)
#: Seconds between two checks of a JVM that starts.
_PACE_S = 0.05


class DriverJvm:
    """One JVM with its gateway. Its output is held back until `settled`, and then goes to standard error: Spark itself
    is silent by then, so the lines come from the tasks' prints."""

    def __init__(self, *, verbose: bool, began: Callable[[DriverJvm], object] = lambda _: None) -> None:
        """Start the JVM with the present environment (`samzapy.runner.spark.master.environment`). `began` gets the JVM
        as soon as its process runs, so that it can be killed before it answers. Raises EnvironmentFailure."""
        self._lines: deque[str] = deque(maxlen=200)
        self._verbose = self._pass_on = verbose
        #: The end of the last executor that a standalone master has ended; empty for none.
        self.executor_end = ""
        # Removed only when the JVM has written its address, or has ended: without the folder it would go on for ever. A
        # process that ends before leaves the folder behind.
        folder = tempfile.mkdtemp(prefix="samzapy-gateway-")
        try:
            address = Path(folder) / "address"
            self._process = self._launched(address)
            began(self)
            self.gateway: Any = self._connected(address)
        except (Py4JError, PySparkException, OSError) as cause:
            self._end()
            self._reader.join(GRACE_S)
            raise EnvironmentFailure(f"Spark's driver JVM did not start: {self.last_line}") from cause
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def last_line(self) -> str:
        """The last line of its output that is neither empty nor a part of a stack, which is indented."""
        return next((line for line in reversed(list(self._lines)) if line[:1].strip()), "nothing on its output")

    def settled(self) -> None:
        """Spark has started: show the output from now on."""
        self._pass_on = True

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End the JVM and wait for it. Another one can then be started in this process."""
        try:
            self.gateway.shutdown()
        finally:
            self._end()
            # pyspark remembers its gateway for the life of the process.
            if SparkContext._gateway is self.gateway:  # noqa: SLF001
                SparkContext._gateway = None  # noqa: SLF001
                SparkContext._jvm = None  # noqa: SLF001

    def _launched(self, address: Path) -> subprocess.Popen[bytes]:
        """The process that will write its port and its secret to the file `address`."""
        program = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-submit"
        command = [str(program), *shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])]
        variables = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
        read, write = os.pipe()
        try:
            # The JVM ends when its standard input does. A separate process group: the driver handles a Ctrl-C of the
            # terminal, through the coordinator.
            process = subprocess.Popen(  # Spark's own program
                command, stdin=subprocess.PIPE, stdout=write, stderr=write, env=variables, start_new_session=True
            )
        except OSError as cause:
            os.close(read)
            raise EnvironmentFailure(f"Spark's driver JVM did not start: {cause}") from cause
        finally:
            os.close(write)
        self._reader = threading.Thread(target=self._forward, args=(read,), name="spark-output", daemon=True)
        self._reader.start()
        return process

    def _connected(self, address: Path) -> Any:
        """The gateway to the JVM, once the JVM has written its address. Raises OSError if it ends before."""
        while not address.is_file():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PACE_S)
                if not address.is_file():
                    raise OSError(f"it ended with code {self._process.returncode}")
        with address.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)
        given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(given)
        try:
            return patient(launch_gateway())
        finally:
            for name in given:
                del os.environ[name]

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _forward(self, read: int) -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                client = _CLIENT.match(line)
                if client is not None and client["end"]:
                    self.executor_end = f"{client['end'].lower()}{client['why']}"
                if client is None:
                    self._lines.append(line.rstrip())
                if self._pass_on and (client is None or self._verbose):
                    # Without a reader there, this thread still has to empty the JVM's pipe.
                    with suppress(OSError, ValueError):
                        sys.stderr.write(line)


def patient(gateway: Any) -> Any:
    """The gateway; its calls by this thread take the time they need, also if the user's code limits all sockets."""
    connection = gateway._gateway_client.get_thread_connection()  # noqa: SLF001  # not offered
    if connection is not None:
        connection.socket.settimeout(None)
    return gateway


_QUIET = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{short}}
logger.client.name = org.apache.spark.deploy.client
logger.client.level = info
"""


def log_settings(folder: Path, *, verbose: bool) -> Path:
    """Log4j's settings for the driver's JVM, in a file there: no log, or Spark's default log."""
    path = folder / "log4j2.properties"
    path.write_text(_QUIET.format(level="info" if verbose else "off"))
    return path


def spark_properties(folder: Path, settings: Mapping[str, str], home: Path) -> Path:
    """A file there with the settings, and with the defaults of that SPARK_HOME for all others.

    Only this user can read it, while every user of the machine can read a command line. Given such a file, Spark 3.5
    ignores its defaults, and Spark 4 reads them only with an option that Spark 3.5 does not know. Raises
    EnvironmentFailure.
    """
    path = folder / "spark.properties"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        javaproperties.dump({**default_settings(home), **settings}, file, timestamp=False)
    return path


def spark_home(folder: Path, *, on_this_machine: bool) -> Path:
    """`SPARK_HOME` if it is set, else a folder there of links into the installed pyspark.

    On this machine it lacks `python/lib/pyspark.zip`, which Spark would import in place of the installed pyspark: every
    process compiles the modules of a zip again (measured on two busy cores: a first worker is ready after 1.0 s instead
    of 3.0 s, a later one after 0.6 s instead of 1.5 s).
    """
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    home = folder / "home"
    home.mkdir()
    left_out = {"work", "python"} if on_this_machine else {"work"}
    for entry in installed_spark().package.iterdir():
        if entry.name not in left_out:
            (home / entry.name).symlink_to(entry)
    return home
