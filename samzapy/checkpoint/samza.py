"""Checkpoints as JVM Samza's version 1 has them: what one of its jobs left behind, and what one may go on from.

{"SystemStreamPartition [kafka, orders, 0]":
    {"system": "kafka", "stream": "orders", "partition": "0", "offset": "480"}, ...}

Samza's offset is that of the last message processed. Between the inputs stand its changelogs, with an offset that
begins with a checkpoint id (`1795242216838-360361:23`): they are left out, since a restore here reads a changelog to its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import mapping, parsed, text, whole


@dataclass(frozen=True)
class SamzaRecords:
    """How a job shares its topic with JVM Samza: the records name its `grouper`; Samza's own are written if `write`."""

    grouper: str = "partition"
    write: bool = False


def encode(checkpoint: Checkpoint) -> bytes:
    """The input offsets as Samza's record value; an input of which nothing was processed is left out, as there."""
    return json.dumps(
        {
            f"SystemStreamPartition [{ssp.system}, {ssp.stream}, {ssp.partition}]": {
                "system": ssp.system,
                "partition": str(ssp.partition),
                "offset": str(upcoming - 1),
                "stream": ssp.stream,
            }
            for ssp, upcoming in checkpoint.input_offsets.items()
            if upcoming > 0
        },
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def decode(value: bytes, where: str) -> Checkpoint:
    """A record value as a checkpoint of epoch 0. Raises RestoreError, naming `where`."""
    try:
        entries = map(mapping, parsed(value).values())
        return Checkpoint(
            {
                SystemStreamPartition(text(entry["system"]), text(entry["stream"]), _number(entry["partition"])): (
                    _number(offset) + 1
                )
                for entry in entries
                if (offset := entry["offset"]) is not None and ":" not in text(offset)
            },
            {},
            0,
            0,
            None,
        )
    except (ValueError, KeyError) as cause:
        shown = f"{type(cause).__name__}: {cause}): {value[:80]!r}"
        raise RestoreError(f"{where}: not a version 1 checkpoint of Samza ({shown}") from cause


def _number(digits: object) -> int:
    return whole(int(text(digits)))
