"""Changelog records that are a job's own although none of its tasks has written them.

A tool that fills a store, or an operator who accepts what lies in a changelog, writes down up to where:

{"changelogs": {"kafka.orders-counts": {"id": "Xq3...", "ends": {"0": 481, "1": 92}}}}

`ends` are the offsets after the last such record of each partition; they hold for the topic with that id only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import RestoreError


@dataclass(frozen=True)
class Adopted:
    """`ends` by changelog, and by the id of its topic."""

    ends: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)

    def end(self, ssp: SystemStreamPartition, topic_id: str) -> int:
        """The offset after the last adopted record of a changelog's partition, 0 for none."""
        return self.ends.get((str(ssp.system_stream), topic_id), {}).get(ssp.partition, 0)

    def with_ends(self, stream: SystemStream, topic_id: str, ends: Mapping[int, int]) -> Adopted:
        """The same and these; what was known of an earlier topic of the name is forgotten."""
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
            return cls(
                {
                    (str(name), str(entry["id"])): {int(number): int(end) for number, end in entry["ends"].items()}
                    for name, entry in data["changelogs"].items()
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise RestoreError(f"not a record of adopted changelogs ({cause}): {str(data)[:80]}") from cause
