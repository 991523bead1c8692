"""Finds the address at which executors reach the driver of a run, and so its coordinator.

A name of this machine that leads to the loopback address says nothing to other machines. Then the route decides: the address
from which this machine reaches the master is one that the master's side can answer. `yarn` names no host, but
the settings of YARN's clients do, which Spark needs anyway: `yarn-site.xml`, in the folder of `HADOOP_CONF_DIR` or
`YARN_CONF_DIR`. A driver in YARN's cluster mode has the settings of the machine that submitted it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

from samzapy.config.spark import SparkConfig
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.master import DRIVER_HOST, Master

_LOOPBACK = "127.0.0.1"
#: `spark://HOST:PORT`, the first if there are several, and `k8s://https://HOST:PORT`.
_MASTER = re.compile(r"^(?:spark|k8s)://(?:https?://)?(?P<address>[^,/]+)")
_ADDRESS = re.compile(r"^\[?(?P<host>.+?)\]?(?::(?P<port>\d+))?$")

#: The variables that lead YARN's clients to their settings, and the place of these settings in cluster mode.
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SUBMITTED = Path("__spark_conf__", "__hadoop_conf__")
#: Settings of the job file that Spark passes on to Hadoop's libraries.
_HADOOP = "spark.hadoop."
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
#: Most variables in a value, as Hadoop has it.
_MOST_VARIABLES = 20
_RESOURCE_MANAGER = "yarn.resourcemanager"


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
    elif address == "yarn":
        yield from resource_managers(
            yarn_settings([*(Path(each) for name in _CONF_DIRS if (each := os.environ.get(name))), _SUBMITTED])
            | {key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(_HADOOP)}
        )


def yarn_settings(folders: list[Path]) -> dict[str, str]:
    """The settings in `yarn-site.xml` of the first of these folders that has a readable one; empty if none has."""
    for folder in folders:
        with suppress(OSError, ET.ParseError):
            root = ET.parse(folder / "yarn-site.xml").getroot()  # noqa: S314  # the administrator's own file
            named = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
            return {name.strip(): value.strip() for name, value in named if name and value}
    return {}


def resource_managers(settings: Mapping[str, str]) -> Iterator[str]:
    """HOST[:PORT] of each ResourceManager in the settings: of one, or of several that stand in for each other."""
    ids = settings.get(f"{_RESOURCE_MANAGER}.ha.rm-ids", "").replace(",", " ").split()
    for suffix in (*(f".{each}" for each in ids), ""):
        for key in ("address", "hostname"):
            value = _expanded(settings, settings.get(f"{_RESOURCE_MANAGER}.{key}{suffix}", ""))
            # The wildcard is YARN's default, for a ResourceManager on the same machine as its clients.
            if value and not value.startswith("0.0.0.0"):  # noqa: S104  # compared, not bound
                yield value


def _expanded(settings: Mapping[str, str], value: str) -> str:
    """The value with `${key}` replaced as Hadoop does it; empty if a key has no value."""
    for _ in range(_MOST_VARIABLES):
        found = _VARIABLE.search(value)
        if found is None:
            return value
        value = value.replace(found[0], settings.get(found[1], ""))
    return ""
