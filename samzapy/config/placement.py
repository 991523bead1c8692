"""Where containers go back to, what stands by for them, and what becomes of local stores that nobody needs any more."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.keys import Key, collect
from samzapy.config.kinds import BOOLEAN, integer
from samzapy.config.reader import Reader


@dataclass(frozen=True)
class PlacementConfig:
    """`host_affinity`: containers go back to the host that has their state. `copies`: of each task's logged stores, the
    active one included. `orphan_ttl_ms`: how long a local store that nobody uses is kept, -1 for ever."""

    host_affinity: bool = False
    copies: int = 1
    orphan_ttl_ms: int = 604_800_000

    @property
    def standbys(self) -> int:
        """Standby containers for each container."""
        return self.copies - 1

    @property
    def chooses(self) -> bool:
        """Whether it matters where a container runs."""
        return self.host_affinity or self.copies > 1


HOST_AFFINITY = Key(
    "job.host-affinity.enabled",
    BOOLEAN,
    False,
    "Whether a container goes back, where that is possible, to the host that has the local state of its tasks.",
)
COPIES = Key(
    "job.standbytasks.replication.factor",
    integer(1, 10),
    1,
    "Copies of each task's state in all, the active one included; 2 and more keep standby containers in other executors.",
)
ORPHAN_TTL_MS = Key(
    "job.orphaned.stores.ttl.ms",
    integer(-1),
    604_800_000,
    "Milliseconds after which a local store of this job that no task here has used is set aside, and with the next start "
    "deleted; its changelog has it all. -1: never.",
)
KEYS = collect(globals())


def parse_placement(reader: Reader) -> PlacementConfig:
    """The three of them."""
    return PlacementConfig(reader.get(HOST_AFFINITY), reader.get(COPIES), reader.get(ORPHAN_TTL_MS))
