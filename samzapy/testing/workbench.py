"""What a test has around a job: a folder for its files, clusters for its streams, a clock."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from samzapy.api.task import AnyTask
from samzapy.clock import Clock
from samzapy.testing.job import JobSource, state_folder, tested_job
from samzapy.testing.streams import Partitions, Streams


class Workbench:
    """One job, and everything it needs, for one test. `close` leaves nothing behind."""

    def __init__(
        self,
        task: type[AnyTask] | None,
        config: JobSource,
        overrides: Mapping[str, str] | None,
        partitions: Partitions,
        clock: Clock,
    ) -> None:
        """As `tested_job`; what the job reads is created, with `partitions`. Raises ConfigError with every problem."""
        self._task = task  # keeps a class alive that only the kit has a name for
        self._folder = Path(tempfile.mkdtemp(prefix="samzapy-test-"))
        try:
            self.job = tested_job(task, config, overrides, self._folder)
            self.streams = Streams(self.job, clock)
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        try:
            self.streams.create_inputs(partitions)
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Path:
        """The folder of the stores."""
        return state_folder(self._folder)

    def close(self) -> None:
        """Remove the files, and forget the clusters; `streams` can still be read. Closing twice is allowed."""
        self.streams.forget()
        shutil.rmtree(self._folder, ignore_errors=True)
