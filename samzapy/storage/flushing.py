"""When what a store's engine has only in its memory goes to disk."""

from __future__ import annotations

from samzapy.api.engine import StorageEngine
from samzapy.clock import Clock
from samzapy.config.stores.store import LocalFiles


class Flushing:
    """Bounds what a kill costs: `flush_records` changes and those of one commit, and `flush_interval_ms`.

    At half a bound the engine begins in the background, so that commits go on; at the bound it is waited for. Between two
    beginnings the one before must have ended, so what a kill costs is what one beginning took along and what came since.
    """

    __slots__ = ("_begun", "_clock", "_engine", "_files", "_unflushed", "_unflushed_s")

    def __init__(self, engine: StorageEngine, files: LocalFiles, clock: Clock) -> None:
        self._engine = engine
        self._files = files
        self._clock = clock
        #: Changes that the engine is bringing to disk.
        self._begun = 0
        #: Those written since.
        self._unflushed = 0
        self._unflushed_s = clock.monotonic()

    def written(self, changes: int, at_s: float) -> None:
        """The engine has taken so many changes."""
        if not self._unflushed:
            self._unflushed_s = at_s
        self._unflushed += changes

    def flush_if_due(self) -> None:
        """Begin, or wait for, what has come to a bound."""
        if not self._unflushed:
            return
        files = self._files
        age_ms = 1_000.0 * (self._clock.monotonic() - self._unflushed_s)
        together = self._begun + self._unflushed
        if age_ms >= files.flush_interval_ms:
            self.flush()
        elif (
            self._unflushed > files.flush_records // 2
            or together > files.flush_records
            or age_ms >= files.flush_interval_ms / 2
        ):
            if self._engine.begin_flush():
                self._begun, self._unflushed = self._unflushed, 0
            elif together > files.flush_records:
                self.flush()

    def flush(self) -> None:
        """Move everything to disk, and wait for it."""
        self._engine.flush()
        self._begun = self._unflushed = 0
