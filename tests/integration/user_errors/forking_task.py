"""A task that forks in `process` and waits for its child, which ends in a way that depends on the message."""

import multiprocessing
import os
import sys

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream

#: The message that forks a child, and how the child ends: `return` and `use` go on in the loop of the container.
HOW = {50: "exit", 120: "raise", 190: "return", 260: "use", 330: "pool"}


def square(number):
    return number * number


class Forking(StreamTask, InitableTask):
    """Counts the messages of each key, and sends every message on."""

    def init(self, context):
        self._counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self._counts.put(envelope.key, (self._counts.get(envelope.key) or 0) + 1)
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message, key=envelope.key))
        how = HOW.get(envelope.message)
        if how is None:
            return
        if how == "pool":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(square, range(3)) == [0, 1, 4]
            return
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        elif how == "exit":
            sys.exit(0)
        elif how == "raise":
            raise RuntimeError("of the child")
        elif how == "use":
            collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), -1, key="child"))
            coordinator.commit()
            self._counts.put("child", 1)
            self._counts.get("absent")
