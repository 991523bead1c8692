"""Finds the address at which executors reach the driver of a run, and so its coordinator.

A machine name that resolves to the loopback address is useless to other machines. Then the route decides: the master's
side can answer the address from which this machine reaches the master. `yarn` names no host, but the settings of YARN's
clients do, which Spark needs anyway: a `yarn-site.xml` in the folder `HADOOP_CONF_DIR` or `YARN_CONF_DIR`; in YARN's
cluster mode the submitting machine's, in the working directory. Settings `spark.hadoop.*` take precedence over all
files. Settings may also come from `spark-defaults.conf`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from samzapy.config.job import JobConfig, SparkConfig
from samzapy.errors import EnvironmentFailure
from samzapy.java import installed_spark
from samzapy.runner.spark.master import DRIVER_HOST, DYNAMIC, TASK_CPUS, YARN, Master, default_settings

#: The prefix of the settings for YARN's clients, which Spark passes on.
_HADOOPS_YARN = "spark.hadoop.yarn."
_LOOPBACK = "127.0.0.1"
#: `spark://HOST:PORT`, the first if there are several, and `k8s://https://HOST:PORT`.
_MASTER = re.compile(r"^(?:spark|k8s)://(?:https?://)?(?P<address>[^,/]+)")
_ADDRESS = re.compile(r"^\[?(?P<host>.+?)\]?(?::(?P<port>\d+))?$")


def known_settings(settings: Mapping[str, str], *sizes: str) -> dict[str, str]:
    """The settings by which executors find the driver, and those of `sizes`."""
    return {
        key: value for key, value in settings.items() if key in (DRIVER_HOST, *sizes) or key.startswith(_HADOOPS_YARN)
    }


def with_sparks_defaults(config: JobConfig) -> JobConfig:
    """The job with the defaults of Spark that samzapy itself uses. Raises ConfigError, EnvironmentFailure."""
    home = Path(os.environ.get("SPARK_HOME") or installed_spark().package)
    known = known_settings(default_settings(home), TASK_CPUS, DYNAMIC)
    if config.spark.master is None or Master.parse(config.spark.master).on_this_machine:
        # On this machine the driver listens on the loopback address.
        known.pop(DRIVER_HOST, None)
    return replace(config, spark=replace(config.spark, conf={**known, **config.spark.conf}))


def coordinator_host(spark: SparkConfig, master: Master) -> str:
    """The address at which executors reach the coordinator, never a wildcard.

    It is the first known one of:

    1. `job.spark.coordinator.host`
    2. loopback, for a master on this machine
    3. `spark.driver.host`
    4. the address of this machine's own name, unless that is loopback
    5. the address from which this machine connects to the master, or to YARN's ResourceManager

    Raises EnvironmentFailure if none is known.
    """
    if spark.coordinator_host:
        return spark.coordinator_host
    if master.on_this_machine:
        return _LOOPBACK
    return spark.conf.get(DRIVER_HOST) or _own_address(_masters(master.address, spark.conf))


def _own_address(masters: Iterator[str]) -> str:
    name = socket.getfqdn()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        problem = f"cannot resolve this machine's name {name}"
    else:
        if not address.startswith("127."):
            return address
        problem = f"this machine's name {name} resolves to {address}, which executors cannot reach"
    towards = next(filter(None, map(_towards, masters)), None)
    if towards is None:
        raise EnvironmentFailure(f"{problem}: set job.spark.coordinator.host")
    return towards


def _towards(master: str) -> str | None:
    """This machine's address on the route to HOST[:PORT]; None without a route. Sends nothing."""
    found = _ADDRESS.match(master)
    if found is None:
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((found["host"], int(found["port"] or 443)))
            address: str = way.getsockname()[0]
    except (OSError, OverflowError, UnicodeError):
        # The name is unknown or malformed, the port does not exist, or there is no route.
        return None
    return address


def _masters(address: str, conf: Mapping[str, str]) -> Iterator[str]:
    """HOST[:PORT] of the processes behind the address of a master."""
    found = _MASTER.match(address)
    if found is not None:
        yield found["address"]
    elif address == YARN:
        yield from resource_managers(yarn_settings(os.environ, conf))


_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SITE = "yarn-site.xml"
_SUBMITTED = Path("__spark_conf__", "__hadoop_conf__")
#: Variables of a Spark of the user's own, which may set the others in its `spark-env.sh`.
_OWN_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR")
#: Settings of Spark that it passes on to Hadoop's libraries.
_HADOOP = "spark.hadoop."
_MANAGER = "yarn.resourcemanager"

_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
#: Most references in a value, as Hadoop has it.
_MOST_REFERENCES = 20


def check_yarn(environ: Mapping[str, str]) -> None:
    """Raise EnvironmentFailure if Spark would not find the settings: without the variables it refuses to start, and
    without the file it asks this machine for a ResourceManager, again and again."""
    if any(environ.get(name) for name in _OWN_SPARK):
        return
    given = {name: environ[name] for name in _VARIABLES if environ.get(name)}
    if not given:
        raise EnvironmentFailure(
            f"Spark finds YARN by {' or '.join(_VARIABLES)}, and neither is set: set one to the folder of the "
            f"cluster's {_SITE}"
        )
    if not any(Path(folder, _SITE).is_file() for folder in given.values()):
        places = ", ".join(f"{name}={folder}" for name, folder in given.items())
        raise EnvironmentFailure(f"{places}: no {_SITE} there; set it to the folder of the cluster's {_SITE}")


def yarn_settings(environ: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """The settings in the first readable `yarn-site.xml` of the folders, and in Spark's settings `conf`."""
    folders = [*(Path(folder) for name in _VARIABLES if (folder := environ.get(name))), _SUBMITTED]
    read = next((found for folder in folders if (found := _read(folder / _SITE)) is not None), {})
    return {**read, **{key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(_HADOOP)}}


def _read(path: Path) -> dict[str, str] | None:
    with suppress(OSError, ET.ParseError):
        root = ET.parse(path).getroot()  # noqa: S314  # the administrator's own file
        named = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
        return {name.strip(): value.strip() for name, value in named if name and value}
    return None


def resource_managers(settings: Mapping[str, str]) -> Iterator[str]:
    """HOST[:PORT] of each ResourceManager in the settings: of one, or of several that stand in for each other."""
    ids = settings.get(f"{_MANAGER}.ha.rm-ids", "").replace(",", " ").split()
    for suffix in (*(f".{each}" for each in ids), ""):
        for key in ("address", "hostname"):
            value = _expanded(settings, settings.get(f"{_MANAGER}.{key}{suffix}", ""))
            # The wildcard is YARN's default, for a ResourceManager on the same machine as its clients.
            if value and not value.startswith("0.0.0.0"):  # noqa: S104  # compared, not bound
                yield value


def _expanded(settings: Mapping[str, str], value: str) -> str:
    """The value with each `${key}` replaced, as Hadoop does it; empty if they lead nowhere."""
    for _ in range(_MOST_REFERENCES):
        found = _REFERENCE.search(value)
        if found is None:
            return value
        value = value.replace(found[0], settings.get(found[1], ""))
    return ""
