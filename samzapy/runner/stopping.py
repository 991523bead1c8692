"""Stops a run: by a signal, or by a program from any thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, final

#: The event after the first signal.
STOPPING = "stopping: every task commits first; a second signal ends the job at once"

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@final
class StopSwitch:
    """Asks a run to stop, from any thread, also before the run can stop: then it stops as soon as it can."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may call `ask` while its own thread holds the lock.
        self._lock = threading.RLock()
        self._asked = False
        self._stop: Callable[[], object] = lambda: None

    @property
    def asked(self) -> bool:
        return self._asked

    def ask(self) -> None:
        """Make every task commit and stop. A second call changes nothing."""
        with self._lock:
            # One line: Python runs no signal handler within it.
            asked, self._asked = self._asked, True
            stop = self._stop
        if not asked:
            stop()

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """A context in which `ask` calls `stop`, which must not block."""
        with self._lock:
            self._stop, asked = stop, self._asked
        if asked:
            stop()
        try:
            yield
        finally:
            with self._lock:
                self._stop = lambda: None


@final
class StopSignals:
    """A context in which the first signal asks `switch`; a second SIGTERM or SIGINT calls `abort` and ends the process
    with 128 + its number.

    SIGHUP says that the terminal is gone: shell and kernel both send it, so it stops the job and never ends the
    process. Under `nohup` it is ignored.

    A runner enters it before it claims the job: a run that has claimed its job stops in order, and gives the job back.

    Outside the main thread it does nothing: then the surrounding program handles signals. A handler that was not
    installed from Python, as in a server that embeds Python, stays in place: Python could not restore it.

    A forked child, as of a `multiprocessing.Pool` in a task, handles signals as if there were no context.
    """

    def __init__(self, switch: StopSwitch) -> None:
        self._pid = os.getpid()
        self._switch = switch
        self._is_repeated = False
        self._previous: dict[signal.Signals, Any] = {}
        self.abort: Callable[[], object] = lambda: None

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            known = {number: signal.getsignal(number) for number in SIGNALS}
            if known[signal.SIGHUP] is signal.SIG_IGN:
                del known[signal.SIGHUP]
            replaceable = [number for number, handler in known.items() if handler is not None]
            self._previous = {number: signal.signal(number, self._handle) for number in replaceable}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self.__exit__(None, None, None)
            os.kill(os.getpid(), number)
            return
        if not self._is_repeated or number == signal.SIGHUP:
            self._is_repeated |= number != signal.SIGHUP
            self._switch.ask()
            return
        try:
            self.abort()
        finally:
            os._exit(128 + number)


def end_within(seconds: float, code: int) -> None:
    """End this process so long after its main thread at the latest: Python waits for ever for threads of the job's code
    that are no daemons."""

    def end() -> None:
        threading.main_thread().join()
        threading.Event().wait(seconds)
        names = [item.name for item in threading.enumerate() if not (item.daemon or item is threading.main_thread())]
        os.write(2, f"warning: the process ends without its threads {', '.join(names)}\n".encode())
        os._exit(code)

    threading.Thread(target=end, daemon=True).start()
