"""Where in a changelog an entry comes from that a store cannot read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemAdmin, SystemConsumer
from samzapy.clock import Clock
from samzapy.storage.scan import scan

_LOG = logging.getLogger(__name__)

#: Seconds that a store spends on looking for such entries, all together: they are rare, or everything is broken.
_PATIENCE_S = 20.0
_STALL_S = 5.0


class ChangelogOrigin:
    """Names the record of an entry as `stream[partition]@offset`.

    An entry in a store has no offset, so its changelog partition is read for the last record that is the same. Without
    such a record (the entry was changed since the last commit), and when the changelog cannot be read or is too long for
    the time a store has for this, the partition alone is named.
    """

    __slots__ = ("_admin_of", "_clock", "_consumer_of", "_left_s", "_ssp")

    def __init__(
        self,
        ssp: SystemStreamPartition,
        admin_of: Callable[[str], SystemAdmin],
        consumer_of: Callable[[str], SystemConsumer],
        clock: Clock,
    ) -> None:
        self._ssp = ssp
        self._admin_of = admin_of
        self._consumer_of = consumer_of
        self._clock = clock
        self._left_s = _PATIENCE_S

    def __call__(self, key: bytes, value: bytes | None) -> str:
        """Of the record with this key and, unless it is None, this value."""
        began = self._clock.monotonic()
        offset = None
        try:
            if self._left_s > 0:
                offset = self._find(key, value, began + self._left_s)
        except Exception as cause:  # noqa: BLE001 - it is for the text of an error, which must not be lost to another
            _LOG.warning("%s was not searched for what cannot be read: %s", self._ssp, cause)
        self._left_s -= self._clock.monotonic() - began
        return str(self._ssp) if offset is None else f"{self._ssp}@{offset}"

    def _find(self, key: bytes, value: bytes | None, until: float) -> int | None:
        ssp, found = self._ssp, None
        log = self._admin_of(ssp.system).offsets([ssp])[ssp]
        with closing(self._consumer_of(ssp.system)) as consumer:
            for batch in scan(consumer, ssp, log, self._clock, _STALL_S):
                if key in batch.keys:
                    for offset, own, held in zip(batch.offsets, batch.keys, batch.values, strict=True):
                        if own == key and held is not None and (value is None or held == value):
                            found = offset
                if self._clock.monotonic() > until:
                    return None
        return found
