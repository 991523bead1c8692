"""A YARN of several hosts: a ResourceManager, and on loopback addresses of their own NodeManagers with folders of their own.

Every daemon is a plain Java process of Hadoop's own jars, with a folder of settings. There is no HDFS: the file system of all
hosts is this machine's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import psutil

from samzapy.devkafka.broker import free_port
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java
from samzapy.verify.processes import below, command_line, end, gone, until, with_children

JARS = Path(__file__).parent / "hadoop" / "target" / "lib"

_HERE = "127.0.0.1"
_START_S = 300.0
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
#: What the JVMs of applications have in their command lines: an executor, and the master of an application, which in cluster mode
#: is the driver.
EXECUTOR, DRIVER = (
    "YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.deploy.yarn.(ExecutorLauncher|ApplicationMaster)",
)
_CLASS = "org.apache.hadoop.yarn.server."
_RESOURCE_MANAGER = f"{_CLASS}resourcemanager.ResourceManager"
_NODE_MANAGER = f"{_CLASS}nodemanager.NodeManager"
_LOG = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


class YarnCluster:
    """Real processes, ended by their ids."""

    def __init__(self, folder: Path) -> None:
        if not JARS.is_dir():
            raise EnvironmentFailure(
                f"{JARS}: no jars of YARN are there; `make test-yarn` fetches them (it needs Maven)"
            )
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        ports = {each: free_port() for each in ("address", "scheduler", "resource-tracker", "admin", "webapp")}
        self._web = f"http://{_HERE}:{ports['webapp']}/ws/v1/cluster"
        self._site = _site(ports)
        self.conf = _settings(folder / "conf", self._site)
        """The folder for HADOOP_CONF_DIR of clients."""

    def start(self, hosts: list[str]) -> None:
        """The ResourceManager, and a NodeManager for each host."""
        self._launch(_HERE, _RESOURCE_MANAGER, self.conf, "Transitioned to active state")
        for host in hosts:
            self.start_host(host)

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
        containers = below(manager.pid)
        manager.kill()
        manager.wait()
        return containers

    def lose_host(self, host: str) -> None:
        """SIGKILL to everything on it at once."""
        daemon = self._running.pop(host)
        lost = with_children(daemon.pid)
        end(lost)
        daemon.wait()
        until(lambda: all(map(gone, lost)), f"something has outlived host {host}")

    def processes(self, role: str, *hosts: str) -> list[psutil.Process]:
        """The JVMs in that role which the NodeManagers of these hosts have started; without a host, of all."""
        started = [each for host in hosts or self._hosts() for each in below(self._running[host].pid)]
        return [each for each in started if _is_java(each) and re.search(role, command_line(each))]

    def everything(self) -> list[psutil.Process]:
        """All that the NodeManagers have started."""
        return [each for host in self._hosts() for each in below(self._running[host].pid)]

    def _hosts(self) -> list[str]:
        return [host for host in self._running if host != _HERE]

    def application(self, name: str) -> Mapping[str, Any] | None:
        """The newest application of that name, as the ResourceManager describes it; None if there is none."""
        with urlopen(f"{self._web}/apps", timeout=30) as answer:
            found = (json.load(answer)["apps"] or {"app": []})["app"]
        named = [each for each in found if each["name"] == name]
        return max(named, key=lambda each: each["startedTime"]) if named else None

    def end_application(self, name: str) -> None:
        """Have YARN kill the application of that name, if it still runs."""
        found = self.application(name)
        if found is not None and found["finalStatus"] == "UNDEFINED":
            text = json.dumps({"state": "KILLED"}).encode()
            address, kind = f"{self._web}/apps/{found['id']}/state", {"Content-Type": "application/json"}
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

    def _launch(self, host: str, main: str, conf: Path, answer: str) -> None:
        home = self.folder / host
        home.mkdir(parents=True, exist_ok=True)
        name = main.rpartition(".")[2]
        log = home / f"{name}-{len(list(home.glob('*.log')))}.log"
        java = find_java(SPARK)
        environ = {**os.environ, **java.environment(home), "HADOOP_CONF_DIR": str(conf)}
        environ["LOGGED_STORE_BASE_DIR"] = str(self.state(host))
        command = [str(java.command), *_JVM, "-cp", f"{conf}:{JARS}/*", main]
        with log.open("wb") as out:
            self._running[host] = subprocess.Popen(
                command, cwd=home, env=environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        until(lambda: answer in log.read_text(), lambda: f"{name} did not start: {log.read_text()}", _START_S)


def _is_java(process: psutil.Process) -> bool:
    return not gone(process) and process.name() == "java"


def _site(ports: Mapping[str, int]) -> dict[str, str]:
    """What all daemons and clients share of yarn-site.xml."""
    manager = {f"yarn.resourcemanager.{each}.address": f"{_HERE}:{port}" for each, port in ports.items()}
    manager["yarn.resourcemanager.address"] = manager.pop("yarn.resourcemanager.address.address")
    return {
        **manager,
        "yarn.resourcemanager.hostname": _HERE,
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.nm.liveness-monitor.expiry-interval-ms": str(_LOST_MS),
        "yarn.nodemanager.resource.memory-mb": str(_MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(_CORES),
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        # The hosts' settings reach what they start, as environment variables do on a real host.
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,LOGGED_STORE_BASE_DIR,PATH,LANG,TZ",
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
