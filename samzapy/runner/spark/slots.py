"""Submits containers and standbys to Spark, slot by slot, and submits again what its policy wants elsewhere.

A slot is one Spark job. Where Spark places the containers, one slot has all of them, and Spark tries a lost one again.
Where the place matters each container is a slot, and so is each standby:

1. Spark gets one try at a slot. The next one is submitted here, to the place that the policy names.
2. A standby whose copies are wanted lets go first, with complete copies, and its copies become the stores.
3. A standby stays in an executor that does not run its container.

To the supervisor all slots together are one submission. It fails when a slot has failed as often as it may.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from samzapy.clock import Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.progress import ContainerStatus
from samzapy.errors import SamzapyError
from samzapy.job.model import active_of
from samzapy.runner.spark.placement import NO_ROOM, ContainerSlot, PlacementPolicy, SparkAttempt

#: Seconds between two looks, if nothing ends meanwhile.
PACE_S = 0.25
#: A container that has run for so many seconds has not failed in a row.
SOUND_S = 300.0
#: Seconds a standby gets to let go of its copies, and between two attempts to find it an executor of its own.
RELEASE_S, STANDBY_PAUSE_S = 15.0, 5.0

#: Starts the Spark job of some containers, at one of the places if there is room (None: wherever Spark likes).
Submit = Callable[[Sequence[str], Sequence[str] | None, Callable[[], None]], SparkAttempt]


class SlotRun:
    """Starts at once, in a thread of its own; `ended` is called when it is over."""

    def __init__(
        self,
        containers: Sequence[ContainerSlot],
        standbys: Sequence[ContainerSlot],
        coordinator: Coordinator,
        submit: Submit,
        policy: PlacementPolicy,
        clock: Clock,
        ended: Callable[[], None],
        *,
        tries: int = 4,
    ) -> None:
        """`tries`: failures of one slot in a row before the run gives up."""
        self._containers = containers
        self._standbys = {slot.id: slot for slot in standbys}
        self._coordinator = coordinator
        self._submit = submit
        self._policy = policy
        self._clock = clock
        self._over = ended
        self._tries = tries
        self._failure: SamzapyError | None = None
        self._reason: str | None = None
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slots", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether any container is still to be run."""
        return self._thread.is_alive()

    def error(self) -> str | None:
        """The reason for giving up; None if every container ended. Raises EnvironmentFailure."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._reason

    def _run(self) -> None:
        try:
            while self._reason is None and not all(slot.done for slot in self._containers):
                self._look()
                self._wake.wait(PACE_S)
                self._wake.clear()
            self._end_standbys()
        except SamzapyError as failure:
            self._failure = failure
        except Exception as cause:  # noqa: BLE001  # the driver's JVM may be gone: the supervisor finds out
            self._reason = f"{type(cause).__name__}: {cause}"
        finally:
            for slot in (*self._containers, *self._standbys.values()):
                if slot.attempt is not None and slot.attempt.running:
                    slot.attempt.cancel()
            self._over()

    def _look(self) -> None:
        now = self._clock.monotonic()
        # In this order: an attempt that has ended has reported everything by now.
        over = [slot.attempt for slot in self._containers if slot.attempt is not None and not slot.attempt.running]
        status = {each.id: each for each in self._coordinator.status().everyone}
        for slot in self._containers:
            self._policy.note(slot, status[slot.id])
            if slot.attempt is not None and slot.attempt in over:
                self._ended(slot, slot.attempt, status, now)
            elif slot.attempt is not None and slot.taken_back is None:
                slot.taken_back = self._policy.hopeless(slot, status, now)
                if slot.taken_back is not None:
                    slot.attempt.cancel()
            if self._reason is not None:
                return
            if slot.attempt is None and not slot.done and self._may_start(slot, now):
                attempt = self._submit(slot.ids, self._policy.wanted(slot), self._wake.set)
                slot.begin(attempt, now, before=status[slot.id].epoch or 0)
        if not self._coordinator.stopping:
            for standby in self._standbys.values():
                self._tend(standby, status, now)

    def _ended(
        self, slot: ContainerSlot, attempt: SparkAttempt, status: dict[str, ContainerStatus], now: float
    ) -> None:
        reason, slot.attempt = attempt.error(), None
        if reason is None:
            slot.done = True
            return
        if slot.taken_back != NO_ROOM:
            slot.failures = 1 if now - slot.started > SOUND_S else slot.failures + 1
        if slot.failures >= self._tries:
            self._reason = slot.taken_back or reason
            return
        slot.released = self._policy.successor(slot, reason, status)
        slot.taken_back = None
        slot.due = now + RELEASE_S
        if slot.released is not None:
            self._coordinator.release(slot.released)

    def _may_start(self, slot: ContainerSlot, now: float) -> bool:
        """Whether the standby that the container waits for has let go, or takes too long."""
        if slot.released is None:
            return True
        attempt = self._standbys[slot.released].attempt
        return attempt is None or not attempt.running or now >= slot.due

    def _tend(self, standby: ContainerSlot, status: dict[str, ContainerStatus], now: float) -> None:
        """Keep a standby in an executor that does not run its container."""
        active = active_of(standby.id)
        at = self._policy.place(active)
        if standby.attempt is not None and not standby.attempt.running:
            standby.attempt = None
            standby.due = now + STANDBY_PAUSE_S
        if at is None or status[active].state != ContainerState.RUNNING.value:
            return
        if standby.attempt is None:
            locations = self._policy.beside(at) if now >= standby.due else []
            if locations:
                standby.begin(self._submit(standby.ids, locations, self._wake.set), now)
        elif status[standby.id].state == ContainerState.RUNNING.value and at == self._policy.place(standby.id):
            self._coordinator.release(standby.id)

    def _end_standbys(self) -> None:
        """Let them complete their copies."""
        for slot in self._standbys.values():
            self._coordinator.release(slot.id)
        until = self._clock.monotonic() + RELEASE_S
        while any(slot.attempt and slot.attempt.running for slot in self._standbys.values()):
            if self._reason is not None or self._clock.monotonic() > until:
                break
            self._wake.wait(PACE_S)
            self._wake.clear()
