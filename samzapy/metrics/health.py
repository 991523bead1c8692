"""Answers for probes: whether a job is alive, and whether it is ready. Pure functions over a snapshot.

alive   the run goes on. A container that waits for a slot, or that is started again, does not make a job dead: to end
        the driver would not help it.
ready   every container processes: it has a lease, and has started, restored and initialised. A container that has come to
        the end of its inputs is ready, too.
"""

from __future__ import annotations

from typing import NamedTuple

from samzapy.metrics.series import ContainerSnapshot, JobSnapshot

#: The most containers that an answer names.
_NAMED = 20


class Health(NamedTuple):
    """The answer to a probe: HTTP status 200 or 503, and lines of text for people."""

    status: int
    text: str


def alive(job: JobSnapshot) -> Health:
    """`/healthz`: 503 once the run is over or taken over."""
    return Health(503, f"{job.ended}\n") if job.ended else Health(200, "ok\n")


def ready(job: JobSnapshot) -> Health:
    """`/readyz`: 503 while a container does not process, with a line for each of the first of them."""
    if job.ended:
        return Health(503, f"{job.ended}\n")
    if job.stopping:
        return Health(503, "the job stops\n")
    waiting = [reason for container in job.containers if (reason := _not_ready(container))]
    if not waiting:
        return Health(200, "ok\n")
    more = [f"and {len(waiting) - _NAMED} more"] if len(waiting) > _NAMED else []
    return Health(503, "".join(f"{line}\n" for line in (*waiting[:_NAMED], *more)))


def _not_ready(container: ContainerSnapshot) -> str:
    if container.state == "done" or (container.state == "running" and container.phase in {"running", "done"}):
        return ""
    if container.state != "running":
        return f"container {container.id}: {container.state}"
    if container.phase == "restoring" and container.restoring is not None:
        read, expected = container.restoring
        return f"container {container.id}: restoring, {read:,} of {expected:,} offsets"
    return f"container {container.id}: {container.phase or 'starting'}"
