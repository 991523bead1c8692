"""A reader of committed outputs while the faults strike: what it has seen must still be there in the end."""

from __future__ import annotations

import threading

from samzapy.errors import SamzapyError
from samzapy.verify.evidence import Record
from samzapy.verify.streams import Streams, records_of

_POLL_S = 0.5
_POLL_RECORDS = 5_000


class Watcher:
    """Reads a stream from its beginning, in a thread, until it is closed; a broker that is away is waited for."""

    def __init__(self, streams: Streams, stream: str) -> None:
        self._streams = streams
        self._positions = dict.fromkeys(streams.partitions(stream), 0)
        self._seen: list[Record] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-watcher", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """How many records it has seen so far."""
        return len(self._seen)

    def close(self) -> list[Record]:
        """Stop; returns what was seen."""
        self._closed.set()
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._watch()
            except SamzapyError:
                self._closed.wait(_POLL_S)

    def _watch(self) -> None:
        consumer = self._streams.consumer(self._positions)
        try:
            while not self._closed.is_set():
                for batch in consumer.poll(_POLL_S, _POLL_RECORDS):
                    self._seen += records_of(batch)
                    self._positions[batch.ssp] = batch.offsets[-1] + 1
        finally:
            consumer.close()
