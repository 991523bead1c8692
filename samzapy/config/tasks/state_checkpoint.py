"""`state.checkpoint.*`: the checkpoints that tasks take of states of their own. The names are Gearpump's where it has any."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.reading.classes import FILE_STATE_CHECKPOINTS, STATE_CHECKPOINTS, TOPIC_STATE_CHECKPOINTS
from samzapy.config.reading.keys import TEXT, Key, collect, integer, optional
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class StateCheckpointConfig:
    """`factory` is a class path. `system` is set for a topic, unless none is configured; `path` for files."""

    factory: str = TOPIC_STATE_CHECKPOINTS
    interval_ms: int = 10_000
    system: str | None = None
    path: str | None = None
    replication_factor: int | None = None


STORE_FACTORY = Key(
    "state.checkpoint.store.factory",
    STATE_CHECKPOINTS.kind,
    None,
    "Where the checkpoints of a PersistentTask's state are kept: topic, file (a folder that every container sees), or a "
    "class.",
    "topic",
)
INTERVAL_MS = Key(
    "state.checkpoint.interval.ms",
    integer(1),
    10_000,
    "Milliseconds of event time: checkpoint times are multiples of it. A PersistentTask takes one with the first commit "
    "after its clock has passed such a time.",
)
SYSTEM = Key(
    "state.checkpoint.system",
    TEXT,
    None,
    "The system that holds the topic of state checkpoints.",
    "task.checkpoint.system",
)
PATH = Key("state.checkpoint.path", TEXT, None, "The folder of state checkpoints in files.", "required with file")
REPLICATION_FACTOR = Key(
    "state.checkpoint.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the topic of state checkpoints.",
    "the system's",
)
KEYS = collect(globals())


def parse_state_checkpoint(reader: Reader, default_system: str | None) -> StateCheckpointConfig:
    """Read where state checkpoints are kept; in a topic on `default_system` unless a key says otherwise."""
    factory = reader.get(STORE_FACTORY) or TOPIC_STATE_CHECKPOINTS
    path = reader.get(PATH)
    if factory == FILE_STATE_CHECKPOINTS and path is None and not reader.is_broken(PATH.name):
        reader.problem(PATH.name, "required with state checkpoints in files, e.g. state/checkpoints")
    return StateCheckpointConfig(
        factory,
        reader.get(INTERVAL_MS),
        reader.get(SYSTEM) or default_system,
        path,
        reader.get(REPLICATION_FACTOR),
    )
