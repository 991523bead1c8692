"""Runs a planned replay: restores, proves that the restored state is the commit's, and yields the steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from types import TracebackType

from samzapy.api.task import AnyTask
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.job.files import TemporaryFolder
from samzapy.replay.attempt import Begin, ReplayAttempt, scratch_job
from samzapy.replay.evidence import CommittedRecords, lost_state
from samzapy.replay.feed import Feed, Place, Row
from samzapy.replay.history import FROM_EMPTY, committed_range, state_wanted
from samzapy.replay.past import Past
from samzapy.replay.plan import Plan
from samzapy.replay.recording import Recorder, Step
from samzapy.replay.user_class import Debugger, NoDebugger
from samzapy.system.clients import SystemClients, job_clients


class Replay:
    """One run of a plan, in a folder that is removed at the end. Use it as a context; then `steps` once."""

    def __init__(
        self,
        config: JobConfig,
        planned: Plan,
        kind: type[AnyTask] | None = None,
        debugger: Debugger | None = None,
        stop: Place | None = None,
    ) -> None:
        """`kind`: another version of the task's class. `stop`: the message at which the debugger stops before it is
        processed."""
        self._config = config
        self._plan = planned
        self._kind = kind or load_task_class(config.task.task_class)
        self._debugger = debugger or NoDebugger()
        self._stop = stop
        self._cleanup = ExitStack()
        self._attempt: ReplayAttempt | None = None
        self._rows: Iterator[Row] = iter(())

    def __enter__(self) -> Replay:  # noqa: PYI034  # typing has no Self in Python 3.10
        with ExitStack() as failing:
            folder = failing.enter_context(TemporaryFolder("replay")).path
            clients = failing.enter_context(closing(job_clients(self._config, "replay")))
            self._start(folder, clients, failing)
            self._cleanup = failing.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._cleanup.close()

    def _start(self, folder: Path, clients: SystemClients, cleanup: ExitStack) -> None:
        planned = self._plan
        rows = planned.slice.rows(clients.consumer)
        cleanup.callback(rows.close)
        ahead = next(rows, None)
        self._rows = rows if ahead is None else chain((ahead,), rows)
        time_ms = planned.checkpoint.time_ms
        if ahead is not None and ahead.time_ms > 0:
            time_ms = min(time_ms, ahead.time_ms)
        ends = {store.changelog: store.end for store in planned.stores.values()}
        past = Past(ends, Feed(planned.task.ssps), Recorder(), from_empty=planned.from_empty)
        self._attempt = ReplayAttempt(
            scratch_job(self._config, folder),
            planned.task,
            planned.tasks,
            self._kind,
            Begin(planned.checkpoint, time_ms, planned.first),
            past,
            debugger=self._debugger,
            stop=self._stop,
        )
        cleanup.callback(self._attempt.close)
        with state_wanted():
            self._attempt.start()
        if not planned.from_empty:
            self._prove(self._attempt, past, clients)

    def _prove(self, attempt: ReplayAttempt, past: Past, clients: SystemClients) -> None:
        """Raise EnvironmentFailure unless the changelogs still have the state."""
        for name, store in self._plan.stores.items():
            result = attempt.stores.restored[name]
            of_snapshot = result.source.startswith("snapshot")
            start = past.read_from.get(store.changelog, store.last + 1) if of_snapshot else 0
            log = committed_range(clients, store.changelog)
            state = CommittedRecords(store.changelog, start, store.last, store.no_records)
            age_ms = SYSTEM_CLOCK.wall_ms() - self._plan.checkpoint.time_ms
            reason = lost_state(clients.consumer, state, log, deletions_kept=age_ms < store.deletions_kept_ms)
            if reason is not None:
                raise EnvironmentFailure(f"store '{name}': {reason}; choose a later offset, or {FROM_EMPTY}")

    @property
    def restored(self) -> tuple[str, ...]:
        """A line for each store, with the source of its entries."""
        assert self._attempt is not None
        lines = []
        for name, result in sorted(self._attempt.stores.restored.items()):
            store = self._plan.stores.get(name)
            upto = f" of {store.changelog} up to offset {store.last}" if store is not None and store.last >= 0 else ""
            lines.append(f"store {name}: {result.source}, {result.records:,} records{upto}")
        return tuple(lines)

    def entries(self, store: str) -> dict[bytes, bytes]:
        """The current committed entries of a store, serialized."""
        assert self._attempt is not None
        return self._attempt.entries(store)

    def steps(self) -> Iterator[Step]:
        """Process the records; yields each complete step."""
        assert self._attempt is not None
        return self._attempt.steps(self._rows)

    @property
    def failure(self) -> SamzapyError | None:
        """The error that has ended the replay before the last record, None for none."""
        assert self._attempt is not None
        return self._attempt.failure

    @property
    def stopped_by_task(self) -> bool:
        """Whether the task has asked for its end before the last record."""
        assert self._attempt is not None
        return self._attempt.stopped_by_task
