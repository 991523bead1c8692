"""What tasks have asked for and the loop has not yet done."""

from __future__ import annotations

from samzapy.api.collector import RequestScope, TaskCoordinator


def _no_scope(given: object) -> TypeError:
    return TypeError(f"expected one of {', '.join(map(str, RequestScope))}, got {given!r}")


class CoordinatorRequests(TaskCoordinator):
    """One task's requests. `pending` is looked at after every call into the task."""

    __slots__ = ("commit_asked", "pending", "shutdown_all", "shutdown_vote")

    def __init__(self) -> None:
        self.pending = False
        self.commit_asked = False
        self.shutdown_vote = False
        self.shutdown_all = False

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        if not isinstance(scope, RequestScope):
            raise _no_scope(scope)
        self.pending = self.commit_asked = True

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        self.pending = True
        if scope is RequestScope.ALL_TASKS_IN_CONTAINER:
            self.shutdown_all = True
        elif scope is RequestScope.CURRENT_TASK:
            self.shutdown_vote = True
        else:
            raise _no_scope(scope)

    def interrupt(self) -> None:
        """Let the task return after the message at hand, for something else that is to be done first."""
        self.pending = True

    def done(self) -> None:
        """The loop has obeyed; a vote to shut down stays."""
        self.pending = False
        self.commit_asked = False
