"""A run's coordinator, found by what the run has printed."""

from __future__ import annotations

import re
from typing import Any

from samzapy.coordinator.client import CoordinatorClient
from samzapy.errors import SamzapyError

_PAGE = re.compile(r"^status page: (http://\S+)/\?token=(\S+)$", re.MULTILINE)


class StatusPage:
    """The status of one run."""

    def __init__(self) -> None:
        self._client: CoordinatorClient | None = None

    def status(self, printed: str) -> dict[str, Any] | None:
        """The coordinator's status; None while there is none to be had. `printed`: what the run has said so far."""
        if self._client is None:
            page = _PAGE.search(printed)
            if page is None:
                return None
            self._client = CoordinatorClient(page[1], page[2])
        try:
            return self._client.status()
        except SamzapyError:
            return None
