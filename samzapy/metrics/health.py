"""Answers liveness and readiness probes. Pure functions.

alive   the run goes on. A container that waits for a slot, or is being restarted, does not make a job dead: ending the
        driver would not help it.
ready   every container processes messages: it holds its lease, and has started, restored and initialised. A container at
        the end of its inputs is ready, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

#: Most containers that an answer names.
_NAMED = 20


class Container(Protocol):
    """A container as its driver knows it: the state of its lease, the phase of its newest attempt, and the (offsets read,
    offsets to read) of its restores."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def restoring(self) -> tuple[int, int] | None: ...


class Health(NamedTuple):
    """The answer to a probe: HTTP status 200 or 503, and lines of text that say why."""

    status: int
    text: str


def alive(ended: str) -> Health:
    """`/healthz`: 503 once the run is over or taken over. `ended` is the reason, empty while the run goes on."""
    return Health(503, f"{ended}\n") if ended else Health(200, "ok\n")


def ready(containers: Iterable[Container], *, stopping: bool = False, ended: str = "") -> Health:
    """`/readyz`: 503 while a container is not ready, with a line for each of the first of them, and once the job is
    `stopping` or has `ended`, as in `alive`."""
    if ended:
        return Health(503, f"{ended}\n")
    if stopping:
        return Health(503, "the job stops\n")
    waiting = [reason for container in containers if (reason := _not_ready(container))]
    if not waiting:
        return Health(200, "ok\n")
    more = [f"and {len(waiting) - _NAMED} more"] if len(waiting) > _NAMED else []
    return Health(503, "".join(f"{line}\n" for line in (*waiting[:_NAMED], *more)))


def _not_ready(container: Container) -> str:
    if container.state == "done" or (container.state == "running" and container.phase in {"running", "done"}):
        return ""
    if container.state != "running":
        return f"container {container.id}: {container.state}"
    if container.phase == "restoring" and container.restoring is not None:
        read, expected = container.restoring
        return f"container {container.id}: restoring, {read:,} of {expected:,} offsets"
    return f"container {container.id}: {container.phase or 'starting'}"
