"""Another writer: puts a wrong record into a changelog of the job, and puts it right once the job has refused it."""

from __future__ import annotations

from contextlib import closing

from samzapy.api.system import OutgoingRecord
from samzapy.verify.evidence import Record
from samzapy.verify.streams import Streams
from samzapy.verify.waiting import NoProgress

#: More than all deposits together: a job that took it for its own would show it in every sum of the account.
_WRONG = b"1000000000"


class Stranger:
    """Writes to `changelog`, the records of whose keys are numbers."""

    def __init__(self, streams: Streams, changelog: str) -> None:
        self._streams = streams
        self._changelog = changelog
        self._replaced: Record | None = None

    def write(self, choice: int) -> None:
        """Replace the value of one of the keys. Raises NoProgress if there is none."""
        records = [record for record in self._streams.read(self._changelog) if record.value is not None]
        if not records:
            raise NoProgress(f"{self._changelog} is empty: nothing to replace")
        self._replaced = records[choice % len(records)]
        self._send(self._replaced, _WRONG)

    def put_right(self) -> None:
        """Write what the job itself has written last of that key."""
        assert self._replaced is not None
        key = self._replaced.key
        own = [r.value for r in self._streams.read(self._changelog) if r.key == key and r.value != _WRONG]
        self._send(self._replaced, own[-1])

    def _send(self, place: Record, value: bytes | None) -> None:
        with closing(self._streams.producer()) as producer:
            producer.send([OutgoingRecord(self._changelog, place.key, value, place.partition)])
            producer.flush()
