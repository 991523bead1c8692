"""A task that is windows and little else."""

from __future__ import annotations

from abc import abstractmethod

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.task import EndOfStreamListenerTask, InitableTask, StreamTask, WindowableTask
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.reading.reader import Reader
from samzapy.config.tasks.task import WINDOW_MS
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.operators.windows.windows import EventTimeWindows, WindowedAggregation


class WindowedTask(StreamTask, InitableTask, WindowableTask, EndOfStreamListenerTask):
    """A subclass says what it aggregates, and adds messages to `windows` in its `process`.

    The job needs the store named by `window_store`, with string keys and json or msgpack values, and `task.window.ms`:
    that is how often windows are closed. When all inputs have ended (`--until-end`), all windows are closed, and what
    comes for them in a later run is late; with `close_at_end = False` they stay open, for jobs that are run again and
    again over the same growing stream. `clock` tells idle and early times; a test gives another one. A subclass that has
    an `init` of its own calls this one's.
    """

    window_store = "windows"
    close_at_end = True
    clock: Clock = SYSTEM_CLOCK

    windows: EventTimeWindows

    @abstractmethod
    def aggregation(self, context: Context) -> WindowedAggregation:
        """What is aggregated; called once, in `init`."""

    def init(self, context: Context) -> None:
        """Open the windows. Raises ConfigError if the job never calls `window`."""
        window_ms = Reader(context.job.config).get(WINDOW_MS)
        if window_ms <= 0:
            allowed = "must be > 0, e.g. 1000: that is how often windows are closed"
            raise ConfigError([ConfigProblem(WINDOW_MS.name, context.job.config.get(WINDOW_MS.name), allowed)])
        self.windows = EventTimeWindows(context, self.window_store, self.aggregation(context), self.clock)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Close what is over."""
        self.windows.advance(collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Close everything, unless `close_at_end` is False: then what is over."""
        if self.close_at_end:
            self.windows.finish(collector)
        else:
            self.windows.advance(collector)
