"""The address under which the executors find this machine."""

from __future__ import annotations

import re
import socket

from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.master import Master

_LOOPBACK = "127.0.0.1"
_DRIVER_HOST = "spark.driver.host"
#: `spark://HOST:PORT`, of several the first, and `k8s://https://HOST:PORT`; `yarn` names nobody.
_MASTER = re.compile(r"^(?:spark|k8s)://(?:https?://)?\[?(?P<host>[^,/\]]+?)\]?(?::(?P<port>\d+))?(?:[,/]|$)")


def coordinator_host(config: JobConfig, master: Master) -> str:
    """What `job.spark.coordinator.host` says, else where Spark's own driver is told to be found, else, for a master on
    other machines, this one's address: by its own name, or, where that leads to loopback, the one from which the master
    is reached. Never a wildcard. Raises EnvironmentFailure where there is none."""
    if config.spark.coordinator_host:
        return config.spark.coordinator_host
    if master.on_this_machine:
        return _LOOPBACK
    return config.spark.conf.get(_DRIVER_HOST) or _own_address(master.address)


def _own_address(master: str) -> str:
    name = socket.getfqdn()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        told = f"cannot resolve this machine's name {name}"
    else:
        if not address.startswith("127."):
            return address
        told = f"this machine's name {name} leads to {address}, where executors cannot reach it"
    towards = _towards(master)
    if towards is None:
        raise EnvironmentFailure(f"{told}: set job.spark.coordinator.host")
    return towards


def _towards(master: str) -> str | None:
    """This machine's address on the way to the master; None if its host is not known. Nothing is sent."""
    found = _MASTER.match(master)
    if found is None:
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((found["host"], int(found["port"] or 443)))
            address: str = way.getsockname()[0]
    except (OSError, OverflowError, UnicodeError):
        # Nobody of that name, no way there, no such port, no such name.
        return None
    return address
