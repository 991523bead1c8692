"""Whether files of a store that were found may be used, now that the job and its changelog are as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from samzapy.api.system import OffsetRange
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError
from samzapy.storage.marker import Marker, StoreIdentity, doubt, lowest, misfit, of_another
from samzapy.storage.written_with import serde_changes


@dataclass(frozen=True)
class Acceptance:
    """What files of a store are measured by: its identity as the job file and the changelog say it, the changelog's range
    and `delete.retention.ms`, and the time."""

    config: StoreConfig
    identity: StoreIdentity
    log: OffsetRange
    retention_ms: int
    now_ms: int

    def refusal(self, marker: Marker) -> str | None:
        """Why files with that marker must not be used, as half a sentence; None if they may. Raises as `misfit`."""
        return self.misfit(marker) or self.doubt(marker)

    def misfit(self, marker: Marker) -> str | None:
        """As `refusal`, whatever their age. Raises ConfigError if they are of this very changelog, but were written with
        other serdes: so was the changelog, and to rebuild the store from it would not help."""
        if of_another(marker.identity, self.identity) is None:
            problems = list(serde_changes(self.config, marker.identity.serdes, self.identity.serdes))
            if problems:
                raise ConfigError(problems)
        return misfit(marker, self.identity, self.log)

    def doubt(self, marker: Marker) -> str | None:
        """Why they must not be used if any record follows them in the changelog; None if they may."""
        return doubt(marker, self.log, self.retention_ms, self.now_ms)

    def identity_from(self, marker: Marker | None) -> StoreIdentity:
        """The identity of the store that goes on from these files, None for an empty one."""
        kept_ms = self.retention_ms if marker is None else lowest(marker.identity, self.retention_ms)
        return replace(self.identity, deletions_kept_ms=kept_ms)
