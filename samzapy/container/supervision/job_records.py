"""Opens the records of a job: its checkpoint manager, and the clients that the manager works through.

Everything that reads or writes beside a job's checkpoints comes here, whatever its purpose: containers, the driver's
threads, the tools of `samzapy.admin`, DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from samzapy.api.checkpoint import CheckpointManager
from samzapy.checkpoint import manager_for
from samzapy.config.job import JobConfig
from samzapy.system.clients import SystemClients, job_clients


@contextmanager
def open_job(config: JobConfig, purpose: str) -> Iterator[tuple[SystemClients, CheckpointManager]]:
    """The clients of the job's systems and its checkpoint manager, both closed at the end of the context.

    Nothing is connected or created before it is used. Raises ConfigError.
    """
    with closing(job_clients(config, purpose)) as clients, closing(manager_for(config, clients)) as checkpoints:
        yield clients, checkpoints


class JobRecords:
    """The checkpoint manager of a job, opened when it is first needed and kept until `close`.

    For those that look again and again: after a failure they close it, and the next look opens it anew. One thread at a
    time.
    """

    def __init__(self, config: JobConfig, purpose: str) -> None:
        """Opens nothing yet. `purpose` names the clients."""
        self.kept = config.task.checkpoint is not None
        """Whether the job keeps checkpoints at all; what is written is lost otherwise."""
        self._open = partial(open_job, config, purpose)
        self._opened = ExitStack()
        self._checkpoints: CheckpointManager | None = None

    @property
    def checkpoints(self) -> CheckpointManager:
        """The manager, opened if it is not open."""
        if self._checkpoints is None:
            self._checkpoints = self._opened.enter_context(self._open())[1]
        return self._checkpoints

    @property
    def is_open(self) -> bool:
        """Whether the manager was used since the last `close`."""
        return self._checkpoints is not None

    def close(self) -> None:
        """Close what was opened; the next use opens it again."""
        self._checkpoints = None
        self._opened.close()
