"""Bootstrap streams: read to where they ended at the start, before anything else is read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping

from samzapy.api.stream import SystemStreamPartition

logger = logging.getLogger(__name__)

PositionOf = Callable[[SystemStreamPartition], int]


class Bootstrap:
    """Knows whether the bootstrap partitions of a container have caught up; once they have, that stays so.

    A partition has caught up when its reader is at or past the head as of the start (holes before the head, as
    compaction leaves them, deliver nothing: so `>=`, on positions), and everything read of it is processed. Samza's rule,
    which counts messages as they are chosen, made strict: with messages in flight, chosen is not processed.
    """

    def __init__(
        self, heads: Mapping[SystemStreamPartition, int], processed: PositionOf, on_progress: Callable[[int], None]
    ) -> None:
        """`heads`: the offset after the last record of each bootstrap partition at the start. `processed`: the offset
        before which every task that reads a partition has processed it. `on_progress` hears the offsets that are left."""
        self._lagging = dict(heads)
        self._processed = processed
        self._on_progress = on_progress
        self.ssps = frozenset(heads)

    def begin(self, position: PositionOf) -> None:
        """Leave out what begins at its head."""
        self._lagging = {ssp: head for ssp, head in self._lagging.items() if position(ssp) < head}
        if self._lagging:
            logger.info("Bootstrapping from %s", ", ".join(map(str, sorted(self._lagging))))

    def awaits(self, position: PositionOf, waiting: Container[SystemStreamPartition]) -> bool:
        """Whether a lagging stream has nothing waiting, so that nothing is chosen until it has: the choice is between the
        messages of all of them, as Samza's is, and not between those that came first."""
        lagging = {ssp.system_stream for ssp, head in self._lagging.items() if position(ssp) < head}
        return bool(lagging - {ssp.system_stream for ssp in self.ssps if ssp in waiting})

    def look(self, position: PositionOf, released: Mapping[SystemStreamPartition, int]) -> bool:
        """Whether everything has caught up. `position`: the next offset to hand out; `released`: the one after the last
        record handed out."""
        for ssp, head in list(self._lagging.items()):
            if position(ssp) >= head and (ssp not in released or self._processed(ssp) >= released[ssp]):
                del self._lagging[ssp]
                logger.info("%s has caught up with offset %d, its head at the start", ssp, head)
        self._on_progress(sum(max(0, head - position(ssp)) for ssp, head in self._lagging.items()))
        return not self._lagging
