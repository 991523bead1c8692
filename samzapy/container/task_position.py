"""Where a task stands in its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition


class TaskPosition:
    """`offsets` holds the next offset to process of each partition. `startpoints` are the ids of those it has followed."""

    __slots__ = ("_replayed", "_serialized", "offsets", "startpoints")

    def __init__(
        self, offsets: dict[SystemStreamPartition, int], startpoints: Mapping[SystemStreamPartition, str]
    ) -> None:
        self.offsets = offsets
        self.startpoints = startpoints
        self._replayed: Mapping[SystemStreamPartition, int] = {}
        self._serialized: Mapping[SystemStreamPartition, int] = dict(offsets)

    def committable(self) -> dict[SystemStreamPartition, int]:
        """The offsets to commit: where the task stands, but nothing goes back while it replays."""
        return {ssp: max(offset, self._replayed.get(ssp, offset)) for ssp, offset in self.offsets.items()}

    def note_serialized(self) -> None:
        """What the messages before this position have put is serialized."""
        self._serialized = dict(self.offsets)

    def _unserialized(self, envelope: IncomingMessageEnvelope | None) -> str:
        """Between the last commit and here, the message at hand included: `kafka.in[3]@12 to 17`, offsets inclusive."""
        ends = dict(self.offsets)
        if envelope is not None:
            ends[envelope.ssp] = envelope.offset + 1
        spans = []
        for ssp, end in ends.items():
            first, last = self._serialized.get(ssp, end), end - 1
            if first <= last:
                spans.append(f"{ssp}@{first}" + (f" to {last}" if first < last else ""))
        return "put since the last commit" + (f", at {', '.join(spans)}" if spans else "")

    def replay(self, committed: Mapping[SystemStreamPartition, int]) -> None:
        """The task starts before these offsets, which were committed, for a state of its own."""
        self._replayed = dict(committed)
