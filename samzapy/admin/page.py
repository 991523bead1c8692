"""Asks the status page of a job that runs on this machine."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, urlsplit

from samzapy.config.job import JobConfig
from samzapy.container.supervision.log_files import PageAddress
from samzapy.coordinator.client import CoordinatorClient
from samzapy.errors import EnvironmentFailure, RetriableError, TaskMigrated


def status_of(config: JobConfig) -> dict[str, Any]:
    """The status of the running job, as its page has it in JSON. Raises EnvironmentFailure if no run of it has a page
    here."""
    address = PageAddress(config.supervision.log, config.job_name).read()
    if address is None:
        raise EnvironmentFailure(f"job '{config.name}': no run on this machine has a status page")
    parts = urlsplit(address)
    token = parse_qs(parts.query).get("token", [""])[0]
    with closing(CoordinatorClient(f"{parts.scheme}://{parts.netloc}", token, parts.fragment or None)) as client:
        try:
            return client.status()
        except (RetriableError, TaskMigrated) as cause:
            raise EnvironmentFailure(f"job '{config.name}': its status page does not answer: {cause}") from cause
