"""`task.max.concurrency` and its companions: how asynchronous tasks run. They have no effect on a StreamTask."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.guarantee import Guarantee
from samzapy.config.reading.keys import BOOLEAN, Key, collect, integer
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class AsyncConfig:
    """`callback_timeout_ms` <= 0: no limit. `commit_in_flight`: commits do not wait for messages in flight. `key_order`:
    messages of one key are never in flight together."""

    max_concurrency: int = 1
    callback_timeout_ms: int = -1
    commit_in_flight: bool = False
    key_order: bool = False
    commit_max_delay_ms: int = 60_000


MAX_CONCURRENCY = Key(
    "task.max.concurrency", integer(1, 100_000), 1, "Messages an asynchronous task may have in flight at once."
)
CALLBACK_TIMEOUT_MS = Key(
    "task.callback.timeout.ms",
    integer(),
    -1,
    "Milliseconds after which an incomplete message ends the attempt, to be replayed; <= 0: never.",
)
ASYNC_COMMIT = Key(
    "task.async.commit",
    BOOLEAN,
    False,
    "Commit while messages are in flight, up to the first incomplete one; at-least-once only. Stores may then be ahead of the "
    "committed inputs.",
)
KEY_ORDER = Key(
    "task.async.key.order", BOOLEAN, False, "Start a message only when its predecessor with the same key is complete."
)
COMMIT_MAX_DELAY_MS = Key(
    "task.commit.max.delay.ms",
    integer(1),
    60_000,
    "Milliseconds that a commit waits for messages in flight; after that it is skipped, and the next one tries again.",
)
KEYS = collect(globals())


def parse_async(reader: Reader, guarantee: Guarantee, transaction_timeout_ms: int) -> AsyncConfig:
    """Read how asynchronous tasks run; note what the guarantee forbids."""
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
