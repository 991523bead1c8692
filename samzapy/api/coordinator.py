"""What a task may ask of the container that runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum


class RequestScope(Enum):
    """Whom a request is about."""

    CURRENT_TASK = "current task"
    ALL_TASKS_IN_CONTAINER = "all tasks in the container"


class TaskCoordinator(ABC):
    """Requests from a task; they take effect when the call in which they were made returns, commits before shutdowns."""

    @abstractmethod
    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Commit before the next message. The state of all tasks in a container is one transaction, so both scopes commit
        all of them; asynchronous tasks are waited for together, for `task.commit.max.delay.ms` at most."""

    @abstractmethod
    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Stop. ALL_TASKS_IN_CONTAINER stops the container at once (with a final commit); CURRENT_TASK is a vote:
        the container stops when every task in it has voted, and a task that voted goes on processing until then.
        """
