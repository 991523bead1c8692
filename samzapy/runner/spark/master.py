"""Parses the address of a Spark master, and builds the Spark configuration of a run.

1. The address decides the number of slots, and the files and addresses that executors can reach. With a master on this
   machine, driver and executors share files and the loopback address. With any other master, every path and address has
   to be valid on other machines.
2. YARN and Kubernetes start as many executors as an application asks for, and Spark asks for two. A job asks for as
   many as its containers and standbys need, since containers never end and make no room for others.
3. Settings of the job file that would break a guarantee are refused.
4. Executors reach the driver, and so its coordinator, at `coordinator_host`. A machine name that resolves to the
   loopback address is useless to other machines. Then the route decides: the master's side can answer the address from
   which this machine reaches the master.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import javaproperties

from samzapy.api.system import SystemSettings
from samzapy.config.job import BASE_DIR_VARIABLE, FIXED, JobConfig, SparkConfig
from samzapy.config.reading.properties import MASK, Masked, is_secret, literal_secrets
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, raise_if_any
from samzapy.java import installed_spark
from samzapy.system.clients import system_factory

KEY = "job.spark.master"

_LOCAL = re.compile(r"^local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?$")
_LOCAL_CLUSTER = re.compile(r"^local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]$")
_REMOTE = re.compile(r"^(spark|k8s|yarn)\b")
_ON_DEMAND = re.compile(r"^(k8s|yarn)\b")

_DRIVER_HOST = "spark.driver.host"
_LOOPBACK = "127.0.0.1"
_INSTANCES, _CORES = "spark.executor.instances", "spark.executor.cores"
_TASK_CPUS = "spark.task.cpus"
#: Spark's settings that decide how many containers run at a time on YARN and Kubernetes, and Spark's defaults of two.
_SIZES = (_INSTANCES, _CORES, _TASK_CPUS)
SPARKS_SIZES = {_INSTANCES: "2", _CORES: "1"}


@dataclass(frozen=True)
class Master:
    """A master. `slots`: the number of containers that run at a time, None if unknown before the run.
    `on_this_machine`: driver and executors share files and the loopback address. `executors`: the expected number, if
    known, without the driver. `task_cpus`: the cores that Spark allocates to a container."""

    address: str
    slots: int | None
    on_this_machine: bool
    executors: int = 0
    task_cpus: int = 1

    @classmethod
    def parse(cls, address: str) -> Master:
        """Read `local[N,F]`, `local-cluster[N,CORES,MB]`, `spark://...`, `yarn` or `k8s://...`. Raises ConfigError.

        The supervisor resubmits failed containers, so a second number is of no use. The `*` of `local[*]` becomes a
        number: a JVM may count the cores differently, for example in a container with a quota."""
        local = _LOCAL.match(address)
        if local is not None:
            counted = address.replace("*", str(_cores()))
            slots = _cores() if local[1] == "*" else int(local[1] or 1)
            return cls(counted, slots, on_this_machine=True)
        cluster = _LOCAL_CLUSTER.match(address)
        if cluster is not None:
            return cls(address, int(cluster[1]) * int(cluster[2]), on_this_machine=True, executors=int(cluster[1]))
        if _REMOTE.match(address):
            return cls(address, None, on_this_machine=False, executors=int(address.startswith("spark:")))  # at least
        allowed = "expected local[N,F], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or k8s://URL"
        raise ConfigError.of(KEY, address, allowed)

    @classmethod
    def default(cls, containers: int, conf: Mapping[str, str] | None = None) -> Master:
        """`local[N]`: a slot for each container, with the cores per task of `conf`."""
        return cls.parse(f"local[{containers * _task_cpus(conf or {})}]")

    @property
    def on_demand(self) -> bool:
        """Whether it starts as many executors as an application asks for: YARN and Kubernetes."""
        return _ON_DEMAND.match(self.address) is not None

    def sized(self, conf: Mapping[str, str], containers: int, standbys: int) -> Master:
        """This master with the executors and slots that a job gets, by its settings for Spark: as many executors as
        they name, else one for each container and standby, or fewer of several cores.

        1. On this machine the address names the cores.
        2. A `spark://` master is returned unchanged.
        3. Otherwise slots are known only if the settings name the cores (`spark-defaults.conf`, which is not read here,
           may name them, too).
        4. Spark itself refuses a text that is not a number.
        """
        cpus = _task_cpus(conf)
        if self.slots is not None and not self.on_demand:
            of_one = self.slots // max(1, self.executors)
            return replace(self, slots=of_one // cpus * max(1, self.executors), task_cpus=cpus)
        numbers = [conf.get(key, "1") for key in (_INSTANCES, _CORES)]
        if not self.on_demand or not all(map(_positive, numbers)):
            return self
        instances, cores = map(int, numbers)
        per_executor = max(1, cores // cpus)
        if _INSTANCES not in conf:
            # A container and its standbys each have an executor of their own.
            instances = max(-(-(containers + standbys) // per_executor), 1 + standbys // max(1, containers))
        return replace(self, executors=instances, slots=instances * per_executor if _CORES in conf else None)

    def check_standbys(self, standbys: int) -> None:
        """Raise ConfigError if there are standbys but no second executor."""
        if standbys and (_LOCAL.match(self.address) or (self.on_demand and self.executors == 1)):
            more = f"more {_INSTANCES}" if self.on_demand else "a cluster or local-cluster[N,CORES,MB]"
            problem = f"standby containers need a second executor: use {more}, or remove"
            raise ConfigError.of(KEY, self.address, f"{problem} job.standbytasks.replication.factor")

    def check_slots(self, containers: int) -> None:
        """Raise ConfigError if some endless containers would never get a slot."""
        if self.slots is not None and containers > self.slots:
            more = f"more {_INSTANCES}" if self.on_demand else f"local[{containers * self.task_cpus}]"
            message = (
                f"{containers} endless containers need {containers} slots, {self.address} has {self.slots}: "
                f"{containers - self.slots} would never run; use {more} or fewer job.container.count"
            )
            raise ConfigError.of(KEY, self.address, message)


def _positive(text: str) -> bool:
    return text.strip().isdecimal() and int(text) > 0


def _task_cpus(conf: Mapping[str, str]) -> int:
    given = conf.get(_TASK_CPUS, "1")
    return int(given) if _positive(given) else 1


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def checked_master(config: JobConfig, containers: int, standbys: int, *, endless: bool) -> Master:
    """The master of the job. Raises ConfigError if it has too few slots or executors for the containers."""
    address, conf = config.spark.master, config.spark.conf
    master = Master.parse(address) if address else Master.default(containers, conf)
    master = master.sized(conf, containers, standbys)
    master.check_standbys(standbys)
    if endless or standbys:
        master.check_slots(containers + standbys)
    return master


#: `spark://HOST:PORT`, the first if there are several, and `k8s://https://HOST:PORT`.
_ADDRESS = re.compile(r"^(?:spark|k8s)://(?:https?://)?\[?(?P<host>[^,/]+?)\]?(?::(?P<port>\d+))?(?:[,/]|$)")


def known_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by which executors find the driver, and those that decide how many containers run at a time."""
    return {key: value for key, value in settings.items() if key in (_DRIVER_HOST, *_SIZES)}


def stays_here(config: JobConfig) -> bool:
    """Whether the job file's master is on this machine; without one it is. Raises ConfigError."""
    return config.spark.master is None or Master.parse(config.spark.master).on_this_machine


def with_sparks_defaults(config: JobConfig) -> JobConfig:
    """The job with the defaults of Spark that samzapy itself uses. Raises ConfigError, EnvironmentFailure."""
    home = Path(os.environ.get("SPARK_HOME") or installed_spark().package)
    known = {key: value for key, value in default_settings(home).items() if key in (_DRIVER_HOST, _TASK_CPUS)}
    if stays_here(config):
        # On this machine the driver listens on the loopback address.
        known.pop(_DRIVER_HOST, None)
    return replace(config, spark=replace(config.spark, conf={**known, **config.spark.conf}))


def coordinator_host(spark: SparkConfig, master: Master) -> str:
    """The address at which executors reach the coordinator: `job.spark.coordinator.host`, loopback for a master on this
    machine, `spark.driver.host`, the address of this machine's name unless that is loopback, or the address from which
    this machine connects to the master. Raises EnvironmentFailure if none is known."""
    if spark.coordinator_host:
        return spark.coordinator_host
    if master.on_this_machine:
        return _LOOPBACK
    given = spark.conf.get(_DRIVER_HOST)
    if given:
        return given
    name = socket.getfqdn()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        problem = f"cannot resolve this machine's name {name}"
    else:
        if not address.startswith("127."):
            return address
        problem = f"this machine's name {name} resolves to {address}, which executors cannot reach"
    towards = _towards(master.address)
    if towards is None:
        raise EnvironmentFailure(f"{problem}: set job.spark.coordinator.host")
    return towards


def _towards(master: str) -> str | None:
    """This machine's address on the route to a master; None without a route. Sends nothing."""
    result = _ADDRESS.match(master)
    if result is None:
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((result["host"], int(result["port"] or 443)))
            address: str = way.getsockname()[0]
    except (OSError, OverflowError, UnicodeError):
        # The name is unknown or malformed, the port does not exist, or there is no route.
        return None
    return address


def check_reach(config: JobConfig) -> tuple[str, ...]:
    """Raise ConfigError, with all problems, for streams and folders that the executors cannot reach or do not share,
    and for literal secrets, which would travel to them.

    Returns warnings about folders that cost only time if each executor has its own, and about a coordinator without
    TLS. A master on this machine has no such problems."""
    if config.spark.master is None or stays_here(config):
        return ()
    address = config.spark.master
    raise_if_any([*_systems(config.systems, address), *_folders(config, address), *_secrets(config, address)])
    warnings, base = [], config.logged_store_base_dir
    if not base.is_absolute() and config.changelogs:
        warnings.append(
            f"job.logged.store.base.dir: '{base}' is relative, and the executors of {address} work in folders that no "
            "later run uses, so each start restores from the changelogs; set an absolute path here, or "
            f"{BASE_DIR_VARIABLE} on the hosts"
        )
    if config.spark.coordinator_tls is False:
        warnings.append(
            "job.spark.coordinator.tls.enabled=false: the token that acts and all reports cross the network to the "
            f"executors of {address} in the clear"
        )
    return tuple(warnings)


def _systems(systems: Mapping[str, SystemSettings], address: str) -> Iterator[ConfigProblem]:
    for name, settings in systems.items():
        where = system_factory(settings).traits(settings).place
        if where is not None:
            message = (
                f"its streams are in {where}, which the executors of {address} cannot reach: use a system that they "
                "reach, such as kafka (`samzapy kafka start` starts one for development), or a master of this machine, "
                "such as local[2]"
            )
            yield ConfigProblem(f"systems.{name}.samza.factory", settings.factory, message)


def _folders(config: JobConfig, address: str) -> Iterator[ConfigProblem]:
    kept = config.task.checkpoint
    paths = {} if kept is None else {"task.checkpoint.path": str(kept.path or "")}
    paths |= {f"stores.{store.name}.backup.path": store.backup.path for store in config.stores.values() if store.backup}
    for key, known in paths.items():
        # As written in the file: `~`, too, is another folder on another host.
        path = config.resolved.get(key, known)
        if path and "://" not in path and not Path(path).is_absolute():
            message = f"expected an absolute path that all hosts share: the executors of {address} have other folders"
            yield ConfigProblem(key, path, message)


def _secrets(config: JobConfig, address: str) -> Iterator[ConfigProblem]:
    for key in literal_secrets(config.raw):
        if not key.startswith(PREFIX):
            message = (
                "expected ${env:NAME}, which each container reads from the environment of its own machine: a literal "
                f"secret would travel to the executors of {address}"
            )
            yield ConfigProblem(key, MASK, message)


def check_secrets(config: JobConfig, address: str) -> None:
    """Raise ConfigError for secrets that are written into the job file and would travel to the executors of a
    master."""
    raise_if_any(_secrets(config, address))


def without_sparks_secrets(raw: Mapping[str, str]) -> Masked:
    """The job as containers get it: secrets of Spark's own settings stay with the driver, which gives them to Spark."""
    kept = {key: value for key, value in raw.items() if not (key.startswith(PREFIX) and is_secret(key, value))}
    return Masked(kept, getattr(raw, "secret", frozenset()))


PREFIX = "job.spark.conf."

_DEFAULTS = {
    # Spark's own page has no password, so it is off by default.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # The driver retries, and chooses the place. A container waits for that place only briefly, twice at most (executor,
    # host), because elsewhere it processes again after a restore.
    "spark.task.maxFailures": "1",
    "spark.locality.wait": "500ms",
}

#: Spark on YARN and Kubernetes ends an application for good after some lost executors (twice as many as were asked for,
#: at least three), and YARN after two lost masters of the application. Without these settings a job would count them
#: for all its life.
_FORGIVING = {"spark.executor.failuresValidityInterval": "1h", "spark.yarn.am.attemptFailuresValidityInterval": "1h"}

_DRIVER_OPTIONS, _EXECUTOR_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"

#: Spark's JVMs only pass on task ids, so they should start quickly and use little CPU. Measured on two busy cores,
#: these options halve the time to the first task.
_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_ON_THIS_MACHINE = {
    _DRIVER_HOST: _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    _DRIVER_OPTIONS: _LIGHT_JVM,
    _EXECUTOR_OPTIONS: _LIGHT_JVM,
}

_PYTHON = "spark.pyspark.python"


def spark_settings(config: JobConfig, master: Master, log_settings: Path) -> dict[str, str]:
    """All settings of the SparkConf."""
    settings = added_settings(config, master) | {key: value for key, (value, _) in FIXED.items()}
    settings["spark.app.name"] = config.name
    settings["spark.master"] = master.address
    if master.on_this_machine:
        for key, value in _ON_THIS_MACHINE.items():
            settings.setdefault(key, value)
    logging = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    settings[_DRIVER_OPTIONS] = f"{settings.get(_DRIVER_OPTIONS, '')} {logging}".strip()
    return settings


def added_settings(config: JobConfig, master: Master) -> dict[str, str]:
    """The settings for a driver's JVM that runs already, where it has none of its own."""
    asked = {_INSTANCES: str(master.executors)} if master.executors and master.on_demand else {}
    return {**_DEFAULTS, **(_FORGIVING if master.on_demand else {}), **asked, **config.spark.conf}


def environment(conf: Mapping[str, str], master: Master, spark_home: Path, properties: Path) -> dict[str, str]:
    """The environment of the driver. On this machine the executors use this Python and the loopback address.

    Spark reads its settings from the file `properties`. The options of the user's `PYSPARK_SUBMIT_ARGS` follow, and
    take precedence.

    `spark.pyspark.python` takes precedence, as in Spark; pyspark itself reads only the variable.
    """
    submit = f"--properties-file {shlex.quote(str(properties))}"
    variables = {
        "SPARK_HOME": str(spark_home),
        "PYSPARK_PIN_THREAD": "true",
        "PYSPARK_SUBMIT_ARGS": f"{submit} {os.environ.get('PYSPARK_SUBMIT_ARGS', 'pyspark-shell')}",
    }
    if master.on_this_machine:
        variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # The daemon of the Python workers would import from the current folder first (before Python 3.11 it does).
        variables["PYTHONSAFEPATH"] = "1"
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)
    given = conf.get(_PYTHON)
    if given:
        variables["PYSPARK_PYTHON"] = given
    return variables


def default_settings(home: Path) -> dict[str, str]:
    """The settings of `spark-defaults.conf`, in SPARK_CONF_DIR or else `home`/conf; none without the file. Raises
    EnvironmentFailure if it cannot be read."""
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf", "spark-defaults.conf")
    if not path.is_file():
        return {}
    try:
        result = javaproperties.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as cause:
        raise EnvironmentFailure(f"{path}: cannot be read as a properties file: {cause}") from cause
    return {key: value.strip() for key, value in result.items() if key.startswith("spark.")}
