"""Adopts changelog records: the job takes them for its own, although none of its tasks has written them.

A tool that fills a store, or an operator who accepts the contents of a changelog, records the ends:

{"changelogs": {"kafka.orders-counts": {"id": "Xq3...", "ends": {"0": 481, "1": 92}}}}

`ends` are the offsets after the last such record of each partition; they hold for the topic with that id only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import Natural, convert


class _Entry(msgspec.Struct):
    id: str
    ends: dict[Natural, Natural]


class _Record(msgspec.Struct):
    changelogs: dict[str, _Entry]


@dataclass(frozen=True)
class Adopted:
    """`ends` by changelog, and by the id of its topic."""

    ends: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)

    def end(self, ssp: SystemStreamPartition, topic_id: str) -> int:
        """The offset after the last adopted record of a changelog's partition, 0 for none."""
        return self.ends.get((str(ssp.system_stream), topic_id), {}).get(ssp.partition, 0)

    def with_ends(self, stream: SystemStream, topic_id: str, ends: Mapping[int, int]) -> Adopted:
        """These ends and the known ones, without those of an earlier topic of the name."""
        name = str(stream)
        others = {key: value for key, value in self.ends.items() if key[0] != name}
        known = self.ends.get((name, topic_id), {})
        return Adopted({**others, (name, topic_id): {**known, **ends}})

    def to_json(self) -> dict[str, Any]:
        """As a record of the job."""
        return {
            "changelogs": {
                name: {"id": topic_id, "ends": {str(number): end for number, end in ends.items()}}
                for (name, topic_id), ends in self.ends.items()
            }
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Adopted:
        """The inverse of `to_json`; nothing for None. Raises RestoreError."""
        if data is None:
            return cls()
        try:
            changelogs = convert(_Record, data).changelogs
        except ValueError as cause:
            raise RestoreError(f"not a record of adopted changelogs ({cause}): {str(data)[:80]}") from cause
        return cls({(name, entry.id): entry.ends for name, entry in changelogs.items()})
