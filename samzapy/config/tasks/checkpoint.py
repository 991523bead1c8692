"""`task.checkpoint.*` and `state.checkpoint.*`: where the positions of the tasks are kept, and the states of
PersistentTasks.

The keys of the state checkpoints have Gearpump's names where it has any.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from samzapy.config.reading.classes import (
    CHECKPOINTS,
    FILE_CHECKPOINTS,
    FILE_STATE_CHECKPOINTS,
    NO_CHECKPOINTS,
    STATE_CHECKPOINTS,
    TOPIC_CHECKPOINTS,
    TOPIC_STATE_CHECKPOINTS,
)
from samzapy.config.reading.keys import FOLDER, TEXT, Key, Kind, collect, integer, optional, split_list
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.stream import check_system


@dataclass(frozen=True)
class CheckpointConfig:
    """`factory` is a class path; `system` is set for a topic, `path` for files. `samza_records`: each commit also
    writes a record from which JVM Samza can continue."""

    factory: str
    system: str | None = None
    path: str | None = None
    replication_factor: int | None = None
    segment_bytes: int = 26_214_400
    max_message_bytes: int = 1_000_012
    samza_records: bool = False


@dataclass(frozen=True)
class StateCheckpointConfig:
    """`factory` is a class path. `system` is set for a topic, unless none is configured; `path` for files."""

    factory: str = TOPIC_STATE_CHECKPOINTS
    interval_ms: int = 10_000
    system: str | None = None
    path: str | None = None
    replication_factor: int | None = None


def _versions(text: str) -> frozenset[int]:
    found = frozenset(split_list(text))
    if not found or not found <= {"1", "2"}:
        raise ValueError("1, 2 or 1,2")
    return frozenset(map(int, found))


FACTORY = Key(
    "task.checkpoint.factory",
    CHECKPOINTS.kind,
    None,
    "The storage of positions: topic, file, a class, Samza's Java class name, or none. Samza's default is none. "
    "samzapy's default is topic, because without positions a restart loses or repeats messages.",
    "topic",
)
SYSTEM = Key(
    "task.checkpoint.system",
    TEXT,
    None,
    "The system of the checkpoint topic.",
    "job.default.system, else the only input system",
)
PATH = Key("task.checkpoint.path", FOLDER, None, "The folder of file checkpoints.", "required with file")
REPLICATION_FACTOR = Key(
    "task.checkpoint.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the checkpoint topic.",
    "the system's",
    ("systems.{system}.default.stream.replication.factor",),
)
SEGMENT_BYTES = Key(
    "task.checkpoint.segment.bytes",
    integer(1, 2**31 - 1),
    26_214_400,
    "Segment size of the checkpoint topic.",
    otherwise=("systems.{system}.default.stream.segment.bytes",),
)
MAX_MESSAGE_BYTES = Key(
    "task.checkpoint.max.message.bytes",
    integer(1, 2**31 - 1),
    1_000_012,
    "Largest record of the checkpoint topic.",
    otherwise=("systems.{system}.default.stream.max.message.bytes",),
)
WRITE_VERSIONS = Key(
    "task.checkpoint.write.versions",
    Kind("1, 2 or 1,2", _versions),
    frozenset[int](),
    "With 1 each commit also writes Samza's version 1 record beside samzapy's own, so that a JVM job can "
    "continue. samzapy never writes Samza's version 2.",
    "none",
)
READ_VERSIONS = Key(
    "task.checkpoint.read.versions",
    Kind("1, 2 or 1,2", _versions),
    frozenset({1}),
    "Accepted, but without effect: samzapy reads its own records or those of Samza's version 1, whichever are newer.",
)
STATE_FACTORY = Key(
    "state.checkpoint.store.factory",
    STATE_CHECKPOINTS.kind,
    None,
    "The storage of a PersistentTask's checkpoints: topic, file (a folder that every container can reach), or a class.",
    "topic",
)
STATE_INTERVAL_MS = Key(
    "state.checkpoint.interval.ms",
    integer(1),
    10_000,
    "Milliseconds of event time between two checkpoints. Checkpoint times are multiples of it. A PersistentTask "
    "takes a checkpoint with the first commit after its clock has passed such a time.",
)
STATE_SYSTEM = Key(
    "state.checkpoint.system",
    TEXT,
    None,
    "The system of the topic of state checkpoints.",
    "task.checkpoint.system",
)
STATE_PATH = Key(
    "state.checkpoint.path", FOLDER, None, "The folder of state checkpoints in files.", "required with file"
)
STATE_REPLICATION_FACTOR = Key(
    "state.checkpoint.replication.factor",
    optional(integer(1, 32_767)),
    None,
    "Copies of the topic of state checkpoints.",
    "the system's",
    ("systems.{system}.default.stream.replication.factor",),
)
KEYS = collect(globals())


def parse_checkpoint(
    reader: Reader, default_system: str | None, input_systems: Collection[str], systems: Collection[str]
) -> CheckpointConfig | None:
    """Read where checkpoints are kept; None if the job has none. Notes a problem if no system or path is given."""
    factory = reader.get(FACTORY) or TOPIC_CHECKPOINTS
    system = reader.get(SYSTEM) or default_system
    path = reader.get(PATH)
    if factory == NO_CHECKPOINTS:
        return None
    if system is None and len(set(input_systems)) == 1:
        system = next(iter(input_systems))
    if reader.has(SYSTEM) and system is not None:
        check_system(reader, SYSTEM.name, system, systems)
    if factory == TOPIC_CHECKPOINTS and system is None and input_systems:
        reader.problem(SYSTEM.name, "required when there are several input systems and no job.default.system")
    if factory == FILE_CHECKPOINTS:
        reader.require(PATH, "state/checkpoints", when="with file checkpoints")
    versions = reader.get(WRITE_VERSIONS)
    if versions == {2} or reader.get(READ_VERSIONS) == {2}:
        reader.warn(
            f"{WRITE_VERSIONS.name}, {READ_VERSIONS.name}: samzapy writes and reads version 1 of Samza's records, not version 2"
        )
    names = {} if system is None else {"system": system}
    return CheckpointConfig(
        factory,
        system=None if factory == FILE_CHECKPOINTS else system,
        path=path,
        replication_factor=reader.get(REPLICATION_FACTOR, **names),
        segment_bytes=reader.get(SEGMENT_BYTES, **names),
        max_message_bytes=reader.get(MAX_MESSAGE_BYTES, **names),
        samza_records=1 in versions,
    )


def parse_state_checkpoint(reader: Reader, default_system: str | None) -> StateCheckpointConfig:
    """Read where state checkpoints are kept; by default in a topic on `default_system`."""
    factory = reader.get(STATE_FACTORY) or TOPIC_STATE_CHECKPOINTS
    path = reader.get(STATE_PATH)
    if factory == FILE_STATE_CHECKPOINTS:
        reader.require(STATE_PATH, "state/checkpoints", when="with state checkpoints in files")
    system = reader.get(STATE_SYSTEM) or default_system
    copies = reader.get(STATE_REPLICATION_FACTOR, **({} if system is None else {"system": system}))
    return StateCheckpointConfig(factory, reader.get(STATE_INTERVAL_MS), system, path, copies)
