"""Calls a function again and again in a thread of its own: the pace of everything that the driver does beside its run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final


def _nothing() -> None:
    """The default of `last`."""


@final
class Periodic:
    """Looks every `pace_s` seconds, from `start` to `end`, in a daemon thread."""

    def __init__(
        self, name: str, pace_s: float, look: Callable[[], bool], last: Callable[[], object] = _nothing
    ) -> None:
        """`look` returns whether to look again. `last` is called in the same thread when the looking has ended, whatever
        ended it."""
        self._pace_s = pace_s
        self._look = look
        self._last = last
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first look is a pace away."""
        self._thread.start()

    def end(self, patience_s: float | None = None) -> bool:
        """Look no more, and wait for the thread, at most `patience_s`; returns whether it has ended.

        A look that goes on longer is left behind. Without a `start` there is nothing to wait for.
        """
        self._closed.set()
        if self._thread.ident is None:
            return True
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._closed.wait(self._pace_s) and self._look():
                pass
        finally:
            self._last()
