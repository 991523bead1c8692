"""How much is handed out in one go."""

from __future__ import annotations

from samzapy.clock import Clock

_SECONDS = 0.02
_FIRST = 64


class Portion:
    """As many records as took the reader about 20 ms, judged by when it comes back for more; `most` at most."""

    __slots__ = ("_clock", "_given", "_given_at", "_most", "records")

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._given = 0
        self._given_at = clock.monotonic()
        self.records = min(_FIRST, most)

    def asked(self) -> None:
        """The reader is done with what it was given."""
        if not self._given:
            return
        took = self._clock.monotonic() - self._given_at
        if took > 2 * _SECONDS:
            self.records = max(1, int(self._given * _SECONDS / took))
        elif took < _SECONDS / 2 and self._given >= self.records:
            self.records = min(2 * self.records, self._most)

    def given(self, records: int) -> None:
        """The reader gets so many."""
        self._given = records
        self._given_at = self._clock.monotonic()
