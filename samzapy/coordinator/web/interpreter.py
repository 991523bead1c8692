"""Keeps the pauses of Python's lock and garbage collector short while reports have to be answered.

1. A computing thread releases Python's lock after `SWITCH_S`. The event loop needs the lock three or four times for a
   report, and may wait that long each time.
2. A full collection looks at every object that may be part of a cycle, and holds the lock meanwhile: a tenth of a
   second for the model of a job of 20,000 tasks and the connections of 1,000 containers, several times a minute.
   Objects that live as long as the job are therefore frozen, so no collection looks at them: all objects of the start,
   and all objects again when the containers have registered.
"""

from __future__ import annotations

import asyncio
import gc
import sys

#: Seconds after which a computing thread lets another run; Python's default is 5 ms.
SWITCH_S = 0.001
#: Seconds after the last registration when objects are frozen again, and seconds between two times.
_REST_S, _PACE_S = 5.0, 60.0


class ShortPauses:
    """The settings of the interpreter while a coordinator serves, from now until `end`."""

    def __init__(self) -> None:
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_s, SWITCH_S))
        gc.freeze()
        self._due: asyncio.TimerHandle | None = None
        self._not_before = 0.0

    def note(self) -> None:
        """Note that a container has registered, so that there are new objects to freeze. Called by the event loop's
        thread."""
        loop = asyncio.get_running_loop()
        if self._due is not None:
            self._due.cancel()
        self._due = loop.call_at(max(loop.time() + _REST_S, self._not_before), self._freeze, loop)

    def end(self) -> None:
        """Restore the settings, after the event loop has ended."""
        gc.unfreeze()
        sys.setswitchinterval(self._switch_s)

    def _freeze(self, loop: asyncio.AbstractEventLoop) -> None:
        # Frozen garbage would stay until the end, so the collector looks at everything once more.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._due, self._not_before = None, loop.time() + _PACE_S
