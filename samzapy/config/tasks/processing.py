"""Settings for the messages of asynchronous tasks and batch tasks. The keys have no effect on other tasks.

`task.max.concurrency` and its companions belong to asynchronous tasks, `task.batch.*` to batch tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.guarantee import Guarantee
from samzapy.config.reading.keys import BOOLEAN, Key, collect, integer
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class AsyncConfig:
    """`callback_timeout_ms` <= 0: no limit. `commit_in_flight`: commits do not wait for messages in flight.
    `key_order`: messages of one key are never in flight together."""

    max_concurrency: int = 1
    callback_timeout_ms: int = -1
    commit_in_flight: bool = False
    key_order: bool = False
    commit_max_delay_ms: int = 60_000


@dataclass(frozen=True)
class BatchConfig:
    """`max_messages` 0: all messages of a partition in one poll. `max_wait_ms` 0: a batch does not wait for more."""

    max_messages: int = 0
    max_wait_ms: int = 0


MAX_CONCURRENCY = Key(
    "task.max.concurrency", integer(1, 100_000), 1, "Maximum number of messages in flight per asynchronous task."
)
CALLBACK_TIMEOUT_MS = Key(
    "task.callback.timeout.ms",
    integer(),
    -1,
    "Milliseconds after which an incomplete message ends the attempt. The next attempt replays it. <= 0: never.",
)
ASYNC_COMMIT = Key(
    "task.async.commit",
    BOOLEAN,
    False,
    "Whether to commit while messages are in flight, up to the first incomplete one; at-least-once only. Stores "
    "may then be ahead of the committed inputs.",
)
KEY_ORDER = Key(
    "task.async.key.order",
    BOOLEAN,
    False,
    "Whether a message starts only after its predecessor with the same key is complete. Later messages with its key "
    "may overtake a message that decodes only when it is repeated, but they never overlap with it.",
)
COMMIT_MAX_DELAY_MS = Key(
    "task.commit.max.delay.ms",
    integer(1),
    60_000,
    "Milliseconds that a commit waits for messages in flight. After that the container skips it and tries again "
    "at the next one.",
)
MAX_MESSAGES = Key(
    "task.batch.max.messages",
    integer(0, 10_000_000),
    0,
    "Maximum number of messages in one call of a batch task. 0: all messages of the partition in a poll.",
)
MAX_WAIT_MS = Key(
    "task.batch.max.wait.ms",
    integer(0, 3_600_000),
    0,
    "Maximum milliseconds to gather task.batch.max.messages messages. 0: do not wait beyond a poll. At-most-once "
    "may lose gathered messages.",
)
KEYS = collect(globals())


def parse_async(reader: Reader, guarantee: Guarantee, transaction_timeout_ms: int) -> AsyncConfig:
    """Read how asynchronous tasks run; note settings that the guarantee forbids."""
    config = AsyncConfig(
        reader.get(MAX_CONCURRENCY),
        reader.get(CALLBACK_TIMEOUT_MS),
        reader.get(ASYNC_COMMIT),
        reader.get(KEY_ORDER),
        reader.get(COMMIT_MAX_DELAY_MS),
    )
    if config.commit_in_flight and guarantee is not Guarantee.AT_LEAST_ONCE:
        reader.problem(
            ASYNC_COMMIT.name, f"needs at-least-once: {guarantee.value} commits with nothing in flight", "true"
        )
    if guarantee.transactional and config.callback_timeout_ms >= transaction_timeout_ms:
        reader.problem(
            CALLBACK_TIMEOUT_MS.name,
            f"({config.callback_timeout_ms}) must be < task.transaction.timeout.ms ({transaction_timeout_ms}) "
            f"with {guarantee.value}",
        )
    return config


def parse_batch(reader: Reader) -> BatchConfig:
    """Read how batches are gathered; note a wait without an end."""
    config = BatchConfig(reader.get(MAX_MESSAGES), reader.get(MAX_WAIT_MS))
    if config.max_wait_ms and not config.max_messages:
        reader.problem(MAX_MESSAGES.name, f"must be > 0 with {MAX_WAIT_MS.name}, e.g. 10000", "0")
    return config
