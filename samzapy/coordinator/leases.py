"""Decides which attempt may run a container: a state machine of grants and renewals.

An attempt registers and is granted an epoch. It then owns the container until another attempt registers, with a greater
epoch, or until it stays silent for the length of the lease, after which it has to stop by itself. So at any time all
attempts but one get the answer ABANDON. Epochs only grow: they follow the epoch in the run's record beside the
checkpoints, which is greater than all epochs of earlier runs. Without such a record they start at the wall clock's
milliseconds. No I/O, no lock: one caller at a time.

A driver asks several times a second which of a thousand leases have run out. So `Leases` keeps a time before which none
can run out, and looks at all of them only after it: a renewed or a new lease ends later than every lease of that
moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

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


#: The state of a container, the number of its attempts and the newest epoch (None before the first attempt).
Standing: TypeAlias = tuple[str, int, int | None]


@dataclass
class _Grant:
    epoch: int
    expires: float
    state: ContainerState


class Leases:
    """The leases of one job's containers, `duration_s` seconds each."""

    def __init__(self, container_ids: Iterable[str], duration_s: float, clock: Clock, epoch: int | None = None) -> None:
        """`epoch`: the run's recorded epoch, None without a record."""
        self._grants: dict[str, _Grant | None] = dict.fromkeys(container_ids)
        self._attempts = dict.fromkeys(self._grants, 0)
        self._standings: dict[str, Standing] = dict.fromkeys(self._grants, (ContainerState.WAITING.value, 0, None))
        self._moved = dict(self._standings)
        # Containers with an expired lease, and a time before which no other lease runs out.
        self._silent: set[str] = set()
        self._quiet_until = -math.inf
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
        self._moves(container_id, ContainerState.RUNNING)
        return self._last_epoch

    def outgrow(self, container_id: str, epoch: int, newest: int) -> int | None:
        """Grant the attempt with `epoch` one that is greater than `newest`; None if the attempt is superseded."""
        grant = self._grants[container_id]
        if grant is None or grant.epoch != epoch or self._abandoned:
            return None
        self._last_epoch = grant.epoch = max(self._last_epoch, newest) + 1
        self._stand(container_id, self._standings[container_id][0])
        return grant.epoch

    def renew(self, container_id: str, epoch: int) -> Directive:
        """Renew the lease; this revives an expired lease, unless another attempt has registered."""
        directive, grant = self.directive(container_id, epoch), self._grants[container_id]
        if directive is not Directive.ABANDON and grant is not None:
            if grant.state is not ContainerState.DONE:
                self._revive(container_id, grant)
            grant.expires = self._expiry()
        return directive

    def directive(self, container_id: str, epoch: int) -> Directive:
        """The directive for a report of this attempt. Does not renew its lease."""
        grant = self._grants[container_id]
        if self._abandoned or grant is None or grant.epoch != epoch:
            return Directive.ABANDON
        if self._stopping or container_id in self._released:
            return Directive.STOP
        return Directive.DRAIN if self._draining else Directive.CONTINUE

    def finish(self, container_id: str, epoch: int, state: ContainerState) -> None:
        """Record the end of an attempt, unless it is superseded."""
        grant = self._grants[container_id]
        if grant is not None and grant.epoch == epoch:
            grant.state = state
            self._moves(container_id, state)

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

    @property
    def overdue(self) -> tuple[str, ...]:
        """The containers with an expired lease of an attempt that has not reported its end."""
        self._expire()
        return tuple([each for each in self._grants if each in self._silent]) if self._silent else ()

    def take_moved(self) -> Mapping[str, Standing]:
        """The standings that have changed since the last call; all of them at the first."""
        self._expire()
        moved, self._moved = self._moved, {}
        return moved

    def standings(self, container_ids: Iterable[str]) -> list[Standing]:
        """The standings of these containers, as of one moment."""
        self._expire()
        return [self._standings[each] for each in container_ids]

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

    def _expire(self) -> None:
        """Note the leases that have run out by now."""
        now = self._clock.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + self._duration_s
        for container_id, grant in self._grants.items():
            if grant is None or grant.state is not ContainerState.RUNNING or container_id in self._silent:
                continue
            if now >= grant.expires:
                self._silent.add(container_id)
                self._stand(container_id, ContainerState.LOST.value)
            else:
                self._quiet_until = min(self._quiet_until, grant.expires)

    def _revive(self, container_id: str, grant: _Grant) -> None:
        if grant.state is not ContainerState.RUNNING or container_id in self._silent:
            grant.state = ContainerState.RUNNING
            self._moves(container_id, ContainerState.RUNNING)

    def _moves(self, container_id: str, state: ContainerState) -> None:
        """Note that the newest attempt has been heard, and is in this state now."""
        self._silent.discard(container_id)
        self._stand(container_id, state.value)

    def _stand(self, container_id: str, state: str) -> None:
        standing = (state, self._attempts[container_id], self.epoch(container_id))
        self._standings[container_id] = self._moved[container_id] = standing
