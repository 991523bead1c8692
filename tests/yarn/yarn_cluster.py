"""A YARN of several hosts: a ResourceManager, and on loopback addresses of their own NodeManagers with folders of their
own.

Every daemon is a plain Java process of Hadoop's own jars, with a folder of settings. There is no HDFS: the file system
of all hosts is this machine's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import psutil

from samzapy.devkafka.broker import free_port
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java
from samzapy.verify.processes import command_line, end, gone, until

JARS = Path(__file__).parent / "hadoop" / "target" / "lib"
SPARK_JARS = Path(str(find_spec("pyspark").origin)).parent / "jars"  # type: ignore[union-attr]

_HERE = "127.0.0.1"
_START_S = 600.0
#: What a host offers. The memory is a number for the scheduler only: nothing is measured.
_MEMORY_MB, _CORES = 4096, 8
#: Milliseconds without a heartbeat after which the ResourceManager gives up a host; YARN's default is ten minutes.
_LOST_MS = 8_000

_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # The injector of the web pages makes classes at run time.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
#: What the JVMs of applications have in their command lines: an executor, and the master of an application, which in
#: cluster mode is the driver.
EXECUTOR, DRIVER = (
    "YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.deploy.yarn.(ExecutorLauncher|ApplicationMaster)",
)
#: The variable with the folder for the stores of a host.
_STATE = "LOGGED_STORE_BASE_DIR"
_CLASS = "org.apache.hadoop.yarn.server."
_RESOURCE_MANAGER = f"{_CLASS}resourcemanager.ResourceManager"
_NODE_MANAGER = f"{_CLASS}nodemanager.NodeManager"
_ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
_LOG = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


class YarnCluster:
    """Real processes, ended by their ids."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        """Nothing runs yet. `hosts`: the addresses of those that `make_whole` gives a NodeManager."""
        if not JARS.is_dir():
            raise EnvironmentFailure(
                f"{JARS}: no jars of YARN are there; `make test-yarn` fetches them (it needs Maven)"
            )
        self.folder, self.hosts = folder, tuple(hosts)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        ports = {each: free_port() for each in ("address", "scheduler", "resource-tracker", "admin", "webapp")}
        self._web = f"http://{_HERE}:{ports['webapp']}/ws/v1/cluster"
        self._excluded = folder / "excluded"
        self._excluded.touch()
        self._site = _site(ports, folder)
        self.conf = _settings(folder / "conf", self._site)
        """The folder for HADOOP_CONF_DIR of clients."""

    def make_whole(self) -> None:
        """Start what does not run, end what is left of earlier applications, and wait until the ResourceManager counts
        on one NodeManager of each host, and on no other, with nothing on it."""
        if not self._runs(_HERE):
            self.start_resource_manager()
        for each in self._applications():
            self._end(each)
        if excluded := self._excluded.read_text().split():
            self.decommission()
            for host in excluded:
                self.lose_host(host)
        for host in self.hosts:
            if not self._runs(host):
                end(self.of_host(host))
                self.start_host(host)
        until(lambda: self._nodes() == dict.fromkeys(self.hosts, 0), lambda: f"not whole: {self._nodes()}", _START_S)
        for host in self.hosts:
            end(each for each in self.of_host(host) if each.pid != self._running[host].pid)

    def start_resource_manager(self) -> None:
        """A ResourceManager, which knows what the one before has written down."""
        self._launch(_HERE, _RESOURCE_MANAGER, self.conf, "Transitioned to active state")

    def kill_resource_manager(self) -> None:
        """SIGKILL; everything else runs on."""
        manager = self._running.pop(_HERE)
        manager.kill()
        manager.wait()

    def start_host(self, host: str) -> None:
        """A NodeManager, and wait until the ResourceManager knows it."""
        home = self.folder / host
        own = {
            **self._site,
            **{f"yarn.nodemanager.{each}": f"{host}:0" for each in ("address", "localizer.address", "webapp.address")},
            "yarn.nodemanager.local-dirs": str(home / "local"),
            "yarn.nodemanager.log-dirs": str(home / "logs"),
        }
        self._launch(host, _NODE_MANAGER, _settings(home / "conf", own), "Registered with ResourceManager as")

    def state(self, host: str) -> Path:
        """The folder of the stores with a changelog on that host."""
        return self.folder / host / "state"

    def kill_node_manager(self, host: str) -> list[psutil.Process]:
        """SIGKILL to the NodeManager alone; returns what it has started, which runs on."""
        manager = self._running.pop(host)
        manager.kill()
        manager.wait()
        return self.of_host(host)

    def lose_host(self, host: str) -> None:
        """SIGKILL to everything on it at once."""
        daemon = self._running.pop(host)
        lost = self.of_host(host)
        end(lost)
        daemon.wait()
        until(lambda: all(map(gone, lost)), f"something has outlived host {host}")

    def of_host(self, host: str) -> list[psutil.Process]:
        """All processes of a host: its NodeManager, and what that has started, also after the end of its parent. They
        are known by a variable of theirs, which leads below this cluster's folder."""
        state = str(self.state(host))
        return [each for each in psutil.process_iter() if _variables(each).get(_STATE) == state and not gone(each)]

    def processes(self, role: str, *hosts: str) -> list[psutil.Process]:
        """The JVMs in that role on these hosts; without a host, on all."""
        return [each for each in self.everything(*hosts) if _is_java(each) and re.search(role, command_line(each))]

    def everything(self, *hosts: str) -> list[psutil.Process]:
        """All that the NodeManagers of these hosts have started; without a host, of all."""
        daemons = {each.pid for each in self._running.values()}
        return [each for host in hosts or self.hosts for each in self.of_host(host) if each.pid not in daemons]

    def decommission(self, *hosts: str) -> None:
        """Have the ResourceManager decommission only these hosts, when nothing runs there or after ten minutes."""
        self._excluded.write_text("".join(f"{host}\n" for host in hosts))
        java, classpath = str(find_java(SPARK).command), f"{self.conf}:{SPARK_JARS}/*"
        command = [java, "-cp", classpath, _ADMIN, "-refreshNodes", "-g", "600", "-server"]
        subprocess.run(command, timeout=_START_S, check=True)

    def _runs(self, host: str) -> bool:
        return host in self._running and self._running[host].poll() is None

    def _nodes(self) -> dict[str, int]:
        """The containers on each host that the ResourceManager counts on."""
        found = (self._ask("nodes")["nodes"] or {"node": []})["node"]
        running = [each for each in found if each["state"] == "RUNNING"]
        # A host that was started again is there twice until the ResourceManager has given up the NodeManager before.
        hosts = [each["id"].rpartition(":")[0] for each in running]
        return {
            host: each["numContainers"] for host, each in zip(hosts, running, strict=True) if hosts.count(host) == 1
        }

    def _applications(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = (self._ask("apps")["apps"] or {"app": []})["app"]
        return found

    def _ask(self, what: str) -> dict[str, Any]:
        with urlopen(f"{self._web}/{what}", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def application(self, name: str) -> Mapping[str, Any] | None:
        """The newest application of that name, as the ResourceManager describes it; None if there is none."""
        named = [each for each in self._applications() if each["name"] == name]
        return max(named, key=lambda each: each["startedTime"]) if named else None

    def attempts(self, name: str) -> int:
        """How often YARN has started the newest application of that name."""
        found = self.application(name)
        return 0 if found is None else len(self._ask(f"apps/{found['id']}/appattempts")["appAttempts"]["appAttempt"])

    def end_application(self, name: str) -> None:
        """Have YARN kill the applications of that name that still run."""
        for each in self._applications():
            if each["name"] == name:
                self._end(each)

    def _end(self, application: Mapping[str, Any]) -> None:
        if application["finalStatus"] == "UNDEFINED":
            text = json.dumps({"state": "KILLED"}).encode()
            address, kind = f"{self._web}/apps/{application['id']}/state", {"Content-Type": "application/json"}
            urlopen(Request(address, text, kind, method="PUT"), timeout=30).close()

    def logs(self, name: str) -> str:
        """The last lines of what the containers of the newest application of that name printed."""
        found = self.application(name)
        paths = [] if found is None else sorted(self.folder.glob(f"*/logs/{found['id']}/*/std*"))
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-4_000:]}" for path in paths)

    def close(self) -> None:
        """End whatever runs."""
        for host in list(self._running):
            self.lose_host(host)
        for host in self.hosts:
            end(self.of_host(host))

    def _launch(self, host: str, main: str, conf: Path, answer: str) -> None:
        home = self.folder / host
        home.mkdir(parents=True, exist_ok=True)
        name = main.rpartition(".")[2]
        log = home / f"{name}-{len(list(home.glob('*.log')))}.log"
        java = find_java(SPARK)
        environ = {**os.environ, **java.environment(home), "HADOOP_CONF_DIR": str(conf)}
        environ[_STATE] = str(self.state(host))
        command = [str(java.command), *_JVM, "-cp", f"{conf}:{JARS}/*", main]
        with log.open("wb") as out:
            self._running[host] = subprocess.Popen(
                command, cwd=home, env=environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        until(lambda: answer in log.read_text(), lambda: f"{name} did not start: {log.read_text()}", _START_S)


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False


def _variables(process: psutil.Process) -> dict[str, str]:
    """The environment of a process; empty if it has ended, or is another user's."""
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def _site(ports: Mapping[str, int], folder: Path) -> dict[str, str]:
    """What all daemons and clients share of yarn-site.xml."""
    manager = {f"yarn.resourcemanager.{each}.address": f"{_HERE}:{port}" for each, port in ports.items()}
    manager["yarn.resourcemanager.address"] = manager.pop("yarn.resourcemanager.address.address")
    return {
        **manager,
        "yarn.resourcemanager.hostname": _HERE,
        "yarn.resourcemanager.nodes.exclude-path": str(folder / "excluded"),
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        # A ResourceManager that was started again goes on with the applications of the one before.
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"{_CLASS}resourcemanager.recovery.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": f"file://{folder}/applications",
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
        # Milliseconds between two attempts of everybody else to reach it; YARN's default is half a minute.
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.nm.liveness-monitor.expiry-interval-ms": str(_LOST_MS),
        "yarn.nodemanager.resource.memory-mb": str(_MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(_CORES),
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        # The hosts' settings reach what they start, as environment variables do on a real host.
        "yarn.nodemanager.env-whitelist": f"JAVA_HOME,HADOOP_CONF_DIR,{_STATE},PATH,LANG,TZ",
    }


_CAPACITY = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # Half of a small cluster may be one ApplicationMaster.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
}


def _settings(folder: Path, site: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j.properties").write_text(_LOG)
    core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder.parent / "hadoop-tmp")}
    for name, settings in (("core-site", core), ("yarn-site", site), ("capacity-scheduler", _CAPACITY)):
        root = ET.Element("configuration")
        for key, value in settings.items():
            entry = ET.SubElement(root, "property")
            ET.SubElement(entry, "name").text = key
            ET.SubElement(entry, "value").text = value
        ET.ElementTree(root).write(folder / f"{name}.xml", encoding="utf-8")
    return folder
