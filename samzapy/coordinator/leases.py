"""Decides which attempt may run a container: a state machine of grants and renewals.

An attempt registers and is granted an epoch; from then on it owns the container until another registers (its epoch is
larger) or until it is silent for the lease's duration, after which it has to stop by itself. So at any time at most
one attempt hears anything but ABANDON. Epochs only grow: they follow the epoch that the run was written down with
beside the checkpoints, which is greater than those of all runs before. Where nothing is written down they start at the
wall clock's milliseconds. No I/O, no lock: one caller at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from samzapy.clock import Clock
from samzapy.job.lease import Directive


class ContainerState(Enum):
    """The state of a container, as the coordinator knows it."""

    WAITING = "waiting"
    """No attempt has registered yet."""
    RUNNING = "running"
    """An attempt holds the lease."""
    LOST = "lost"
    """The last attempt has let its lease run out, or failed."""
    DONE = "done"
    """The last attempt ended as it should."""


#: The states as text: an enum's own attribute takes ten times as long.
_NAMES = {state: state.value for state in ContainerState}
_WAITING, _LOST = _NAMES[ContainerState.WAITING], _NAMES[ContainerState.LOST]


@dataclass
class _Grant:
    epoch: int
    expires: float
    state: ContainerState

    def has_run_out(self, now: float) -> bool:
        """Whether its attempt has been silent for too long."""
        return self.state is ContainerState.RUNNING and now >= self.expires


class Leases:
    """The leases of one job's containers, `duration_s` seconds each."""

    def __init__(self, container_ids: Iterable[str], duration_s: float, clock: Clock, epoch: int | None = None) -> None:
        """`epoch`: the run's, None if it was not written down."""
        self._grants: dict[str, _Grant | None] = dict.fromkeys(container_ids)
        self._attempts = dict.fromkeys(self._grants, 0)
        self._duration_s = duration_s
        self._clock = clock
        self._by_clock = epoch is None
        self._last_epoch = epoch or 0
        self._stopping = False
        self._draining = False
        self._abandoned = False
        self._released: set[str] = set()

    @property
    def duration_s(self) -> float:
        """How long a container may go on without an answer."""
        return self._duration_s

    @property
    def stopping(self) -> bool:
        """Whether everything has been asked to stop."""
        return self._stopping

    def grant(self, container_id: str) -> int:
        """Register a new attempt and return its epoch; an older attempt is superseded. Raises KeyError if unknown."""
        attempts = self._attempts[container_id]
        self._last_epoch = max(self._last_epoch + 1, self._clock.wall_ms() if self._by_clock else 0)
        self._grants[container_id] = _Grant(self._last_epoch, self._expiry(), ContainerState.RUNNING)
        self._attempts[container_id] = attempts + 1
        self._released.discard(container_id)
        return self._last_epoch

    def outgrow(self, container_id: str, epoch: int, newest: int) -> int | None:
        """Grant the attempt that has `epoch` a greater one than `newest`; None if it was superseded."""
        grant = self._grants[container_id]
        if grant is None or grant.epoch != epoch or self._abandoned:
            return None
        self._last_epoch = grant.epoch = max(self._last_epoch, newest) + 1
        return grant.epoch

    def renew(self, container_id: str, epoch: int) -> Directive:
        """Take a sign of life; a late one revives the lease unless another attempt has registered."""
        grant = self._grants[container_id]
        if self._abandoned or grant is None or grant.epoch != epoch:
            return Directive.ABANDON
        if grant.state is not ContainerState.DONE:
            grant.state = ContainerState.RUNNING
        grant.expires = self._expiry()
        if self._stopping or container_id in self._released:
            return Directive.STOP
        return Directive.DRAIN if self._draining else Directive.CONTINUE

    def finish(self, container_id: str, epoch: int, state: ContainerState) -> None:
        """Record the end of an attempt; a superseded attempt does not count."""
        grant = self._grants[container_id]
        if grant is not None and grant.epoch == epoch:
            grant.state = state

    def stop(self) -> None:
        """From now on every renewal is answered STOP."""
        self._stopping = True

    def drain(self) -> None:
        """From now on every renewal is answered DRAIN, unless it is answered STOP."""
        self._draining = True

    @property
    def draining(self) -> bool:
        """Whether everything has been asked to drain."""
        return self._draining

    def release(self, container_id: str) -> None:
        """Answer STOP to this container's attempt, and to no later one's."""
        self._released.add(container_id)

    def abandon(self) -> None:
        """From now on every renewal is answered ABANDON."""
        self._abandoned = True

    def overdue(self, container_id: str) -> bool:
        """Whether the newest attempt's lease has run out without a report of its end."""
        grant = self._grants[container_id]
        return grant is not None and grant.has_run_out(self._clock.monotonic())

    def standings(self, container_ids: Iterable[str]) -> list[tuple[str, int, int | None]]:
        """The state, the number of attempts and the newest epoch of each of these containers, as of one moment."""
        now, grants, attempts = self._clock.monotonic(), self._grants, self._attempts
        found: list[tuple[str, int, int | None]] = []
        for container_id in container_ids:
            grant = grants[container_id]
            if grant is None:
                found.append((_WAITING, attempts[container_id], None))
            else:
                state = _LOST if grant.has_run_out(now) else _NAMES[grant.state]
                found.append((state, attempts[container_id], grant.epoch))
        return found

    def attempts(self, container_id: str) -> int:
        """How many attempts have registered."""
        return self._attempts[container_id]

    def epoch(self, container_id: str) -> int | None:
        """The newest epoch, None before the first attempt."""
        grant = self._grants[container_id]
        return None if grant is None else grant.epoch

    def state(self, container_id: str) -> ContainerState:
        """The state of the container now."""
        return ContainerState(self.standings((container_id,))[0][0])

    def _expiry(self) -> float:
        return self._clock.monotonic() + self._duration_s
