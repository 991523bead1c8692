"""Finds the address at which executors reach the driver of a run, and so its coordinator.

A machine name that resolves to the loopback address is useless to other machines. Then the route decides: the master's
side can answer the address from which this machine reaches the master. `yarn` names no host, but the settings of YARN's
clients do, which Spark needs anyway. Settings may also come from `spark-defaults.conf`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from samzapy.config.job import JobConfig
from samzapy.config.spark import SparkConfig
from samzapy.errors import EnvironmentFailure
from samzapy.java import installed_spark
from samzapy.runner.spark.master import DRIVER_HOST, DYNAMIC, TASK_CPUS, YARN, Master, default_settings
from samzapy.runner.spark.yarn import resource_managers, yarn_settings

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
