"""Tasks that misbehave: one that never returns, one that fails."""

import sys
import threading

from samzapy.api.task import StreamTask


class Stuck(StreamTask):
    """Says so, and waits for ever."""

    def process(self, envelope, collector, coordinator):
        sys.stdout.write("stuck\n")
        sys.stdout.flush()
        threading.Event().wait()


class Failing(StreamTask):
    """Fails at the number 7."""

    def process(self, envelope, collector, coordinator):
        if envelope.message == 7:
            raise ValueError("seven is too many")
