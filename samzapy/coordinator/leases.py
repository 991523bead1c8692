"""Decides which attempt may run a container.

An attempt registers and is granted an epoch. It owns the container until another attempt registers, with a greater
epoch, or until it stays silent for the length of the lease, after which it has to stop by itself. So at any time all
attempts but one get the answer ABANDON. Epochs only grow: they follow the epoch in the run's record next to the
checkpoints, which is greater than all epochs of earlier runs. Without such a record they start at the wall clock's
milliseconds. No I/O, no lock: one caller at a time.

    WAITING --grant--> RUNNING --finish--> DONE
                       ^  |  |
                       |  |  +--finish, or the lease expires--> LOST
                       |  +<--renew-- LOST
                       +<--grant (the next attempt)-- RUNNING, DONE, LOST
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from samzapy.clock import Clock
from samzapy.job.lease import Directive


class ContainerState(Enum):
    """The state of a container, from the coordinator's view."""

    WAITING = "waiting"
    """No attempt has registered yet; or the last one was released, and has ended well for the next one."""
    RUNNING = "running"
    """An attempt holds the lease."""
    LOST = "lost"
    """The lease of the last attempt has expired, or the attempt failed."""
    DONE = "done"
    """The last attempt ended well."""


class Standing(NamedTuple):
    """The state of a container, the number of its attempts and the newest epoch (None before the first attempt)."""

    state: ContainerState
    attempts: int
    epoch: int | None


@dataclass
class _Grant:
    epoch: int
    expires: float
    state: ContainerState


class Leases:
    """The leases of one job's containers, `duration_s` seconds each. Unknown container ids raise KeyError."""

    def __init__(self, container_ids: Iterable[str], duration_s: float, clock: Clock, epoch: int | None = None) -> None:
        """`epoch`: the run's recorded epoch, None without a record."""
        self._grants: dict[str, _Grant | None] = dict.fromkeys(container_ids)
        self._attempts = dict.fromkeys(self._grants, 0)
        self.duration_s = duration_s
        self._clock = clock
        self._by_clock = epoch is None
        self._last_epoch = epoch or 0
        self.stopping = self.draining = False
        """Whether the whole job was asked to stop, to drain."""
        self._abandoned = False
        self._released: set[str] = set()

    def grant(self, container_id: str) -> int:
        """Register a new attempt and return its epoch; an older attempt is superseded."""
        self._attempts[container_id] += 1
        self._last_epoch = max(self._last_epoch + 1, self._clock.wall_ms() if self._by_clock else 0)
        self._grants[container_id] = _Grant(self._last_epoch, self._expiry(), ContainerState.RUNNING)
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
        directive, grant = self.directive(container_id, epoch), self._grants[container_id]
        if directive is not Directive.ABANDON and grant is not None:
            if grant.state is not ContainerState.DONE:
                grant.state = ContainerState.RUNNING
            grant.expires = self._expiry()
        return directive

    def directive(self, container_id: str, epoch: int) -> Directive:
        """The directive for a report of this attempt. Does not renew its lease."""
        grant = self._grants[container_id]
        if self._abandoned or grant is None or grant.epoch != epoch:
            return Directive.ABANDON
        if self.stopping or container_id in self._released:
            return Directive.STOP
        return Directive.DRAIN if self.draining else Directive.CONTINUE

    def finish(self, container_id: str, epoch: int, state: ContainerState) -> None:
        """Record the end of an attempt, unless it is superseded."""
        grant = self._grants[container_id]
        if grant is not None and grant.epoch == epoch:
            grant.state = state

    def release(self, container_id: str) -> None:
        """Answer STOP to the present attempt of this container, but not to later ones."""
        self._released.add(container_id)

    def abandon(self) -> None:
        """Answer ABANDON to every renewal from now on."""
        self._abandoned = True

    @property
    def overdue(self) -> tuple[str, ...]:
        """The containers with an expired lease of an attempt that has not reported its end."""
        return tuple([name for name, grant in self._grants.items() if grant is not None and self._has_expired(grant)])

    def standing(self, container_id: str) -> Standing:
        """The standing of the container now."""
        grant, attempts = self._grants[container_id], self._attempts[container_id]
        if grant is None:
            return Standing(ContainerState.WAITING, attempts, None)
        state = ContainerState.LOST if self._has_expired(grant) else grant.state
        if state is ContainerState.DONE and container_id in self._released and not self.stopping:
            state = ContainerState.WAITING
        return Standing(state, attempts, grant.epoch)

    def _has_expired(self, grant: _Grant) -> bool:
        return grant.state is ContainerState.RUNNING and self._clock.monotonic() >= grant.expires

    def _expiry(self) -> float:
        return self._clock.monotonic() + self.duration_s
