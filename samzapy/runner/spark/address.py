"""The address under which executors on other machines find this one."""

from __future__ import annotations

import socket

from samzapy.errors import EnvironmentFailure


def driver_address() -> str:
    """This machine's address by its own name; never a wildcard. Raises EnvironmentFailure if that leads to loopback."""
    name = socket.getfqdn()
    try:
        address = socket.gethostbyname(name)
    except OSError as cause:
        raise EnvironmentFailure(
            f"cannot resolve this machine's name {name}: set job.spark.coordinator.host"
        ) from cause
    if address.startswith("127."):
        raise EnvironmentFailure(
            f"this machine's name {name} leads to {address}, where executors cannot reach it: "
            "set job.spark.coordinator.host"
        )
    return address
