"""`task.chooser.class` and `task.consumer.batch.size`: which of the messages that have arrived come next."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.classes import CHOOSERS, ROUND_ROBIN
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import integer
from samzapy.config.reader import Reader

#: The priority of bootstrap streams that have none of their own: Samza's Int.MaxValue.
BOOTSTRAP_PRIORITY = 2**31 - 1


@dataclass(frozen=True)
class ChooserConfig:
    """`chooser_class`: the path of a MessageChooser, None for turns. `batch_size` 0: whatever a poll has brought."""

    chooser_class: str | None = None
    batch_size: int = 0


CHOOSER_CLASS = Key(
    "task.chooser.class",
    CHOOSERS.kind,
    None,
    "The MessageChooser among partitions of equal priority: `my.module:MyChooser`; round-robin or Samza's "
    "RoundRobinChooserFactory for turns.",
    "turns",
)
CONSUMER_BATCH_SIZE = Key(
    "task.consumer.batch.size",
    integer(0, 10_000_000),
    0,
    "Messages to take of one partition before another gets its turn; 0: all that a poll has brought.",
)
KEYS = collect(globals())


def parse_chooser(reader: Reader) -> ChooserConfig:
    """How the next messages are chosen."""
    chosen = reader.get(CHOOSER_CLASS)
    return ChooserConfig(None if chosen == ROUND_ROBIN else chosen, reader.get(CONSUMER_BATCH_SIZE))
