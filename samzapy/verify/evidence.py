"""The evidence of a run: plain records from the logs and stores of a job that has stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Record(NamedTuple):
    """One record of a log; `id` is the header `samzapy-id`, None where there is none."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    id: bytes | None = None


@dataclass(frozen=True)
class Evidence:
    """Everything about one finished run.

    `watched`: the outputs that a reader of committed records saw while the faults struck. `dumps`: per store, what each
    partition's local store holds; None where the stores are out of reach. `ends`: the input's ends by partition.
    """

    input_stream: str
    partitions: int
    inputs: Sequence[Record]
    outputs: Sequence[Record]
    watched: Sequence[Record]
    changelogs: Mapping[str, Sequence[Record]]
    dumps: Mapping[str, Sequence[Mapping[bytes, bytes]]] | None
    checkpoints: Sequence[Record]
    ends: Mapping[int, int]


def replay(changelog: Sequence[Record], partitions: int) -> list[dict[bytes, bytes]]:
    """The contents that each partition of a changelog replays to."""
    found: list[dict[bytes, bytes]] = [{} for _ in range(partitions)]
    for record in changelog:
        if record.value is None:
            found[record.partition].pop(record.key, None)
        else:
            found[record.partition][record.key] = record.value
    return found


def committed(checkpoints: Sequence[Record], input_stream: str) -> dict[int, int]:
    """The next input offset of each partition, as the newest checkpoint of each task has it."""
    newest = {record.key: record.value for record in checkpoints}
    found = {}
    for key, value in newest.items():
        if value is not None and json.loads(key).get("type") == "samzapy-checkpoint":
            for ssp, offset in json.loads(value)["inputs"].items():
                stream, _, partition = ssp.partition(".")[2].rpartition("[")
                if stream == input_stream:
                    found[int(partition.rstrip("]"))] = offset
    return found
