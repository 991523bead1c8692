"""What fills a store from streams: side inputs, and the replay of an input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from samzapy.api.context import JobContext
from samzapy.api.envelope import IncomingMessageEnvelope


class SideInputsProcessor(ABC):
    """Named by `stores.NAME.side.inputs.processor.factory` or `stores.NAME.restore.inputs.processor.factory`; made
    without arguments, one for each store of a task.

    What a message does to the store may depend on the message and the store alone: after a crash messages are processed
    again, on the store as it was before them.
    """

    def init(self, job: JobContext) -> None:  # not every processor has something to prepare
        """Called once, before the first message."""

    @abstractmethod
    def process(self, message: IncomingMessageEnvelope, store: Any) -> Iterable[tuple[Any, Any]] | None:
        """The entries to put into the store, in order; a value of None deletes its key, a key of None
        is left out.

        `store` is the one to be filled, as a task gets it, and may be read and written here. With an engine that has an
        interface of its own the processor writes through that, and returns nothing. An exception ends the attempt.
        """
