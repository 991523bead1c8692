"""`task.batch.*`: how the messages of batch tasks are gathered. They have no effect on other tasks."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.reading.keys import Key, collect, integer
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class BatchConfig:
    """`max_messages` 0: all that a poll has brought of a partition. `max_wait_ms` 0: nothing waits for more."""

    max_messages: int = 0
    max_wait_ms: int = 0


MAX_MESSAGES = Key(
    "task.batch.max.messages",
    integer(0, 10_000_000),
    0,
    "Messages of a partition that a batch task gets in one call, at most; 0: all that a poll has brought.",
)
MAX_WAIT_MS = Key(
    "task.batch.max.wait.ms",
    integer(0, 3_600_000),
    0,
    "Milliseconds to gather messages until there are task.batch.max.messages; 0: a batch is what a poll brings. "
    "At-most-once may lose gathered messages.",
)
KEYS = collect(globals())


def parse_batch(reader: Reader) -> BatchConfig:
    """Read how batches are gathered; note a wait without an end."""
    config = BatchConfig(reader.get(MAX_MESSAGES), reader.get(MAX_WAIT_MS))
    if config.max_wait_ms and not config.max_messages:
        reader.problem(MAX_MESSAGES.name, f"must be > 0 with {MAX_WAIT_MS.name}, e.g. 10000", "0")
    return config
