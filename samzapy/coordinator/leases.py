"""Decides which attempt may run a container: a state machine of grants and renewals.

An attempt registers and is granted an epoch. It then owns the container until another attempt registers, with a greater
epoch, or until it stays silent for the length of the lease, after which it has to stop by itself. So at any time all attempts
but one get the answer ABANDON. Epochs only grow: they follow the epoch in the run's record beside the checkpoints, which is
greater than those of all earlier runs. Without such a record they start at the wall clock's milliseconds. No I/O, no lock: one
caller at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from samzapy.clock import Clock
from samzapy.job.lease import Directive


class ContainerState(Enum):
    """The state of a container, from the coordinator's view."""

    WAITING = "waiting"
    """No attempt has registered yet."""
    RUNNING = "running"
    """An attempt holds the lease."""
    LOST = "lost"
    """The lease of the last attempt has expired, or the attempt failed."""
    DONE = "done"
    """The last attempt ended well."""


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
        """`epoch`: the run's recorded epoch, None without a record."""
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
        """Seconds that a container may go on without an answer."""
        return self._duration_s

    @property
    def stopping(self) -> bool:
        """Whether the whole job was asked to stop."""
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
        """Grant the attempt with `epoch` one that is greater than `newest`; None if the attempt is superseded."""
        grant = self._grants[container_id]
        if grant is None or grant.epoch != epoch or self._abandoned:
            return None
        self._last_epoch = grant.epoch = max(self._last_epoch, newest) + 1
        return grant.epoch

    def renew(self, container_id: str, epoch: int) -> Directive:
        """Renew the lease; this revives an expired lease, unless another attempt has registered."""
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
        """Record the end of an attempt; that of a superseded attempt is ignored."""
        grant = self._grants[container_id]
        if grant is not None and grant.epoch == epoch:
            grant.state = state

    def stop(self) -> None:
        """Answer STOP to every renewal from now on."""
        self._stopping = True

    def drain(self) -> None:
        """Answer DRAIN to every renewal from now on, unless the answer is STOP."""
        self._draining = True

    @property
    def draining(self) -> bool:
        """Whether the whole job was asked to drain."""
        return self._draining

    def release(self, container_id: str) -> None:
        """Answer STOP to the present attempt of this container, but not to later ones."""
        self._released.add(container_id)

    def abandon(self) -> None:
        """Answer ABANDON to every renewal from now on."""
        self._abandoned = True

    def overdue(self, container_id: str) -> bool:
        """Whether the newest attempt's lease has expired without a report of its end."""
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
        """The number of attempts so far."""
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
